"""A worker: takes tasks from the queue, a few at a time, and runs them on the engine of its process."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from batch_jobs import heap
from batch_jobs.job import Job
from batch_jobs.queue.clients import blames
from batch_jobs.queue.task import Kind, Lease
from batch_jobs.spool import SpoolFull
from batch_jobs.stages import Stages
from workers.errors import Draining, InputInvalid, InputTooLarge, Overloaded, ServingError
from workers.labels import label

if TYPE_CHECKING:
    from batch_jobs.jobs import Jobs
    from speech.engine import Engine

_BLOCK = 1.0
"""Seconds to wait for a task before looking again whether a file may be begun."""
_WATCH = 0.2
"""Seconds after which a lost lease is noticed."""
_PAUSE = 1.0
"""Seconds after which a device that takes no work is tried again."""
_SPLITS = 2
"""Files decoded and cut at once by a worker; more only delay each other."""
_TIDY = 10.0
"""Seconds between two times that freed memory goes back to the system."""
_log = logging.getLogger(__name__)


class Worker:
    """Up to `concurrency` tasks at once: chunks share the steps of the device, so it should be 8 and more."""

    def __init__(self, jobs: Jobs, engine: Engine, concurrency: int) -> None:
        self._queue, self._engine = jobs.queue, engine
        self._stages = Stages(jobs.queue, jobs.spool, engine, jobs.settings)
        self._concurrency = concurrency
        self._ended = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`; what is in hand then goes back to the queue at once. Raises what `Queue.take` raises."""
        running: dict[asyncio.Task[None], Lease] = {}
        taking: asyncio.Future[Lease | None] | None = None
        leaving = threading.Event()
        # Who waits for work takes no thread from those that do it.
        taker = ThreadPoolExecutor(1, "batch-take")
        stopping = asyncio.create_task(stop.wait())
        tidying = asyncio.create_task(self._tidy())
        try:
            while not stop.is_set():
                # Else a worker whose device is down would take all there is, and fail it.
                ready = self._engine.status().ready
                if ready and taking is None and len(running) < self._concurrency:
                    begin = sum(lease.task.kind is Kind.SPLIT for lease in running.values()) < _SPLITS
                    take = partial(self._queue.take, _BLOCK, begin=begin, stop=leaving)
                    taking = asyncio.get_running_loop().run_in_executor(taker, take)
                waiting: set[asyncio.Future[Any]] = {stopping, *running}
                if taking is not None:
                    waiting.add(taking)
                pause = None if ready else _PAUSE
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=pause)
                for task in running.keys() & done:
                    del running[task]
                    self._ended += 1
                if taking is not None and taking in done:
                    taken, taking = taking, None
                    if (lease := taken.result()) is not None:
                        running[asyncio.create_task(self._work(lease))] = lease
        finally:
            leaving.set()
            stopping.cancel()
            tidying.cancel()
            for task in running:
                task.cancel()
            await asyncio.to_thread(self._queue.wake)
            await asyncio.gather(*running, return_exceptions=True)
            left = list(running.values())  # one that was cancelled before its first step gave nothing back
            if taking is not None and (lease := await asyncio.shield(taking)) is not None:
                left.append(lease)
            await asyncio.shield(asyncio.to_thread(self._give_back, *left))
            taker.shutdown(wait=False)

    async def _tidy(self) -> None:
        """Give freed memory back now and then while there is work, and once after it."""
        seen = 0
        while True:
            await asyncio.sleep(_TIDY)
            if seen != self._ended:
                seen = self._ended
                await asyncio.to_thread(heap.give_back)

    async def _work(self, lease: Lease) -> None:
        """One task to its end, whatever that is; gives it back when cancelled."""
        label(job=lease.task.job, task=lease.task.id)
        try:
            job = await asyncio.to_thread(self._queue.job, lease.task.job)
            if job is not None and not lease.lost:
                await self._run(lease, job)
        except Exception as error:
            await self._failed(lease, error)
        finally:
            await asyncio.shield(asyncio.to_thread(self._give_back, lease))

    async def _run(self, lease: Lease, job: Job) -> None:
        """The task's stage, until it ends or the lease is lost."""
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

    async def _failed(self, lease: Lease, error: Exception) -> None:
        task = lease.task
        if isinstance(error, RedisError):
            if blames(error):
                await self._dropped(lease, error)
            else:
                _log.error("task %s of job %s: the queue is away: %s", task.id, task.job, error)
            return
        if isinstance(error, Draining | Overloaded):
            # Nothing is wrong with the task: it is given back, after a pause in which others may take it.
            await asyncio.sleep(_PAUSE)
            return
        if isinstance(error, SpoolFull):
            # Others make room, or somebody does: nothing is wrong with the task.
            _log.warning("task %s of job %s waits: %s", task.id, task.job, error)
            await self._tell(lease, partial(self._queue.postpone, lease, error.message))
            return
        foreseen = isinstance(error, ServingError | OSError)
        # A model that this worker has not loaded another may have.
        final = isinstance(error, InputTooLarge) or (isinstance(error, InputInvalid) and error.param != "model")
        # What is wrong with a recording is told to whoever handed it in; the rest is for those who keep the worker.
        level = logging.INFO if final else logging.WARNING
        _log.log(level, "task %s of job %s: %s", task.id, task.job, error, exc_info=None if foreseen else error)
        await self._tell(lease, partial(self._queue.fail, lease, _reason(error), again=not final))

    async def _tell(self, lease: Lease, work: Callable[[], None]) -> None:
        """Have the queue note what became of a task."""
        task = lease.task
        try:
            await asyncio.to_thread(work)
        except RedisError as error:
            if blames(error):
                await self._dropped(lease, error)
            else:
                _log.error("task %s of job %s: the queue is away: %s", task.id, task.job, error)

    async def _dropped(self, lease: Lease, error: RedisError) -> None:
        """Given back it would come again for ever: what the queue holds of its job is broken."""
        task = lease.task
        _log.error("task %s of job %s is given up, the queue refuses it: %s", task.id, task.job, error)
        try:
            await asyncio.to_thread(self._queue.drop, lease, f"The queue cannot work with what it holds: {error}")
        except RedisError as away:
            _log.error("task %s of job %s: the queue is away: %s", task.id, task.job, away)
            lease.over = True  # it runs out, which counts as a delivery

    def _give_back(self, *leases: Lease) -> None:
        """Leave to others what has not ended. While the queue is away the leases run out by themselves."""
        for lease in leases:
            with suppress(RedisError):
                if not lease.over:
                    self._queue.give_back(lease)


def _reason(error: Exception) -> str:
    """What went wrong, for the job's owner: where things lie on this machine is for the log."""
    if isinstance(error, ServingError):
        return error.message
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error.strerror or error}"
    return f"{type(error).__name__}: {error}"
