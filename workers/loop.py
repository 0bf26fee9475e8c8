"""The step loop of one device: pick a batch, step it, hand out what it made, queue again what goes on.

`turn` is all of it. The device's thread calls it again and again; a test may call it itself, on a virtual clock.
`lock` guards the queue; it is taken twice a step and never held while a backend or a sink runs.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable

from workers.backend import Demand, Done, More
from workers.batch import Batch
from workers.clock import Clock
from workers.errors import BackendFailed, Expired
from workers.fairness import Tenant
from workers.home import Home, State, out_of_memory
from workers.latency import LatencyModel
from workers.ledger import Ledger
from workers.scheduler import Scheduler
from workers.task import Task

log = logging.getLogger(__name__)

CHECK_EVERY = 10.0
"""Seconds without work after which the backends of an idle device are asked whether they are still there."""

Outcome = More | Done | Exception | None
"""What a step made of one task; None when it must run again in a smaller batch."""

_parties = itertools.count()


class DeviceLost(Exception):
    """`Backend.check` says that the device or the model is gone."""


class StepLoop:
    """The queue of a device, its ledger, and the turns of its thread."""

    def __init__(self, clock: Clock, latency: LatencyModel, step_budget: float) -> None:
        self.clock = clock
        self.latency = latency
        self.scheduler = Scheduler(latency, step_budget=step_budget)
        self.ledger = Ledger()
        self.homes: dict[str, Home] = {}
        self.live: Counter[Tenant] = Counter()  # live sessions of each
        self.open = 0  # tasks taken and not ended yet
        self.batch: Batch | None = None  # in a step now
        self.began = 0.0  # when the thread last began something that may hang
        self.idle = False  # the thread sleeps for want of work
        self.garbage: list[State] = []  # states of ended tasks, freed between two steps
        self.lock = threading.Lock()
        self.work = threading.Condition(self.lock)
        self.quiet = threading.Condition(self.lock)

    # -- with the lock held

    def take(self, task: Task, now: float) -> Task | None:
        """Queue a task; the one it replaces, already out of the queue, is to be told."""
        self.open += 1
        task.timing.before = self.ledger.seconds + (now - self.began if self.batch else 0.0)
        self.ledger.task_bytes += task.home.backend.limits.task_bytes
        replaced = self.scheduler.add(task, now)
        if replaced is not None:
            self._drop(replaced)
        if self.idle:
            self.work.notify()
        return replaced

    def throw_away(self, states: Iterable[State]) -> None:
        """Have the device's thread free these."""
        self.garbage += states
        if self.idle:
            self.work.notify()

    def _drop(self, task: Task) -> None:
        """A task has left the queue for good."""
        self.garbage.append((task.home, task.state))
        task.state = None
        self.ledger.task_bytes -= task.home.backend.limits.task_bytes
        self.open -= 1
        if not self.open:
            self.quiet.notify_all()

    def evacuate(self, *, thread_is_gone: bool) -> list[Task]:
        """Take out every task, in order of submission; `run` tells the ones that were in a step.

        The states of that step belong to the thread that is stuck in it, if there still is one.
        """
        waiting = self.scheduler.clear()
        self.garbage += [(task.home, task.state) for task in waiting]
        for task in waiting:
            task.run = None
        batch, self.batch = self.batch, None
        running = batch.tasks if batch is not None else []
        for task in running:
            task.running, task.rank = False, -1
        if batch is not None and thread_is_gone:
            self.garbage += [(batch.home, state) for state in batch.states]
        self.open = 0
        self.ledger.task_bytes = 0
        self.quiet.notify_all()
        return sorted(running + waiting, key=lambda task: task.number)

    def finish_in(self, lane: int, now: float) -> float:
        """Predicted seconds until the running step and those waiting in `lane` or before it are done."""
        running = max(0.0, self.began + self.batch.predicted - now) if self.batch else 0.0
        return running + self.scheduler.backlog(now, lane)

    # -- from any thread

    def forget(self, task: Task) -> None:
        """A task has ended from outside: out of the queue, unless it is in a step, which then forgets it."""
        with self.lock:
            if self.scheduler.remove(task, self.clock()):
                self._drop(task)

    def tasks(self) -> list[Task]:
        """Every task that waits or is in a step."""
        with self.lock:
            return self.scheduler.tasks() + (self.batch.tasks if self.batch else [])

    # -- on the device's thread

    def turn(self, alive: Callable[[], bool] = lambda: True) -> bool:
        """Run one step of the most urgent batch. False when there was nothing to do. Raises `DeviceLost`.

        `alive` tells a thread that has been given up that the device is no longer its own.
        """
        now = self.clock()
        with self.lock:
            if not alive():
                return False
            late = self.scheduler.expire(now)
            for task in late:
                self._drop(task)
            garbage, self.garbage = self.garbage, []
            batch = self.scheduler.pick(now, live=tuple(self.live))
            if batch is not None:
                for task in batch.tasks:
                    task.run = batch
            self.batch, self.began = batch, now
        for task in late:
            task.end(Expired("the deadline passed before the work could begin"))
        self.free(garbage)
        if batch is None:
            return bool(late or garbage)
        outcomes = self._step(batch)
        demands = self._hand_out(batch, outcomes, now)
        self._settle(batch, demands)
        return True

    def _step(self, batch: Batch) -> list[Outcome]:
        home, size, began = batch.home, len(batch.tasks), self.clock()
        error = None
        outcomes: list[Outcome] = []
        if self.batch is batch:
            try:
                outcomes = list(home.backend.step(batch.states))
            except Exception as raised:
                error = raised
        if self.batch is not batch:  # the watchdog has given this step up: nobody waits for what it made
            return [None] * size
        ended = self.clock()
        self.ledger.step(ended - began, batch.live, size, ended)
        home.use.step(ended - began, size)
        if error is not None:
            return self._halve(batch, error, ended)
        self.latency.observe(home.name, batch.bucket, batch.cost, ended - began, ended)
        if len(outcomes) != size:
            return [BackendFailed(f"{home.backend.spec.model} made {len(outcomes)} results for {size} states")] * size
        return outcomes

    def _halve(self, batch: Batch, error: Exception, now: float) -> list[Outcome]:
        """A step raised: each half runs apart from now on, so that in the end the item to blame stands alone."""
        home, size = batch.home, len(batch.tasks)
        try:
            home.backend.check()
        except Exception as gone:
            raise DeviceLost(f"{home.backend.spec.model}: {gone}") from error
        if out_of_memory(error):
            home.lower_cap(size, now)
            log.warning("%s ran out of memory with %d items: at most %d for now", home.name, size, home.cap)
        if size == 1:
            return [error]
        for half in (batch.tasks[: size // 2], batch.tasks[size // 2 :]):
            party = next(_parties)
            for task in half:
                task.party = party
        return [None] * size

    def _hand_out(self, batch: Batch, outcomes: list[Outcome], began: float) -> list[Demand | None]:
        """Give every task what the step made of it. The next demand of each that goes on, None for the others."""
        now = self.clock()
        seconds = now - began
        next_demand = batch.home.backend.demand
        demands: list[Demand | None] = []
        wakes: set[Callable[[], None]] = set()
        for task, state, outcome in zip(batch.tasks, batch.states, outcomes, strict=True):
            demand = None
            if task.run is batch:
                timing = task.timing
                timing.started_at = timing.started_at or began
                timing.steps += 1
                timing.step_seconds += seconds
                timing.share_seconds += seconds / len(batch.tasks)
                if task.demand.opening:
                    timing.opened_at = now
                    timing.opening_seconds += seconds
                timing.device_seconds = max(0.0, self.ledger.seconds - timing.before)
                if outcome is None:
                    demand = task.demand
                elif task.deliver(outcome, batch):
                    task.party = None
                    try:
                        demand = next_demand(state)
                    except Exception as error:
                        task.deliver(error, batch)
                if task.wake is not None:
                    wakes.add(task.wake)
            demands.append(demand)
        for wake in wakes:  # one call into each event loop, however many of its tasks were in the step
            wake()
        return demands

    def _settle(self, batch: Batch, demands: list[Demand | None]) -> None:
        now = self.clock()
        with self.lock:
            if self.batch is not batch:  # given up: the tasks are elsewhere by now, their old states are left to us
                self.throw_away((batch.home, state) for state in batch.states)
                return
            self.batch = None
            for task, demand in zip(batch.tasks, demands, strict=True):
                if demand is None or task.ended:
                    self.scheduler.finish(task, now)
                    self._drop(task)
                else:
                    task.demand = demand
                    self.scheduler.requeue(task, now)

    def wait_for_work(self, alive: Callable[[], bool]) -> None:
        """Sleep until there is something to do. Raises `DeviceLost` when an idle backend turns out to be gone."""
        with self.lock:
            if not alive():
                return
            self.idle = True
            found = self.work.wait_for(lambda: self.scheduler.ready or self.garbage or not alive(), CHECK_EVERY)
            self.idle = False
            self.began = self.clock()
        if not found:
            for home in self.homes.values():
                try:
                    home.backend.check()
                except Exception as gone:
                    raise DeviceLost(f"{home.backend.spec.model}: {gone}") from gone

    def free(self, states: Iterable[State]) -> None:
        for home, state in states:
            try:
                home.backend.discard(state)
            except Exception:
                log.exception("%s: discarding a state failed", home.name)
