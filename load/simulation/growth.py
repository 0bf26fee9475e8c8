"""What one admission, one routing and one choice of a step cost, as devices, streams and keys become more.

Counted in bytecodes, which are the same on every machine and in every run, and timed besides, because what is written
in C (a copy of a list, a search in a tuple) is one bytecode, however long it takes. Each is what a service does: an
admission with its release, a task that is submitted with and without a reservation, one turn of a device's loop.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from types import FrameType
from typing import Any

from workers.backend import Demand, Done, Limits, Spec, StepResult
from workers.capacity import Capacity
from workers.device import Device
from workers.errors import Overloaded
from workers.fairness import TENANT, Tenant
from workers.pool import Pool
from workers.task import Lane, Result, Task

DEVICES = (10, 100, 1000)
STREAMS = (1, 10, 100, 1000)
CARRIED = 50
"""Sessions on each device where admissions are measured."""
ITEMS = 32
ROUNDS = 30
SQUARE = 30.0
"""More than this factor for ten times as much is taken for growth with the square; 10 is growth in proportion."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of `what`, with `count` of `of`: bytecodes, and seconds of the quickest round."""

    what: str
    of: str
    count: int
    operations: int
    seconds: float


class Nothing:
    """A model whose steps take no time."""

    def __init__(self) -> None:
        self.spec = Spec("none", "none")
        self.limits = Limits(items=ITEMS)
        self._demand = Demand("step", 1.0)

    def load(self, device: str) -> None:
        """Nothing to load."""

    def check(self) -> None:
        """It is always there."""

    def open(self, payload: Any) -> Any:
        return payload

    def demand(self, state: Any) -> Demand:
        return self._demand

    def step(self, states: Sequence[Any]) -> list[StepResult]:
        return [Done() for _ in states]

    def discard(self, state: Any) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing to free."""


def operations(work: Callable[[], object]) -> int:
    """Bytecodes that are run for it."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def _cost(what: str, of: str, count: int, prepare: Callable[[], Callable[[], object]]) -> Cost:
    """`prepare` makes what is measured, afresh for each round and not part of it."""
    prepare()()  # what is learned and remembered at the first time
    counted = operations(prepare())
    quickest = float("inf")
    for _ in range(ROUNDS):
        work = prepare()
        began = time.perf_counter()
        work()
        quickest = min(quickest, time.perf_counter() - began)
    return Cost(what, of, count, counted, quickest)


def _ignore(task: Task, result: Result) -> None:
    """A sink."""


def devices(count: int, clock: Callable[[], float] = lambda: 1.0) -> list[Device]:
    """Ready, on a clock that stands still, without threads."""
    made = [Device(f"gpu{number}", clock=clock, queue_limit=1_000_000) for number in range(count)]
    for device in made:
        device.add(Nothing())
        device.load()
        device.loop.latency.observe(device.loop.homes["none"].name, "step", 1.0, 0.01, 1.0)
    return made


def admission(count: int, *, keys: int = 1, full: float | None = None) -> Cost:
    """One session comes and goes, on so many devices with `CARRIED` sessions each, of `keys` tenants. `full`: it is
    refused instead, so many seconds after the one before it."""
    return copy_context().run(_admission, count, keys, full)


def _admission(count: int, keys: int, full: float | None) -> Cost:
    now = [0.0]
    made = devices(count, lambda: now[0])
    pool, capacity = Pool("none", made), Capacity(made)
    share = 0.85 / (CARRIED + (1 if full is None else 0))
    tenants = [Tenant(str(number), room=0.5 if keys > 1 else 1.0) for number in range(keys)]
    for number in range(count * CARRIED):
        TENANT.set(tenants[number % keys])
        capacity.admit(pool, share)
    TENANT.set(tenants[0])

    def once() -> None:
        try:
            capacity.admit(pool, share).release()
        except Overloaded:
            if full is None:
                raise

    def prepare() -> Callable[[], object]:
        now[0] += full or 0.0
        return once

    what = "admission and release" if keys == 1 else f"admission and release, {keys} keys"
    if full is not None:
        what = "refusal" if full else "refusal, at once after another"
    return _cost(what, "devices", count, prepare)


def routing(count: int, *, leased: bool) -> Cost:
    """One task is submitted to one of so many devices, each of which has some already."""
    made = devices(count)
    pool = Pool("none", made)
    for number, device in enumerate(made):
        for _ in range(number % 7):
            Pool("none", [device]).submit_task("x", lane=Lane.PARTIAL, deadline=9.0, sink=_ignore)
    lease = Capacity(made).admit(pool, 0.01) if leased else None

    def once() -> None:
        pool.submit_task("x", lane=Lane.PARTIAL, deadline=9.0, sink=_ignore, lease=lease)

    return _cost("a task with a reservation" if leased else "a task without one", "devices", count, lambda: once)


def decision(count: int, *, keys: int = 1) -> Cost:
    """One turn of a device on which a task of each of so many streams waits: at most `ITEMS` of them in its step."""
    return copy_context().run(_decision, count, keys)


def _decision(count: int, keys: int) -> Cost:
    (device,) = devices(1)
    pool = Pool("none", [device])
    tenants = [Tenant(str(number)) for number in range(keys)]

    def prepare() -> Callable[[], object]:
        while device.loop.scheduler.ready:
            device.loop.turn()
        for stream in range(count):
            TENANT.set(tenants[stream % keys])
            pool.submit_task("x", lane=Lane.PARTIAL, deadline=9.0 + stream, sink=_ignore, stream=stream)
        return device.loop.turn

    of = "streams" if keys == 1 else "streams, each with a key of its own"
    return _cost(f"a step of up to {ITEMS}", of, count, prepare)


def look(count: int) -> Cost:
    """A gateway takes over what so many devices have told of themselves."""
    used = [0.1] * count
    return _cost("a look at all devices", "devices", count, lambda: lambda: list(used))


def measure(
    counts: Sequence[int] = DEVICES, streams: Sequence[int] = STREAMS, tell: Callable[[str], None] = lambda text: None
) -> list[Cost]:
    """All of them."""
    found: list[Cost] = []
    for count in counts:
        tell(f"{count} devices")
        found += [admission(count), admission(count, keys=10)]
        found += [admission(count, full=1.0), admission(count, full=0.0)]
        found += [routing(count, leased=True), routing(count, leased=False), look(count)]
    for count in streams:
        tell(f"{count} streams on a device")
        found += [decision(count), decision(count, keys=count)] if count > 1 else [decision(count)]
    return found


def factors(costs: Sequence[Cost]) -> dict[tuple[str, str], float]:
    """By what and of what: what ten times as many take more, as the two largest counts have it."""
    lines: dict[tuple[str, str], list[Cost]] = {}
    for cost in costs:
        lines.setdefault((cost.what, cost.of), []).append(cost)
    return {
        key: (line[-1].operations / max(1, line[-2].operations)) ** (1 / math.log10(line[-1].count / line[-2].count))
        for key, line in lines.items()
        if len(line) > 1
    }


def squares(costs: Sequence[Cost]) -> list[str]:
    """What grows with the square of something, or faster."""
    return [
        f"{what} takes {factor:.0f} times as much for ten times as many {of}"
        for (what, of), factor in factors(costs).items()
        if factor > SQUARE
    ]
