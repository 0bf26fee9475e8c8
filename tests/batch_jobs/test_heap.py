"""Freed memory goes back to the system, also from between what stays."""

from __future__ import annotations

import asyncio

import psutil
import pytest

from batch_jobs import heap, worker
from batch_jobs.jobs import Jobs
from batch_jobs.queue.task import Lease
from speech.engine import Engine
from tests.batch_jobs.lane import until, working
from tests.batch_jobs.queueing import create
from tests.batch_jobs.test_worker import work_is


@pytest.mark.skipif(heap._trim() is None, reason="this C library keeps no heaps that could be trimmed")
def test_holes_are_given_back() -> None:
    blocks = [bytearray(b"x" * 100_000) for _ in range(2000)]
    kept = blocks[::10]
    del blocks
    before = psutil.Process().memory_info().rss
    heap.give_back()
    assert before - psutil.Process().memory_info().rss > 100_000_000
    assert len(kept) == 200


async def test_a_worker_gives_back_while_it_has_work_and_once_after_it(
    jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def commit(lease: Lease) -> None:
        await asyncio.to_thread(jobs.queue.commit, lease, "")

    given: list[int] = []
    monkeypatch.setattr(worker, "_TIDY", 0.05)
    monkeypatch.setattr(heap, "give_back", lambda: given.append(len(begun)))
    begun = work_is(monkeypatch, commit)
    async with working(jobs, engine):
        await asyncio.sleep(0.3)
        assert given == [], "there was no work"
        create(jobs.queue, "job")
        await until(lambda: len(begun) >= 2 and bool(given) and given[-1] == len(begun))
        await asyncio.sleep(0.2)
        count = len(given)
        await asyncio.sleep(0.3)
        assert len(given) == count
