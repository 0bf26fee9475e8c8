"""A device somewhere else, as the pools and the capacity of a gateway see it.

Tasks go there at once when nothing has gone for a tick, else together at the next one; what has become of them comes
back by calls that wait over there for the first answer.

When the device is lost (dead, or silent), its tasks are run elsewhere, or wait for it when there is no other. A task
that was on two devices that died is a suspect: suspects run alone, one after another, so that one that kills a third is
known and ends with `BackendDead`, and the others are not taken along.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

from workers.backend import More
from workers.cluster import messages
from workers.cluster.calls import Calls
from workers.cluster.contact import Contact
from workers.cluster.courier import Courier
from workers.cluster.held import Held, Moved
from workers.cluster.line import Line
from workers.cluster.packing import Packing
from workers.cluster.seats import Seats
from workers.cluster.spent import account
from workers.device import DeviceStats
from workers.errors import BackendDead, Draining, Overloaded, ServingError
from workers.fairness import Tenant
from workers.task import Lane, Task, as_serving_error
from workers.watchdog import Health, rehouse, run_alone, save

log = logging.getLogger(__name__)

PATIENCE = 30.0
"""Seconds that tasks wait for a lost device when there is no other."""
_ROUNDING = 1e-6


class RemoteDevice:
    """A `Replica`. Times are seconds on the courier's clock, deadlines too.

    At most `queue_limit` tasks of this gateway are held, half of them interactive and bulk ones.
    """

    def __init__(
        self,
        name: str,
        calls: Calls,
        courier: Courier,
        *,
        gateway: str,
        packing: Packing,
        queue_limit: int = 4096,
        patience: float = PATIENCE,
    ) -> None:
        self.name = name
        self.clock = courier.clock
        self.node = ""
        """Where it is."""
        self.facts: Mapping[str, Any] = {}
        """What its maker tells of its models."""
        self.draining = False
        self.losses = 0
        self._watchers: list[Callable[[], None]] = []
        self._packing, self._queue_limit, self._patience = packing, queue_limit, patience
        self._models: tuple[str, ...] = ()
        self._contact = Contact(self, calls, courier, gateway)
        self._held = Held()
        self._seats = Seats(courier.clock)
        self._status: messages.Status | None = None
        self._status_at = 0.0
        self._sent = 0  # tasks since the status
        # Of the courier's thread alone.
        self._suspect: Task | None = None
        self._suspects: deque[Task] = deque()  # behind that one

    # -- life

    def start(self) -> None:
        """Reach it, and stay in touch with it from now on. Does not wait for it."""
        self._contact.start()

    @property
    def failure(self) -> str:
        """Why it is not there, as far as that is known."""
        return self._contact.failure

    def drain(self, timeout: float) -> bool:
        """As `Device.drain`, of this gateway's tasks; the device goes on for others."""
        self.draining = True
        done = self._held.wait(timeout)
        if not done:
            self._end_all(Draining(f"{self.name} shut down before this could finish"))
        return done

    def close(self, timeout: float = 5.0) -> None:
        """End what is open with `Draining` and take leave of the device, which goes on for others. Idempotent."""
        self.draining = True
        self._end_all(Draining(f"{self.name} is shutting down"))
        self._contact.leave(timeout)

    def _end_all(self, error: ServingError) -> None:
        for task in self._held.all():
            task.end(error)

    # -- what a pool asks: the Replica protocol

    @property
    def ready(self) -> bool:
        status = self._status
        return status is not None and status.ready and not self.draining and self._contact.fresh

    def serves(self, model: str) -> bool:
        return model in self._models

    def holds(self, model: str, stream: Hashable) -> bool:
        return self._held.holds(model, stream)

    def finish_in(self, lane: Lane) -> float:
        """As the device predicted it a moment ago, with what has been sent since."""
        status = self._status
        if status is None:
            return 0.0
        return max(0.0, status.finish_in[lane] - (self.clock() - self._status_at)) + self._sent * status.each

    def submit(self, task: Task, model: str) -> None:
        """Queue the task to be sent. What is wrong with its payload is told as its end.

        Raises `Overloaded`, `Draining`, `BackendDead`.
        """
        if self.draining:
            raise Draining(f"{self.name} is shutting down and takes no new work")
        if self._contact.line is None and self.clock() - self._contact.lost_at > self._patience:
            raise BackendDead(f"{self.name} cannot be reached")
        if len(self._held) >= (self._queue_limit if task.lane.live else self._queue_limit // 2):
            wait = max(0.1, self.finish_in(task.lane))
            raise Overloaded(f"{self.name} holds all the work it may queue", retry_after=wait)
        self._held.take(task, model, self)
        self._contact.ring()

    def readmit(self, task: Task) -> None:
        """Queue a task of a device that was lost, however full the queue is. Raises `Draining`."""
        if self._contact.closed:
            raise Draining(f"{self.name} is shutting down")
        self._held.take(task, task.model, self)
        self._contact.ring()

    def forget(self, task: Task) -> None:
        self._held.drop(task, tell=True)
        self._contact.ring()

    def move(self, task: Task, deadline: float, lane: Lane | None) -> None:
        task.deadline = deadline
        task.lane = task.lane if lane is None else lane
        self._held.moved(task)
        self._contact.ring()

    # -- what the capacity asks: the Site protocol

    def allowed(self, limit: float) -> float:
        """Share of the device that this gateway's sessions may reserve: its grant, whatever the limit is here."""
        return self._seats.allowed

    def part(self, limit: float) -> float:
        status = self._status
        return status.limit / max(1, status.gateways) if status is not None else 0.0

    @property
    def live_use(self) -> float:
        """Nothing: the device itself grants less when its live lanes take more than they should."""
        return 0.0

    def expect(self, share: float) -> None:
        """A session is likely to take this much: the device divides its room by it."""
        self._seats.expect(share)
        self._contact.ring()

    @property
    def idle(self) -> bool:
        """Whether the whole device is granted to this gateway."""
        status = self._status
        return status is not None and self._seats.allowed >= status.limit - _ROUNDING

    def seat(self, tenant: Tenant, share: float, *, force: bool = False) -> bool:
        """Reserve `share`. False when it is not granted and not `force`d."""
        taken = self._seats.take(tenant, share, alone=self.idle, force=force)
        if taken:
            self._contact.ring()
        return taken

    def unseat(self, tenant: Tenant, share: float) -> None:
        self._seats.give(tenant, share)
        self._contact.ring()

    def wanted(self, share: float) -> bool:
        """A session was refused: ask for a grant, if there is room at the device."""
        status = self._status
        if status is None or status.held + min(share, status.limit) > status.limit + _ROUNDING:
            return False
        self._seats.want(share)
        self._contact.ring()
        return True

    @property
    def gone(self) -> bool:
        return self._contact.line is None

    def watch(self, errand: Callable[[], None]) -> None:
        """On the courier's thread."""
        self._watchers.append(errand)

    def stats(self) -> DeviceStats:
        """As the device last told it."""
        status, health = self._status, Health.READY if self.ready else Health.DEAD
        if status is None:
            return DeviceStats(
                self.name, health, self.draining, 0.0, 0.0, dict.fromkeys(Lane, 0), 0, len(self._held), 0.0, 0, 0, 0.0,
                0, self.losses, {},
            )  # fmt: skip
        health = health if status.ready else status.stats.health
        return replace(status.stats, name=self.name, health=health, restarts=status.stats.restarts + self.losses)

    # -- what the contact asks, on the courier's thread

    def greeting(self) -> messages.Report:
        self._seats.lost()
        return self._seats.report()

    def welcomed(self, welcome: messages.Welcome) -> None:
        log.info("%s is there, on %s", self.name, welcome.node or "a node without a name")
        self.node, self._models, self.facts = welcome.node, welcome.models, welcome.facts
        self._status, self._status_at, self._sent = welcome.status, self.clock(), 0
        self._tell_watchers()

    def fill(self, line: Line, now: float) -> None:
        if self._seats.changed:
            line.orders.put(self._seats.report())
        for item in self._held.outgoing():
            if isinstance(item, messages.Cancel):
                line.orders.put(item)
            elif isinstance(item, Moved):
                line.orders.put(messages.Move(item.task.number, item.task.deadline - now, item.task.lane))
            elif not item.ended:
                self._suspects.append(item) if item.party is not None else self._open(item, line, now)
        suspect = self._suspect
        while self._suspects and (suspect is None or self._held.get(suspect.number) is not suspect):
            suspect = self._suspect = self._suspects.popleft()
            if not suspect.ended:
                self._open(suspect, line, now)

    def _open(self, task: Task, line: Line, now: float) -> None:
        try:
            parcel = self._packing.pack(task.payload, line)
        except Exception as error:
            self._held.drop(task)
            task.end(as_serving_error(error))
            return
        task.run = line
        self._sent += 1
        line.orders.put(
            messages.Open(
                task.number, task.model, task.lane, task.deadline - now, task.stream, task.coalesce, task.hard,
                task.tenant, task.party is not None, parcel,
            )
        )  # fmt: skip

    def heard(self, reply: messages.Reply, line: Line) -> None:
        if reply.status is not None:
            self._status, self._status_at, self._sent = reply.status, self.clock(), 0
        wakes: set[Callable[[], None]] = set()
        for answer in line.answers.take(reply.first, reply.answers):
            if isinstance(answer, messages.Grant):
                self._seats.grant(answer)
                continue
            task = self._held.get(answer.number)
            if task is not None:
                self._answer(task, answer, line)
                if task.wake is not None:
                    wakes.add(task.wake)
        for wake in wakes:
            wake()
        if self._seats.changed:
            self._contact.ring()

    def _answer(self, task: Task, answer: messages.Answer, line: Line) -> None:
        match answer:
            case messages.Some(_, outputs):
                task.deliver(More(outputs), line)
            case messages.End(_, result, spent):
                self._held.drop(task)
                account(task, spent, self.clock())
                task.deliver(result, line)
            case messages.Back(_, alone, reason):
                self._held.drop(task)
                if not alone:
                    with task.lock:
                        task.run = None
                save(task, self, reason)
            case messages.Again():
                self._packing.renew(task.payload)
                self._held.again(task)
                self._contact.ring()

    def lost(self, line: Line, reason: str) -> None:
        self._status = None
        self.losses += 1
        self._seats.lost()
        suspect, self._suspect, tasks = self._suspect, None, self._held.evacuate()
        self._suspects.clear()
        log.error("%s is lost: %s; %d tasks to save", self.name, reason, len(tasks))
        self._tell_watchers()
        for task in tasks:
            with task.lock:
                if task.ended:
                    continue
                if task.run is not line:  # it never got there
                    rehouse(task, self)
                    continue
                if task is suspect:
                    task.retries += 1  # which makes two
                else:
                    task.run = None
                    if task.moves:
                        run_alone(task)
                save(task, self, reason)

    def alone(self) -> None:
        """Tasks that wait for this device: elsewhere if there is a place by now, or to an end."""
        given_up = self.clock() - self._contact.lost_at > self._patience
        for task in self._held.all():
            refuge = task.router.refuge(task, self) if task.router is not None else None
            if refuge is None and not given_up:
                continue
            with task.lock:
                if task.ended:
                    continue
                self._held.drop(task)
                try:
                    if refuge is None:
                        raise BackendDead(f"{self.name} was lost ({self.failure}), and nothing took its place")
                    refuge.readmit(task)
                except ServingError as error:
                    task.end(error)

    def _tell_watchers(self) -> None:
        for watcher in self._watchers:
            watcher()
