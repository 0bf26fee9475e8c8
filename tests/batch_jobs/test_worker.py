"""What a worker does with its tasks besides the work: it stops, loses them, gives them back, and fails them."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, ResponseError

from batch_jobs import worker
from batch_jobs.job import State
from batch_jobs.jobs import Jobs
from batch_jobs.queue import queue
from batch_jobs.queue.task import Kind, Lease
from batch_jobs.stages import Stages
from batch_jobs.worker import Worker
from speech.engine import Engine
from tests.batch_jobs.lane import flac, submit, until, working
from tests.batch_jobs.media_files import talk
from tests.batch_jobs.queueing import chunks, create, split
from tests.batch_jobs.queueing import take as taken
from workers.errors import Draining, InputInvalid, Overloaded


@pytest.fixture
def others(jobs: Jobs) -> Iterator[Jobs]:
    """The same lane as another process has it."""
    opened = Jobs.open(jobs.settings)
    yield opened
    opened.close()


Stage = Callable[[Lease], Awaitable[None]]


def work_is(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> list[str]:
    """Every task consists of `stage`; the ids of the tasks that were begun."""
    begun: list[str] = []

    async def run(self: Stages, lease: Lease, job: object) -> None:
        begun.append(lease.task.id)
        await stage(lease)

    monkeypatch.setattr(Stages, "run", run)
    return begun


async def forever(lease: Lease) -> None:
    await asyncio.Event().wait()


def untouched(lease: Lease | None) -> bool:
    """Somebody had it and gave it back as if he had never had it."""
    return lease is not None and (lease.attempt, lease.deliveries) == (1, 1)


def test_one_that_stops_in_mid_chunk_leaves_it_to_another_at_once(jobs: Jobs, others: Jobs, engine: Engine) -> None:
    """The lease is 15 seconds; nobody waits for it to run out."""

    async def run() -> None:
        job = submit(jobs, flac(talk(80)))
        async with working(jobs, engine, concurrency=3):
            await until(lambda: jobs.get(job.id).chunks_done >= 1)
            held = len(jobs.queue._renewal.held())
        assert held > 0
        told = jobs.get(job.id)
        assert not told.state.ended
        assert jobs.queue._renewal.held() == []
        lease = await asyncio.to_thread(others.queue.take, 0.0)
        assert lease is not None
        assert untouched(lease)
        others.queue.give_back(lease)
        async with working(others, engine):
            await until(lambda: others.get(job.id).state.ended)
        assert others.get(job.id).state is State.DONE

    asyncio.run(run())


async def test_a_lease_that_comes_while_it_stops_is_not_lost(
    jobs: Jobs, others: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the thread that waits for it, or in a task that was made and has not begun."""
    begun = work_is(monkeypatch, forever)
    loop = asyncio.get_running_loop()
    for turns in range(12):
        create(jobs.queue, f"job{turns}")
        stop = asyncio.Event()
        real, given = jobs.queue.take, asyncio.Event()

        def take(*args: object, real: object = real, given: asyncio.Event = given, **more: object) -> Lease | None:
            lease: Lease | None = real(*args, **more)  # type: ignore[operator]
            loop.call_soon_threadsafe(given.set)
            return lease

        monkeypatch.setattr(jobs.queue, "take", take)
        running = asyncio.create_task(Worker(jobs, engine, 2).run(stop))
        await given.wait()
        for _ in range(turns // 2):
            await asyncio.sleep(0)
        if turns % 2:
            stop.set()
            await running
        else:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        monkeypatch.setattr(jobs.queue, "take", real)
        assert jobs.queue._renewal.held() == []
        lease = others.queue.take(0.0)
        assert untouched(lease)
        assert lease is not None and others.queue.commit(lease, "")
        stitch = others.queue.take(0.0)
        assert stitch is not None and others.queue.commit(stitch, "", fields={"state": State.DONE})
    assert len(begun) < 12, "some had not begun"


async def test_it_stops_at_once_while_it_waits_for_work(
    jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Because it is woken: its wait would last a minute."""
    monkeypatch.setattr(queue, "_POLL", 60.0)
    monkeypatch.setattr(worker, "_BLOCK", 60.0)
    stop = asyncio.Event()
    running = asyncio.create_task(Worker(jobs, engine, 2).run(stop))
    await asyncio.sleep(0.2)
    stop.set()
    async with asyncio.timeout(8.0):  # a socket waits for ten seconds
        await running


async def test_work_whose_lease_was_lost_ends_and_what_it_held_is_free(
    jobs: Jobs, others: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()

    async def slow(lease: Lease) -> None:
        try:
            lease.lost = True
            await asyncio.Event().wait()
        finally:
            ended.set()

    begun = work_is(monkeypatch, slow)
    create(jobs.queue, "job")
    async with working(jobs, engine, concurrency=1):
        async with asyncio.timeout(10):
            await ended.wait()
        await until(lambda: len(begun) > 1)


async def test_a_cancelled_job_s_work_ends(jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs.queue._renewal, "_lease", 0.3)
    ended = asyncio.Event()

    async def slow(lease: Lease) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    work_is(monkeypatch, slow)
    create(jobs.queue, "job")
    async with working(jobs, engine, concurrency=1):
        await until(lambda: jobs.get("job").state is State.RUNNING)
        jobs.queue.cancel("job")
        async with asyncio.timeout(10):
            await ended.wait()
    assert jobs.queue.take(0.0) is None


async def test_tasks_of_a_deleted_job_go_nowhere(jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = work_is(monkeypatch, forever)
    create(jobs.queue, "job")
    seen = jobs.queue.job
    monkeypatch.setattr(jobs.queue, "job", lambda id: jobs.queue.delete(id) or seen(id))
    async with working(jobs, engine, concurrency=1):
        await until(lambda: seen("job") is None)
        await until(lambda: jobs.queue._renewal.held() == [])
    assert begun == []
    assert jobs.dead() == []
    assert jobs.queue.take(0.0) is None


async def test_what_is_wrong_with_a_task_is_told_in_words(
    jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors = {
        "c0": InputInvalid("it is no speech"),
        "c1": ValueError("a bug"),
        "c2": OSError("the disk is gone"),
        "c3": PermissionError(errno.EACCES, "Permission denied", "/srv/spool/x"),
    }

    async def fail(lease: Lease) -> None:
        raise errors[lease.task.id]

    split(jobs.queue, "job", 4)
    work_is(monkeypatch, fail)
    with caplog.at_level(logging.INFO, "batch_jobs.worker"):
        async with working(jobs, engine):
            await until(lambda: len(jobs.dead("job")) >= 4)
    found = {letter.task: letter.reason for letter in jobs.dead("job") if letter.kind is Kind.CHUNK}
    assert found == {
        "c0": "it is no speech",
        "c1": "ValueError: a bug",
        "c2": "OSError: the disk is gone",
        "c3": "PermissionError: Permission denied",
    }, "and not where the spool is"
    traced = {record.getMessage(): bool(record.exc_info) for record in caplog.records}
    assert traced["task c1 of job job: a bug"], "nobody foresaw it"
    assert not traced["task c0 of job job: it is no speech"]
    levels = {record.getMessage(): record.levelname for record in caplog.records}
    assert levels["task c0 of job job: it is no speech"] == "INFO", "its owner is told, and can do something about it"
    assert levels["task c2 of job job: the disk is gone"] == "WARNING"


@pytest.mark.parametrize("error", [Draining("going down"), Overloaded("full", retry_after=1.0)])
async def test_a_device_that_takes_no_more_costs_a_task_no_attempt(
    jobs: Jobs, others: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def refuse(lease: Lease) -> None:
        raise error

    begun = work_is(monkeypatch, refuse)
    create(jobs.queue, "job")
    async with working(jobs, engine):
        await until(lambda: bool(begun))
        await asyncio.sleep(0.2)
    assert len(begun) == 1, "it is not tried again and again"
    assert untouched(others.queue.take(1.0))
    assert jobs.dead() == []


@pytest.mark.long
async def test_a_task_that_the_queue_refuses_is_given_up_and_one_that_it_cannot_take_now_is_not(
    jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = {
        "c0": RedisConnectionError("away"),
        "c1": ResponseError("MISCONF cannot write"),
        "c2": NoPermissionError(""),
    }

    async def commit(lease: Lease) -> None:
        if lease.task.id in away:
            raise away.pop(lease.task.id)
        await asyncio.to_thread(jobs.queue.commit, lease, "text", increments={"decoded": 1.0})

    split(jobs.queue, "job", 3)
    create(jobs.queue, "broken")
    jobs.queue._redis.hset("speechlane:job:broken", "decoded", "no number")
    monkeypatch.setattr(jobs.queue, "job", lambda id: object())
    work_is(monkeypatch, commit)
    async with working(jobs, engine):
        await until(lambda: jobs.queue._redis.scard("speechlane:open") == 0)
    assert {(letter.job, letter.task) for letter in jobs.dead()} == {("broken", "split")}
    assert jobs.queue._redis.hget("speechlane:job:job", "state") == "done"
    assert jobs.queue._redis.hget("speechlane:job:broken", "state") == "failed"


async def test_one_whose_device_is_down_takes_nothing(
    jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = work_is(monkeypatch, forever)
    status = engine.status()
    ready = False
    monkeypatch.setattr(engine, "status", lambda: replace(status, ready=ready))
    create(jobs.queue, "job")
    async with working(jobs, engine):
        await asyncio.sleep(0.3)
        assert begun == []
        ready = True
        await until(lambda: begun == ["split"])


async def test_a_model_that_is_missing_here_may_be_loaded_elsewhere(
    jobs: Jobs, others: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the task is tried again, unlike one whose input is wrong."""
    monkeypatch.setattr(jobs.queue, "_settings", replace(jobs.settings, attempts=3))

    async def refuse(lease: Lease) -> None:
        raise InputInvalid("it is not loaded here", param="model")

    begun = work_is(monkeypatch, refuse)
    create(jobs.queue, "job")
    async with working(jobs, engine):
        await until(lambda: bool(begun))
        await until(lambda: jobs.queue._renewal.held() == [])
    assert not jobs.get("job").state.ended
    lease = await asyncio.to_thread(others.queue.take, 5.0)
    assert lease is not None
    assert (lease.task.id, lease.attempt) == ("split", 2)


async def test_at_most_two_files_are_cut_at_once(jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = work_is(monkeypatch, forever)
    for n in range(4):
        create(jobs.queue, f"job{n}")
    async with working(jobs, engine, concurrency=6):
        await until(lambda: len(begun) >= 2)
        await asyncio.sleep(0.2)
        assert begun == ["split", "split"]
        lease = taken(jobs.queue, 0.0)
        assert jobs.queue.fan_out(lease, chunks(lease.task.job, 2))
        await until(lambda: begun == ["split", "split", "c0", "c1"])
        jobs.queue.give_back(lease)
