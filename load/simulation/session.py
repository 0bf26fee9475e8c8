"""A live session: it holds a reservation, and where its machine is observed it talks: partials, then one final each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from load.simulation import people
from load.simulation.tables import INTERVAL, PARTIAL, final
from workers.backend import Done, More
from workers.errors import Cancelled, Overloaded, ServingError
from workers.pool import Placed
from workers.task import Lane, Result, Task

if TYPE_CHECKING:
    from load.simulation.fleet import Fleet
    from load.simulation.gateway import Gateway
    from load.simulation.machine import Machine

SILENCE = 0.5
"""Seconds of silence that end an utterance, and in which its final should be there."""


class Reserved(Placed, Protocol):
    """What a session has of a machine, however it was come by."""

    def release(self) -> None: ...


class Session:
    """On a gateway and a machine. When the machine has died, on a gateway alone for a while: its tasks go where there
    is room. When the gateway has died, on nothing, until its client has found another one."""

    __slots__ = (
        "id", "fleet", "gateway", "machine", "lease", "open", "watched", "talking", "leaving", "gone", "said", "alone",
    )  # fmt: skip

    def __init__(self, id: int, fleet: Fleet) -> None:
        self.id, self.fleet = id, fleet
        self.gateway: Gateway | None = None
        self.machine: Machine | None = None
        self.lease: Reserved | None = None
        self.open: dict[int, Utterance] = {}
        self.watched = self.talking = self.leaving = self.gone = False
        self.said = 0
        self.alone = 0.0  # since when it has no machine

    def connect(self, gateway: Gateway) -> None:
        self.gateway = gateway
        gateway.sessions[self.id] = self

    def settle(self, machine: Machine, lease: Reserved) -> None:
        """It has a place."""
        self.machine, self.lease = machine, lease
        machine.sessions[self.id] = self
        self.watched = machine.observed
        if self.watched and not self.talking and not self.leaving:
            self.talking = True
            self.fleet.world.after(people.pause(self.fleet.world.dice), self._speak)

    def _speak(self) -> None:
        if self.leaving or not self.watched:
            self.talking = False
            return
        world = self.fleet.world
        utterance = self.open[self.said] = Utterance(self, self.said, people.talk(world.dice))
        self.said += 1
        self.fleet.figures.utterances += 1
        world.after(INTERVAL, utterance.due)
        world.after(utterance.seconds + SILENCE, utterance.close)
        world.after(utterance.seconds + max(SILENCE, people.pause(world.dice)), self._speak)

    def leave(self) -> None:
        """What is being said is finished, then the place is free."""
        self.leaving = True
        for utterance in list(self.open.values()):
            utterance.close()
        self.rest()

    def rest(self) -> None:
        """Go, if it wants to and nothing is open."""
        if self.gone or not self.leaving or self.open or self.gateway is None:
            return
        self.gone = True
        self.fleet.figures.left += 1
        del self.gateway.sessions[self.id]
        if self.machine is not None:
            self.machine.sessions.pop(self.id, None)
        self.give_back()

    def give_back(self) -> None:
        """The reservation, wherever it is."""
        lease, self.lease = self.lease, None
        if lease is not None:
            lease.release()
            if self.machine is not None:
                self.fleet.told(self.machine)

    def cut_off(self) -> None:
        """Its gateway has died: nobody is there any more who would hear what its tasks make."""
        for utterance in self.open.values():
            utterance.forget()
        if self.machine is not None:
            self.machine.sessions.pop(self.id, None)
        self.give_back()
        self.gateway = self.machine = None

    def resume(self) -> None:
        """It has a gateway again."""
        for utterance in list(self.open.values()):
            if utterance.closed is not None and utterance.task is None:
                utterance.finish()
        self.rest()


class Utterance:
    """Seconds. `closed` is when it was over, `task` makes its final."""

    __slots__ = ("session", "number", "begun", "seconds", "closed", "task", "partial", "ends", "disturbed")

    def __init__(self, session: Session, number: int, seconds: float) -> None:
        self.session, self.number, self.seconds = session, number, seconds
        self.begun = session.fleet.world.now
        self.closed: float | None = None
        self.task: Task | None = None
        self.partial: Task | None = None
        self.ends = 0
        self.disturbed = False

    def due(self) -> None:
        """Another second has been said."""
        session, world = self.session, self.session.fleet.world
        if self.closed is not None or world.now > self.begun + self.seconds:
            return
        world.after(INTERVAL, self.due)
        if session.gateway is None:
            return
        try:
            self.partial = session.gateway.pool.submit_task(
                PARTIAL, lane=Lane.PARTIAL, deadline=world.now + INTERVAL, sink=self._partial_made,
                stream=(session.id, self.number), coalesce="partial", lease=session.lease,
            )  # fmt: skip
        except ServingError:
            session.fleet.hour.skipped += 1

    def _partial_made(self, task: Task, result: Result) -> None:
        hour = self.session.fleet.hour
        if isinstance(result, Done):
            hour.partials.append(self.session.fleet.world.now - task.timing.queued_at)
        elif not isinstance(result, More):
            hour.skipped += 1

    def close(self) -> None:
        if self.closed is None:
            self.closed = self.session.fleet.world.now
            self.seconds = min(self.seconds, max(people.TALK_LEAST, self.closed - self.begun))
            if self.session.gateway is not None:
                self.finish()

    def finish(self) -> None:
        """Ask for the final. It is never refused for good."""
        session, world = self.session, self.session.fleet.world
        if session.gateway is None or self.ends or self.task is not None:
            return
        try:
            self.task = session.gateway.pool.submit_task(
                final(self.seconds), lane=Lane.FINAL, deadline=world.now + SILENCE, sink=self._final_made,
                lease=session.lease,
            )  # fmt: skip
        except Overloaded as full:
            world.after(min(full.retry_after, 1.0), self.finish)
        except ServingError:
            self._end(failed=True)

    def forget(self) -> None:
        """Nobody hears of the tasks any more; the final has to be asked for again."""
        self.disturbed = True
        for task in (self.partial, self.task):
            if task is not None:
                task.cancel()
        self.partial = self.task = None

    def _final_made(self, task: Task, result: Result) -> None:
        if isinstance(result, More | Cancelled):
            return
        self.disturbed |= bool(task.retries or task.moves)
        self._end(failed=not isinstance(result, Done))

    def _end(self, *, failed: bool) -> None:
        session, figures = self.session, self.session.fleet.figures
        self.ends += 1
        if self.ends > 1:
            figures.twice += 1
            return
        assert self.closed is not None
        took = session.fleet.world.now - self.closed
        figures.failed += failed
        figures.finals += not failed
        if self.disturbed:
            figures.retried += 1
            figures.late.append(took)
        else:
            session.fleet.hour.finals.append(took)
        if self.partial is not None:
            self.partial.cancel()
        del session.open[self.number]
        session.rest()
