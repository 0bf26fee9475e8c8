"""One unit of admitted work: what is wanted, how urgent it is, and the only place where it can end.

Two locks meet here and are always taken in this order: the task's own (it guards `ended` and every call of the
sink), then its device's (it guards the task's place in the queue). A device never takes a task's lock while it
holds its own.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from workers.backend import Demand, Done, More
from workers.clock import Clock, monotonic
from workers.errors import BackendFailed, Cancelled, ServingError
from workers.fairness import TENANT

if TYPE_CHECKING:
    from workers.home import Home

log = logging.getLogger(__name__)


class Lane(IntEnum):
    """Who goes first when a device is free. The first two are live: somebody is speaking or has just stopped."""

    FINAL = 0
    PARTIAL = 1
    INTERACTIVE = 2
    BULK = 3

    @property
    def live(self) -> bool:
        return self <= Lane.PARTIAL


class Phase(IntEnum):
    """WAITING (queued, or between two steps) -> RUNNING (in a step) -> WAITING ... -> ENDED, once and for good."""

    WAITING = 0
    RUNNING = 1
    ENDED = 2


class Timing:
    """Where a task's time went, in seconds on the device's clock; 0.0 for what has not happened yet.

    `step_seconds` is the sum of the durations of the steps the task was in, batch mates included, and `share_seconds`
    the same with each step divided among its tasks, so that those of all tasks make up the device's. `device_seconds`
    is how long the device was stepping, for whomever, from the task's queueing to the end of its last step: what it
    waited beyond that was lost to something else than models. `opened_at` is the end of its last step that only led up
    to those that follow (`Demand.opening`: an encode), and `opening_seconds` is `step_seconds` of those.
    """

    __slots__ = (
        "queued_at",
        "started_at",
        "ended_at",
        "steps",
        "step_seconds",
        "share_seconds",
        "device_seconds",
        "opened_at",
        "opening_seconds",
        "before",
    )

    def __init__(self, queued_at: float) -> None:
        self.queued_at = queued_at
        self.started_at = 0.0
        self.ended_at = 0.0
        self.steps = 0
        self.step_seconds = 0.0
        self.share_seconds = 0.0
        self.device_seconds = 0.0
        self.opened_at = 0.0
        self.opening_seconds = 0.0
        self.before = 0.0  # what the device had stepped when the task was queued


@dataclass(frozen=True, slots=True)
class Work:
    """What a task was for, in its owner's word ("final"), and where its time went."""

    kind: str
    timing: Timing


Result = More | Done | ServingError
Sink = Callable[["Task", Result], None]
"""Takes a task's outputs in order, then exactly one `Done` or error.

Called on the device's thread; the end by cancel(), by a newer task or by a device's death comes on the thread that
brought it about. Must neither block nor wait for a lock that somebody holds while cancelling. It may submit, move
and cancel. When it raises, the error is logged and the task is over.
"""


class Host(Protocol):
    """What a task asks of the replica that holds it."""

    def forget(self, task: Task) -> None:
        """The task has ended: take it out of the queue and free its state."""

    def move(self, task: Task, deadline: float, lane: Lane | None) -> None:
        """Give the task a new place in the queue."""

    def readmit(self, task: Task) -> None:
        """Take over a task whose device died."""


class Router(Protocol):
    """What a dying device asks of the pool its tasks came from."""

    def refuge(self, task: Task, away_from: Host) -> Host | None:
        """Another replica that is ready for the task."""


_numbers = itertools.count()


class Task:
    """A payload on its way through a device. Make them with `Pool.submit` or `Pool.submit_task`.

    `deadline` is in seconds on the device's clock. Tasks of one `stream` run one after another in the order they were
    submitted, so their outputs keep that order. A task that waits is replaced by a newer one with the same
    (`stream`, `coalesce`). `hard` lets it end with `Expired` when the deadline passes before its first step.
    """

    __slots__ = (
        "number", "payload", "lane", "deadline", "stream", "coalesce", "hard", "sink", "wake", "router", "clock",
        "timing", "lock", "ended", "run", "handed_out", "repeated", "retries", "moves",
        "tenant", "host", "model", "home", "state", "demand", "due", "since", "party", "entry", "group", "rank",
        "running",
    )  # fmt: skip

    def __init__(
        self,
        payload: Any,
        *,
        lane: Lane,
        deadline: float,
        sink: Sink,
        stream: Hashable = None,
        coalesce: Hashable = None,
        hard: bool = False,
        wake: Callable[[], None] | None = None,
        router: Router | None = None,
        clock: Clock = monotonic,
    ) -> None:
        if hard and lane == Lane.FINAL:
            raise ValueError("a final never expires: submit it without hard=True")
        if deadline != deadline:
            raise ValueError("deadline is not a number: give seconds on the device's clock, or inf")
        self.number = next(_numbers)
        self.payload = payload
        self.lane = lane
        self.deadline = deadline
        self.stream = stream
        self.coalesce = coalesce
        self.hard = hard
        self.sink = sink
        self.wake = wake
        self.router = router
        self.clock = clock
        self.tenant = TENANT.get()
        self.timing = Timing(clock())
        # Guarded by the task's lock.
        self.lock = threading.RLock()
        self.ended = False
        self.run: object = None  # the batch whose results count; those of any other come from an abandoned thread
        self.handed_out = 0
        self.repeated = 0  # outputs a second run makes again, already handed out by the first
        self.retries = 0  # times the task was in a step when its device died
        self.moves = 0  # times its device died while it waited
        # Guarded by the device's lock.
        self.host: Host | None = None
        self.model: str  # what it is for, by the name that its replicas serve
        self.home: Home
        self.state: Any = None
        self.demand: Demand
        self.due = deadline  # the moment it is ordered by
        self.since = 0.0  # in the queue since
        self.party: int | None = None  # after a failed step: batch only with others of the same party
        self.entry: tuple[float, int, Task] | None = None
        self.group: Any = None
        self.rank = -1  # lane it is queued in: its own, or that of somebody more urgent behind it; -1 not queued here
        self.running = False

    @property
    def phase(self) -> Phase:
        return Phase.ENDED if self.ended else Phase.RUNNING if self.running else Phase.WAITING

    def deliver(self, result: More | Done | Exception, run: object) -> bool:
        """Hand a step's result to the sink. True while the task goes on; `run` must still be the one that counts."""
        with self.lock:
            if self.ended or self.run is not run:
                return False
            if isinstance(result, More):
                outputs = result.outputs
                if self.repeated:
                    again = min(self.repeated, len(outputs))
                    self.repeated -= again
                    outputs = outputs[again:]
                    result = More(outputs)
                if outputs:
                    self.handed_out += len(outputs)
                    self._tell(result)
                return not self.ended
            self.ended = True
            self.timing.ended_at = self.clock()
            self._tell(result if isinstance(result, Done) else as_serving_error(result))
            return False

    def end(self, error: ServingError) -> bool:
        """End the task from outside a step. False when it had ended already. The sink is told before this returns."""
        with self.lock:
            if self.ended:
                return False
            self.ended = True
            self.timing.ended_at = self.clock()
            if self.host is not None:
                self.host.forget(self)
            self._tell(error)
        if self.wake is not None:
            self.wake()
        return True

    def cancel(self) -> bool:
        """End the task from any thread: the sink gets `Cancelled`, and nothing once this has returned.

        A step that is running goes on without anybody listening. False when the task had ended already.
        """
        return self.end(Cancelled("cancelled by its owner"))

    def replaced(self) -> None:
        """End the task because a newer one of its stream and kind has taken its place."""
        self.end(Cancelled("replaced by a newer one"))

    def move(self, deadline: float, lane: Lane | None = None) -> None:
        """Change the deadline (seconds on the device's clock), and the lane; no effect once the task has ended."""
        with self.lock:
            if not self.ended and self.host is not None:
                self.host.move(self, deadline, lane)

    def _tell(self, result: Result) -> None:
        try:
            self.sink(self, result)
        except Exception:
            log.exception("the sink of task %d failed: the task is over", self.number)
            if not self.ended:
                self.ended = True
                self.timing.ended_at = self.clock()
        if self.ended:
            # A handle is its task's sink, and a batch holds its tasks: in a ring with either, the payload would stay
            # until the garbage collector comes by, which is rare.
            self.sink, self.run = _nobody, None


def _nobody(_task: Task, _result: Result) -> None:
    """The sink of a task that has ended."""


def as_serving_error(error: Exception) -> ServingError:
    """The error a client may be told: `error` itself when it is typed, else `BackendFailed` caused by it."""
    if isinstance(error, ServingError):
        return error
    failed = BackendFailed(f"the model failed on this input: {type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed
