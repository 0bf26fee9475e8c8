"""One stage of the chain: a pool of its own, a bound of its own, and its own count of what goes through it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from workers.clock import Clock, monotonic
from workers.pool import Pool
from workers.task import Lane


@dataclass(frozen=True, slots=True)
class StageStats:
    """`waiting` and `running` now; `done`, `failed` and `seconds` of step time (its share of shared steps) in all."""

    name: str
    replicas: int
    waiting: int
    running: int
    done: int
    failed: int
    seconds: float


class Stage:
    """Work for one model of the chain. At most `limit` tasks are with its pool at once; the others wait in order."""

    def __init__(self, name: str, pool: Pool, limit: int, clock: Clock = monotonic) -> None:
        self.name = name
        self._pool = pool
        self._clock = clock
        self._places = asyncio.Semaphore(limit)
        self._waiting = self._with_pool = self._done = self._failed = 0
        self._seconds = 0.0

    async def run(self, payload: Any, *, lane: Lane, deadline: float) -> Any:
        """The pool's answer. Raises its `ServingError`."""
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1
        self._with_pool += 1
        try:
            handle = self._pool.submit(payload, lane=lane, deadline=deadline)
            try:
                answer = await handle.result()
            except BaseException:
                handle.cancel()
                raise
            self._done += 1
            self._seconds += handle.timing.share_seconds
            return answer
        except Exception:
            self._failed += 1
            raise
        finally:
            self._with_pool -= 1
            self._places.release()

    def stats(self) -> StageStats:
        return StageStats(
            self.name,
            len(self._pool.replicas),
            self._waiting,
            self._with_pool,
            self._done,
            self._failed,
            self._seconds,
        )
