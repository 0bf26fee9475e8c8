"""A worker: takes tasks from the queue, a few at a time, and runs them on the engine of its process."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from batch_jobs.queue.task import Kind, Lease
from batch_jobs.stages import Stages
from workers.errors import Draining, InputInvalid, InputTooLarge, ServingError

if TYPE_CHECKING:
    from batch_jobs.jobs import Jobs
    from speech.engine import Engine

_BLOCK = 1.0
"""Seconds to wait for a task before looking whether to stop."""
_WATCH = 0.2
"""Seconds after which a lost lease is noticed."""
_SPLITS = 2
"""Files decoded and cut at once by a worker; more only delay each other."""
_log = logging.getLogger(__name__)


class Worker:
    """Up to `concurrency` tasks at once: chunks share the steps of the device, so it should be 8 and more."""

    def __init__(self, jobs: Jobs, engine: Engine, concurrency: int) -> None:
        self._queue = jobs.queue
        self._stages = Stages(jobs.queue, jobs.spool, engine, jobs.settings)
        self._concurrency = concurrency
        self._splits = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`; what is in hand then goes back to the queue at once."""
        running: set[asyncio.Task[None]] = set()
        stopping = asyncio.create_task(stop.wait())
        taking: asyncio.Task[Lease | None] | None = None
        try:
            while not stop.is_set():
                if taking is None and len(running) < self._concurrency:
                    taking = asyncio.create_task(
                        asyncio.to_thread(self._queue.take, _BLOCK, begin=self._splits < _SPLITS)
                    )
                waiting = {stopping, *running, *([taking] if taking else [])}
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if taking in done:
                    lease, taking = taking.result() if taking else None, None
                    if lease is not None:
                        self._splits += lease.task.kind is Kind.SPLIT
                        running.add(asyncio.create_task(self._work(lease)))
                running -= done
        finally:
            stopping.cancel()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            if taking is not None and (lease := await taking) is not None:
                await asyncio.to_thread(self._queue.give_back, lease)

    async def _work(self, lease: Lease) -> None:
        """One task to its end, whatever that is; gives it back when cancelled."""
        task = lease.task
        try:
            job = await asyncio.to_thread(self._queue.job, task.job)
            if job is None or lease.lost:
                return
            stage = asyncio.create_task(self._stages.run(lease, job))
            try:
                while not stage.done() and not lease.lost:
                    await asyncio.wait({stage}, timeout=_WATCH)
            finally:
                if not stage.done():
                    stage.cancel()
                    await asyncio.wait({stage})
            if not stage.cancelled():
                stage.result()
        except Exception as error:
            await self._failed(lease, error)
        finally:
            self._splits -= task.kind is Kind.SPLIT
            await asyncio.shield(asyncio.to_thread(self._queue.give_back, lease))

    async def _failed(self, lease: Lease, error: Exception) -> None:
        task = lease.task
        if isinstance(error, RedisError):
            _log.error("task %s of job %s: the queue is away, the lease runs out: %s", task.id, task.job, error)
            return
        if isinstance(error, Draining):
            return  # given back: this device takes nothing any more, others may
        foreseen = isinstance(error, ServingError | OSError)
        _log.warning("task %s of job %s: %s", task.id, task.job, error, exc_info=None if foreseen else error)
        reason = error.message if isinstance(error, ServingError) else f"{type(error).__name__}: {error}"
        final = isinstance(error, InputInvalid | InputTooLarge)
        try:
            await asyncio.to_thread(self._queue.fail, lease, reason, again=not final)
        except RedisError as away:
            _log.error("task %s of job %s: the queue is away: %s", task.id, task.job, away)
