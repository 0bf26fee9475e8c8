"""What the tests of the whole lane share: files, workers, and waiting for jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from batch_jobs.job import Job, JobOptions
from batch_jobs.jobs import Jobs
from batch_jobs.worker import Worker
from speech.asr import SAMPLE_RATE, Samples
from speech.engine import Engine
from tests.batch_jobs.media_files import encoded

LONGEST = 60.0
"""Seconds that any of these jobs may take."""


def flac(samples: Samples) -> bytes:
    return encoded("flac", "flac", SAMPLE_RATE, samples)


def submit(jobs: Jobs, data: bytes, name: str = "talk.flac", **options: object) -> Job:
    return jobs.submit([data], name, JobOptions(**options))  # type: ignore[arg-type]


@asynccontextmanager
async def working(jobs: Jobs, engine: Engine, workers: int = 1, concurrency: int = 4) -> AsyncIterator[None]:
    """Workers that run until the block ends."""
    stop = asyncio.Event()
    running = [asyncio.create_task(Worker(jobs, engine, concurrency).run(stop)) for _ in range(workers)]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*running)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONGEST):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.02)


def ended(jobs: Jobs, engine: Engine, given: Sequence[Job], workers: int = 1) -> list[Job]:
    """The jobs, once workers have brought all of them to an end."""

    async def run() -> None:
        async with working(jobs, engine, workers):
            await until(lambda: all(jobs.get(job.id).state.ended for job in given))

    asyncio.run(run())
    return [jobs.get(job.id) for job in given]
