"""A GPU with its host: one real device, the reservations on it, who is served by it, and its deaths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenlet import GreenletExit, greenlet

from load.simulation.tables import MODEL, Table, Timed
from load.simulation.world import World
from workers.capacity import Capacity, Lease
from workers.device import Device
from workers.pool import Pool
from workers.watchdog import Health, save

if TYPE_CHECKING:
    from load.simulation.session import Session


class Machine:
    """`observed`: those who are served here talk, else they only hold their reservations.

    The last word on a reservation is this machine's: its `capacity` knows what every gateway has reserved here.
    """

    def __init__(self, world: World, number: int, table: Table, *, limit: float, observed: bool) -> None:
        self.world, self.number, self.observed = world, number, observed
        self.device = Device(f"gpu{number}", clock=world.clock, queue_limit=65_536)
        self.backend = Timed(world, table)
        self.device.add(self.backend)
        self.sessions: dict[int, Session] = {}
        self.deaths = 0
        self._limit = limit
        self._generation = 0
        self._thread: greenlet | None = None
        self._sleeping = False
        self.device.loop.work = _Bell(self)  # type: ignore[assignment]
        self._start()

    def _start(self) -> None:
        self.device.load()
        self.pool = Pool(MODEL, [self.device])
        self.capacity = Capacity([self.device], self._limit)
        self.answers = True
        self._thread = None  # made when there is something to do
        self._sleeping = self.device.loop.idle = True

    # -- reservations

    @property
    def used(self) -> float:
        """As the machine would tell it now."""
        return self.capacity.reserved(self.device)

    def reserve(self, share: float) -> Lease:
        """Raises Overloaded."""
        return self.capacity.admit(self.pool, share)

    # -- the device's thread

    def wake(self) -> None:
        if self._sleeping:
            self._sleeping = self.device.loop.idle = False
            if self._thread is None:
                self._thread = self.world.thread(self._run)
            self.world.after(0.0, self._thread.switch)

    def _run(self) -> None:
        """What the thread of a device does, but for how it sleeps."""
        generation, loop = self._generation, self.device.loop

        def alive() -> bool:
            return generation == self._generation

        while alive():
            if not loop.turn(alive):
                self._sleeping = loop.idle = True
                self.world.pause()
                loop.began = self.world.now

    # -- death

    def die(self) -> None:
        """At once: nothing here goes on or answers, and nobody knows yet."""
        self.deaths += 1
        self.answers = False
        self._generation += 1
        self._sleeping = self.device.loop.idle = False
        thread, self._thread = self._thread, None
        if thread is not None and not thread.dead:
            thread.throw(GreenletExit)

    def lost(self) -> list[Session]:
        """Its death is noticed: as a watchdog does, its tasks are run again elsewhere. Who was served here."""
        with self.device.loop.lock:
            self.device.health = Health.RESTARTING
            self.device.restarts += 1
            tasks = self.device.loop.evacuate(thread_is_gone=True)
        for task in tasks:
            save(task, self.device, "it was lost")
        sessions = list(self.sessions.values())
        self.sessions.clear()
        return sessions

    def back(self) -> None:
        """Replaced: empty, and known to everybody as ready."""
        self.device.loop.free(self.device.loop.garbage)
        self.device.loop.garbage.clear()
        self._start()
        if self.device.loop.scheduler.ready:  # tasks for which there was no other place
            self.wake()


class _Bell:
    """Stands where the loop has the condition that its thread sleeps on."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def notify(self) -> None:
        self._machine.wake()

    def notify_all(self) -> None:
        self._machine.wake()
