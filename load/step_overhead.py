"""What the step loop itself costs: tasks per second through one device whose steps take no time.

Prints one line for tasks with a sink (submitted from a plain thread) and one for asyncio handles (submitted and awaited
on an event loop). Each figure includes submitting, choosing, batching, stepping and delivering.

    python -m load.step_overhead
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

from workers.backend import Limits, Spec
from workers.device import Device
from workers.onestep import OneStep
from workers.pool import Pool
from workers.task import Lane, Result, Task


class NoWork(OneStep):
    """A model that gives back what it gets."""

    def __init__(self, items: int) -> None:
        self.spec = Spec(task="echo", model="echo")
        self.limits = Limits(items=items)

    def run(self, payloads: Sequence[Any]) -> Sequence[Any]:
        return payloads


def with_sinks(pool: Pool, count: int, window: int) -> float:
    """Seconds for `count` tasks from one thread, at most `window` of them open."""
    room = threading.Semaphore(window)
    ended = threading.Event()
    left = count

    def sink(_task: Task, _result: Result) -> None:
        nonlocal left
        left -= 1
        room.release()
        if not left:
            ended.set()

    began = time.perf_counter()
    for number in range(count):
        room.acquire()
        pool.submit_task(number, lane=Lane.PARTIAL, deadline=time.monotonic() + 0.2, stream=number % 512, sink=sink)
    ended.wait()
    return time.perf_counter() - began


async def with_handles(pool: Pool, count: int, streams: int) -> float:
    """Seconds for `count` tasks of `streams` coroutines, each awaiting a result before it sends the next task."""

    async def talk(stream: int) -> None:
        for number in range(count // streams):
            handle = pool.submit(number, lane=Lane.PARTIAL, deadline=time.monotonic() + 0.2, stream=stream)
            assert await handle.result() == number

    began = time.perf_counter()
    await asyncio.gather(*(talk(stream) for stream in range(streams)))
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100_000, help="tasks in each run (default %(default)s)")
    parser.add_argument("--items", type=int, default=32, help="most tasks in a batch (default %(default)s)")
    parser.add_argument("--streams", type=int, default=256, help="tasks open at a time (default %(default)s)")
    options = parser.parse_args()
    device = Device("cpu:0")
    device.add(NoWork(options.items))
    device.start()
    pool = Pool("echo", [device])
    try:
        with_sinks(pool, 2000, options.streams)
        for name in ("sinks", "handles"):
            before = device.stats()
            if name == "sinks":
                seconds = with_sinks(pool, options.tasks, options.streams)
            else:
                seconds = asyncio.run(with_handles(pool, options.tasks, options.streams))
            after = device.stats()
            batch = (after.items - before.items) / (after.steps - before.steps)
            rate = (after.items - before.items) / seconds
            print(f"{name:8} {rate:10,.0f} tasks/s   mean batch {batch:.1f}")
    finally:
        device.close()


if __name__ == "__main__":
    main()
