"""Keeps a device's loop alive: sees that it hangs or has died, saves its tasks, starts it again on a fresh thread.

Python cannot stop a thread that is stuck in a step. So the thread is abandoned: its generation is over, the batch it
holds no longer counts, and whatever it brings back one day is thrown away.
"""

from __future__ import annotations

import itertools
import logging
import threading
from enum import StrEnum
from typing import TYPE_CHECKING

from workers.errors import BackendDead, ServingError
from workers.task import Task

if TYPE_CHECKING:
    from workers.device import Device
    from workers.pool import Replica

log = logging.getLogger(__name__)

LOAD_FACTOR = 10.0
"""Loading may take this many times the hang limit."""
MOVES = 3
"""Deaths of its device that a waiting task survives. A task that was in the step survives one: it may be the cause."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between attempts to load a device again, doubled each time."""

_parties = itertools.count(-1, -1)


class Health(StrEnum):
    """NEW -> READY -> RESTARTING -> READY ...; DEAD while loading fails; CLOSED for good."""

    NEW = "new"
    READY = "ready"
    RESTARTING = "restarting"
    DEAD = "dead"
    CLOSED = "closed"


class Watchdog:
    """The threads of one device: its loop, and the one that watches it."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._generation = 0
        self._loop: threading.Thread | None = None
        self._watcher: threading.Thread | None = None
        self._fault: BaseException | None = None
        self._alarm = threading.Event()
        self._loaded = threading.Event()
        self._pause = FIRST_PAUSE
        self._retry_at = 0.0

    def start(self) -> None:
        """Start the loop and wait until the backends are loaded. Raises what `load` raises."""
        self._spawn()
        self._loaded.wait()
        if self._fault is not None:
            raise self._fault
        self._watcher = threading.Thread(target=self._watch, name=f"{self._device.name} watchdog", daemon=True)
        self._watcher.start()

    def stop(self, timeout: float) -> None:
        """The device is closed: wait for the threads. One that is stuck is left behind."""
        self._alarm.set()
        for thread in (self._watcher, self._loop):
            if thread is not None and thread is not threading.current_thread():
                thread.join(timeout)

    # -- the loop's thread

    def _spawn(self) -> None:
        self._fault = None
        self._generation += 1
        self._device.loop.idle = False
        self._device.loop.began = self._device.clock()
        name = f"{self._device.name} loop {self._generation}"
        self._loop = threading.Thread(target=self._run, args=(self._generation,), name=name, daemon=True)
        self._loop.start()

    def _run(self, generation: int) -> None:
        device = self._device

        def alive() -> bool:
            return generation == self._generation and device.health is not Health.CLOSED

        try:
            device.load()
            self._loaded.set()
            while alive():
                if not device.loop.turn(alive):
                    device.loop.wait_for_work(alive)
            if generation == self._generation:
                device.loop.free(device.loop.garbage)
                for home in device.loop.homes.values():
                    home.backend.close()
        except BaseException as fault:  # whatever it is, the tasks must be saved: the watcher does
            if generation == self._generation:
                self._fault = fault
                self._alarm.set()
                self._loaded.set()

    # -- the watcher's thread

    def _watch(self) -> None:
        device = self._device
        while device.health is not Health.CLOSED:
            self._alarm.wait(min(1.0, device.hang_limit / 4))
            self._alarm.clear()
            try:
                self._look()
            except Exception:
                log.exception("the watchdog of %s failed", device.name)

    def _look(self) -> None:
        device, now = self._device, self._device.clock()
        with device.loop.lock:
            if device.health is Health.CLOSED:
                return
            if device.health is Health.DEAD:
                if now >= self._retry_at:
                    device.health = Health.RESTARTING
                    self._spawn()
                return
            gone = self._fault is not None or (self._loop is not None and not self._loop.is_alive())
            loading = device.health is Health.RESTARTING
            limit = device.hang_limit * (LOAD_FACTOR if loading else 1.0)
            if not gone and (device.loop.idle or now - device.loop.began <= limit):
                if not loading:
                    self._pause = FIRST_PAUSE
                return
            what = "loading" if loading else "a step"
            reason = f"the loop died: {self._fault!r}" if gone else f"{what} took longer than {limit:g} s"
            self._generation += 1
            tasks = device.loop.evacuate(thread_is_gone=gone)
            if loading:
                device.health = Health.DEAD
                self._retry_at = now + self._pause
                self._pause = min(LONGEST_PAUSE, 2 * self._pause)
            else:
                device.health = Health.RESTARTING
                device.restarts += 1
                self._spawn()
        log.error("%s: %s; %d tasks to save", device.name, reason, len(tasks))
        for task in tasks:
            save(task, device, reason)


def run_alone(task: Task) -> None:
    """Nobody shares a step with the task from now on."""
    task.party = next(_parties)


def save(task: Task, device: Replica, reason: str) -> None:
    """Run a task of a dead device again: on another replica if one is ready, else there once it is back."""
    with task.lock:
        if task.ended:
            return
        if task.run is not None:
            task.run = None
            task.retries += 1
            run_alone(task)  # if it is what hangs, it hangs nobody else
        else:
            task.moves += 1
        if task.retries <= 1 and task.moves <= MOVES:
            rehouse(task, device)
        else:
            task.end(BackendDead(f"{device.name} failed ({reason}), and so did the retry"))


def rehouse(task: Task, device: Replica) -> None:
    """Have a task of a dead device run as `save` says, whatever it has been through. With the task's lock held."""
    task.repeated = task.handed_out
    refuge = task.router.refuge(task, device) if task.router is not None else None
    try:
        (refuge or device).readmit(task)
    except ServingError as refused:
        task.end(refused)
