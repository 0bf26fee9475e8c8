"""Models whose steps take the time a table says, on a virtual clock or a real one."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from workers.backend import Demand, Done, Limits, More, Spec, StepResult
from workers.device import Device
from workers.errors import InputInvalid
from workers.pool import Pool
from workers.task import Result, Task


class VirtualClock:
    """Time that passes only when somebody says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass(frozen=True)
class Job:
    """A payload: one step for each cost, `name.step` handed out after each, the last one with the end."""

    name: Hashable
    costs: tuple[float, ...] = (1.0,)
    bucket: Hashable = None
    opening: int = 0  # this many steps at the start only lead up to the others
    fault: str = ""  # "raise": the whole step raises; "result": an exception in the list; "open": refused
    at_step: int = 0


class Step:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.at = 0
        self.freed = 0


class Timed:
    """A model whose step takes a + k * cost seconds; `sleep` spends them."""

    def __init__(
        self,
        sleep: Callable[[float], None] = time.sleep,
        *,
        a: float = 0.0,
        k: float = 0.0,
        items: int = 32,
        cost: float = float("inf"),
        model: str = "timed",
        task_bytes: int = 0,
        resident_bytes: int = 0,
    ) -> None:
        self.spec = Spec(task="test", model=model)
        self.limits = Limits(items=items, cost=cost, task_bytes=task_bytes, resident_bytes=resident_bytes)
        self.sleep = sleep
        self.a, self.k = a, k
        self.batches: list[list[Hashable]] = []
        self.states: list[Step] = []
        self.loads = 0
        self.closed = False
        self.gone = False
        self.before_step: Callable[[Sequence[Step]], None] = lambda states: None

    def load(self, device: str) -> None:
        self.loads += 1

    def check(self) -> None:
        if self.gone:
            raise RuntimeError("device lost")

    def open(self, payload: Any) -> Step:
        if payload.fault == "open":
            raise InputInvalid("no such thing", param="payload")
        state = Step(payload)
        self.states.append(state)
        return state

    def demand(self, state: Step) -> Demand:
        bucket = state.job.bucket
        opening = state.at < state.job.opening
        return Demand(bucket[state.at] if isinstance(bucket, list) else bucket, state.job.costs[state.at], opening)

    def step(self, states: Sequence[Step]) -> list[StepResult]:
        self.batches.append([state.job.name for state in states])
        assert not any(state.freed for state in states), "a freed state was stepped"
        self.before_step(states)
        self.sleep(self.a + self.k * sum(state.job.costs[state.at] for state in states))
        for state in states:
            if state.job.fault == "raise" and state.at == state.job.at_step:
                raise ValueError(f"poison {state.job.name}")
        return [self._advance(state) for state in states]

    def _advance(self, state: Step) -> StepResult:
        if state.job.fault == "result" and state.at == state.job.at_step:
            return ValueError(f"poison {state.job.name}")
        output = f"{state.job.name}.{state.at}"
        state.at += 1
        return Done(output) if state.at == len(state.job.costs) else More((output,))

    def discard(self, state: Step) -> None:
        state.freed += 1

    def close(self) -> None:
        self.closed = True


class Diary:
    """A sink that remembers: everything in order, and by task."""

    def __init__(self) -> None:
        self.all: list[tuple[Task, Result]] = []

    def __call__(self, task: Task, result: Result) -> None:
        self.all.append((task, result))

    def of(self, task: Task) -> list[Result]:
        return [result for one, result in list(self.all) if one is task]

    def ends(self) -> list[Hashable]:
        """Names of the tasks that have ended, in order."""
        return [task.payload.name for task, result in self.all if not isinstance(result, More)]

    def end_of(self, task: Task) -> Result | None:
        ends = [result for result in self.of(task) if not isinstance(result, More)]
        assert len(ends) <= 1, f"{task.payload.name} ended {len(ends)} times"
        return ends[0] if ends else None

    def outputs_of(self, task: Task) -> list[Any]:
        made: list[Any] = []
        for result in self.of(task):
            if isinstance(result, More):
                made += result.outputs
            elif isinstance(result, Done):
                made.append(result.output)
        return made


def virtual(*models: Timed, **options: Any) -> tuple[VirtualClock, Device, list[Pool]]:
    """A device on virtual time that a test turns by hand: `device.loop.turn()`."""
    clock = VirtualClock()
    device = Device("sim", clock=clock, **options)
    for model in models:
        model.sleep = clock.sleep
        device.add(model)
    device.load()
    return clock, device, [Pool(model.spec.model, [device]) for model in models]


def teach(device: Device, model: Timed, bucket: Hashable = None, costs: Sequence[float] = (1, 4, 16, 32)) -> None:
    """Let the device know what the model's steps take, as a warmed one does."""
    home = device.loop.homes[model.spec.model]
    for cost in costs:
        device.loop.latency.observe(home.name, bucket, cost, model.a + model.k * cost, device.clock())


def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait for something another thread does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)
