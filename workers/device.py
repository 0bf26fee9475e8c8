"""A device: models that live on it, what it takes in and refuses, and its life from load to close."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from workers.backend import Backend
from workers.clock import Clock, monotonic
from workers.errors import BackendDead, Draining, Overloaded, ServingError
from workers.fairness import Tenant
from workers.home import Home
from workers.latency import LatencyModel
from workers.loop import StepLoop
from workers.task import Lane, Task, as_serving_error
from workers.watchdog import Health, Watchdog


@dataclass(frozen=True, slots=True)
class BackendUse:
    """Steps of a model on a device since the start, tasks in them, and seconds of them."""

    steps: int
    items: int
    step_seconds: float


@dataclass(frozen=True, slots=True)
class DeviceStats:
    """One moment of a device.

    `utilisation` and `live_utilisation` are seconds of step time per second over the last ten or so, of all lanes and
    of the live ones. `queue` counts the waiting tasks of each lane, `running` those in a step, `open` all of them.
    `backlog` is the predicted seconds until everything that waits has run its next step. `steps`, `items` (tasks in
    them) and `step_seconds` count from the start, and `backends` tells the same for each model.
    """

    name: str
    health: Health
    draining: bool
    utilisation: float
    live_utilisation: float
    queue: dict[Lane, int]
    running: int
    open: int
    backlog: float
    steps: int
    items: int
    step_seconds: float
    resident_bytes: int
    restarts: int
    backends: dict[str, BackendUse]


class Device:
    """One GPU or the CPU. `torch_device` ("cpu", "cuda:0") goes to `Backend.load`; times are in seconds.

    At most `queue_limit` tasks and `memory` bytes (models, and `Limits.task_bytes` for each task) are held;
    interactive and bulk tasks may only fill half of the queue, so that there is room for a final. Past that, a task is
    refused with `Overloaded`. While anybody is live, steps are kept to about `step_budget`. A step longer than
    `hang_limit` has the device restarted and its tasks run again elsewhere.
    """

    def __init__(
        self,
        name: str,
        torch_device: str = "cpu",
        *,
        clock: Clock = monotonic,
        step_budget: float = 0.060,
        hang_limit: float = 30.0,
        latency: LatencyModel | None = None,
        queue_limit: int = 4096,
        memory: float = float("inf"),
    ) -> None:
        self.name = name
        self.torch_device = torch_device
        self.clock = clock
        self.hang_limit = hang_limit
        self.queue_limit = queue_limit
        self.memory = memory
        self.loop = StepLoop(clock, latency if latency is not None else LatencyModel(), step_budget)
        self.health = Health.NEW
        self.draining = False
        self.restarts = 0
        self._watchdog = Watchdog(self)

    # -- life

    def add(self, backend: Backend) -> None:
        """Give a backend its home here. One backend for each model name (ValueError), and as many as fit (ValueError).

        Once the device has started, a backend is loaded by the calling thread while the others go on; raises what
        `load` raises.
        """
        model, loop = backend.spec.model, self.loop
        with loop.lock:
            if self.health not in (Health.NEW, Health.READY):
                raise RuntimeError(f"{self.name} is {self.health} and takes no backend")
            if model in loop.homes:
                raise ValueError(f"{self.name} already has the model {model!r}")
            if loop.ledger.model_bytes + backend.limits.resident_bytes > self.memory:
                raise ValueError(f"{model} does not fit into the memory of {self.name}")
            loop.ledger.model_bytes += backend.limits.resident_bytes
            started = self.health is not Health.NEW
        try:
            if started:
                backend.load(self.torch_device)
            with loop.lock:
                loop.homes = {**loop.homes, model: Home(backend, self.torch_device)}  # others go through the old one
        except BaseException:
            with loop.lock:
                loop.ledger.model_bytes -= backend.limits.resident_bytes
            raise

    def start(self) -> None:
        """Load the backends on the device's own thread and step them from now on. Blocks; raises what `load` raises."""
        if self.health is not Health.NEW:
            raise RuntimeError(f"{self.name} has started already")
        self._watchdog.start()

    def load(self) -> None:
        """Load the backends on the calling thread, which is then the device's. `start` does so on a new thread."""
        self.loop.began = self.clock()
        for home in self.loop.homes.values():
            home.backend.load(self.torch_device)
        with self.loop.lock:
            if self.health is not Health.CLOSED:
                self.health = Health.READY

    def drain(self, timeout: float) -> bool:
        """Take no new task and wait up to `timeout` seconds for the open ones; the rest end with `Draining`.

        Blocks. True when every task had ended by itself.
        """
        with self.loop.lock:
            self.draining = True
            done = self.loop.quiet.wait_for(lambda: not self.loop.open, timeout)
        if not done:
            self._end_all(Draining(f"{self.name} shut down before this could finish"))
        return done

    def close(self, timeout: float = 5.0) -> None:
        """End what is open with `Draining`, stop the threads and free the models. Idempotent.

        Blocks for at most about `timeout` seconds; a step that is stuck is left behind.
        """
        with self.loop.lock:
            self.draining = True
            self.health = Health.CLOSED
            self.loop.work.notify_all()
        self._end_all(Draining(f"{self.name} is shutting down"))
        self._watchdog.stop(timeout)

    def _end_all(self, error: ServingError) -> None:
        for task in self.loop.tasks():
            task.end(error)

    # -- what a pool asks: the Replica protocol

    @property
    def ready(self) -> bool:
        """Loaded, alive and taking work."""
        return self.health is Health.READY and not self.draining

    def serves(self, model: str) -> bool:
        return model in self.loop.homes

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that are served."""
        return tuple(self.loop.homes)

    def holds(self, model: str, stream: Hashable) -> bool:
        with self.loop.lock:
            return self.loop.scheduler.holds(self.loop.homes[model], stream)

    def finish_in(self, lane: Lane) -> float:
        """Predicted seconds until the running step and those waiting in `lane` or before it are done."""
        with self.loop.lock:
            return self.loop.finish_in(lane, self.clock())

    def submit(self, task: Task, model: str) -> None:
        """Open the task's state and queue it. From any thread.

        Raises `InputInvalid`, `InputTooLarge`, `Overloaded`, `Draining`, `BackendDead`, `BackendFailed`.
        """
        self._take_in(task, self.loop.homes[model], admitted=False)

    def readmit(self, task: Task) -> None:
        """Queue a task whose device died, however full the queue is: it has been admitted. Raises as `submit` does."""
        self._take_in(task, self.loop.homes[task.model], admitted=True)

    def forget(self, task: Task) -> None:
        self.loop.forget(task)

    def move(self, task: Task, deadline: float, lane: Lane | None) -> None:
        with self.loop.lock:
            self.loop.scheduler.move(task, deadline, lane, self.clock())

    def _take_in(self, task: Task, home: Home, *, admitted: bool) -> None:
        backend, loop = home.backend, self.loop
        try:
            state = backend.open(task.payload)
            demand = backend.demand(state)
        except Exception as error:
            raise as_serving_error(error) from error
        now = self.clock()
        with loop.lock:
            refusal = self._refusal(task, home, admitted, now)
            if refusal is not None:
                loop.throw_away([(home, state)])
                raise refusal
            task.host, task.model, task.home = self, backend.spec.model, home
            task.state, task.demand = state, demand
            replaced = loop.take(task, now)
        if replaced is not None:
            replaced.replaced()

    def _refusal(self, task: Task, home: Home, admitted: bool, now: float) -> ServingError | None:
        if self.draining and not (admitted and self.health is not Health.CLOSED):
            return Draining(f"{self.name} is shutting down and takes no new work")
        if self.health not in (Health.READY, Health.RESTARTING):
            return BackendDead(f"{self.name} is {self.health}, not ready")
        if admitted:
            return None
        limit = self.queue_limit if task.lane.live else self.queue_limit // 2
        held = self.loop.ledger.model_bytes + self.loop.ledger.task_bytes + home.backend.limits.task_bytes
        if self.loop.open >= limit or held > self.memory:
            wait = max(0.1, self.loop.finish_in(task.lane, now))
            return Overloaded(f"{self.name} holds all the work it may queue", retry_after=wait)
        return None

    # -- what a capacity asks: the Site protocol

    def allowed(self, limit: float) -> float:
        """All of `limit`: sessions come to this device through one capacity alone."""
        return limit

    def part(self, limit: float) -> float:
        return limit

    @property
    def live_use(self) -> float:
        """Seconds of step time per second that its live lanes took lately."""
        return self.loop.ledger.live.rate(self.clock())

    @property
    def idle(self) -> bool:
        """It has no task."""
        return not self.loop.open

    def seat(self, tenant: Tenant, share: float, *, force: bool = False) -> bool:
        """A live session comes, which the capacity keeps the account of."""
        self.loop.live[tenant] += 1
        return True

    def unseat(self, tenant: Tenant, share: float) -> None:
        self.loop.live -= Counter((tenant,))  # whoever has none any more is gone from it

    def wanted(self, share: float) -> bool:
        """Nobody else has room of it that could be asked for."""
        return False

    @property
    def gone(self) -> bool:
        """Never: it is started again where it is."""
        return False

    def watch(self, errand: Callable[[], None]) -> None:
        """It is never gone."""

    def stats(self) -> DeviceStats:
        """A consistent picture of the moment. From any thread."""
        now, loop, ledger = self.clock(), self.loop, self.loop.ledger
        with loop.lock:
            return DeviceStats(
                name=self.name,
                health=self.health,
                draining=self.draining,
                utilisation=ledger.all.rate(now),
                live_utilisation=ledger.live.rate(now),
                queue={lane: loop.scheduler.waiting[lane] for lane in Lane},
                running=len(loop.batch.tasks) if loop.batch else 0,
                open=loop.open,
                backlog=loop.finish_in(Lane.BULK, now),
                steps=ledger.steps,
                items=ledger.items,
                step_seconds=ledger.seconds,
                resident_bytes=ledger.model_bytes + ledger.task_bytes,
                restarts=self.restarts,
                backends={
                    model: BackendUse(home.use.steps, home.use.items, home.use.seconds)
                    for model, home in loop.homes.items()
                },
            )
