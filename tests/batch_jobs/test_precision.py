"""A job has the same words whichever worker hears a piece, although each found another precision the fastest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from batch_jobs.job import Job, JobOptions, State
from batch_jobs.jobs import Jobs
from batch_jobs.queue.record import decode_job, encode_job
from batch_jobs.settings import BatchSettings
from batch_jobs.transcript import Segment
from speech.engine import Engine, EngineSettings
from tests.batch_jobs.lane import ended, flac, submit, until, working
from tests.batch_jobs.media_files import talk

LONG, SHORT = "float32/float32", "bfloat16/int8"


@pytest.fixture(scope="module")
def other(engine: Engine) -> Iterator[Engine]:
    """On another machine, as it were, where something else was the fastest."""
    precision = SHORT if engine.precision(None) == LONG else LONG
    started = asyncio.run(Engine.start(EngineSettings(threads=1, precisions={"tiny.en": precision})))
    assert started.precision(None) == precision
    yield started
    asyncio.run(started.close())


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Jobs]:
    """A lane of its own."""
    opened = Jobs.open(BatchSettings(directory=tmp_path / "apart"))
    yield opened
    opened.close()


def segments(jobs: Jobs, job: Job) -> tuple[Segment, ...]:
    assert jobs.get(job.id).state is State.DONE
    return jobs.transcript(job.id).segments


@pytest.mark.long
def test_two_workers_that_chose_differently_give_one_transcript(
    jobs: Jobs, apart: Jobs, engine: Engine, other: Engine
) -> None:
    data = flac(talk(60))
    by_other = submit(apart, data)
    ended(apart, other, [by_other])

    async def by_both() -> Job:
        job = submit(jobs, data)
        async with working(jobs, engine, concurrency=1):
            await until(lambda: jobs.get(job.id).chunks_done >= 1)
        assert not jobs.get(job.id).state.ended
        async with working(jobs, other, concurrency=1):
            await until(lambda: jobs.get(job.id).state.ended)
        return job

    mixed = segments(jobs, asyncio.run(by_both()))
    jobs.spool.forget("results")
    again = submit(jobs, data)
    ended(jobs, other, [again])
    jobs.spool.forget("results")
    alone = submit(jobs, data)
    ended(jobs, engine, [alone])
    assert mixed == segments(jobs, again) == segments(jobs, alone)
    assert mixed != segments(apart, by_other), "or else there is nothing to agree on"
    agreed = {"tiny.en cpu": engine.precision(None)}
    assert jobs.get(again.id).precisions == jobs.transcript(again.id).settings["precisions"] == agreed


def test_a_worker_that_cannot_have_the_precision_says_so(jobs: Jobs, engine: Engine) -> None:
    job = submit(jobs, flac(talk(5)))
    jobs.queue.agree(job.id, "tiny.en", "cpu", "float8/float8")
    (told,) = ended(jobs, engine, [job])
    assert told.state is State.PARTIAL
    (letter,) = jobs.dead(job.id)
    assert "tiny.en cannot run in float8/float8" in letter.reason
    assert SHORT in letter.reason and LONG in letter.reason


def test_the_first_of_a_queue_decides_while_it_has_jobs(jobs: Jobs) -> None:
    first, second, third = (jobs.create("0" * 64, f"{n}.wav", JobOptions()).id for n in range(3))
    agree = jobs.queue.agree
    assert agree(first, "base", "cpu", SHORT) == SHORT
    assert agree(first, "base", "cpu", LONG) == SHORT
    assert agree(second, "base", "cpu", LONG) == SHORT, "another file of the same queue is like the first"
    assert agree(first, "base", "cuda", "float16/float16") == "float16/float16", "a GPU's words are its own"
    assert agree(first, "a model/with a path", "cpu", LONG) == LONG
    assert jobs.get(first).precisions == {
        "base cpu": SHORT,
        "base cuda": "float16/float16",
        "a model/with a path cpu": LONG,
    }
    assert jobs.queue.precisions("cpu") == {"base": SHORT, "a model/with a path": LONG}
    jobs.delete(first)
    assert agree(first, "base", "cpu", LONG) == LONG, "nothing is kept of a job that is gone"
    assert jobs.get(third).precisions == {}
    jobs.delete(third)
    assert agree(second, "base", "cpu", LONG) == SHORT, "a job's own stays"
    jobs.delete(second)
    last = jobs.create("0" * 64, "last.wav", JobOptions()).id
    assert agree(last, "base", "cpu", LONG) == LONG
    assert jobs.get(last).precisions == {"base cpu": LONG}


def test_what_was_agreed_comes_back_with_the_job(jobs: Jobs) -> None:
    job = replace(jobs.create("0" * 64, "a.wav", JobOptions()), precisions={"base cpu": SHORT})
    assert decode_job(job.id, encode_job(job)) == job
