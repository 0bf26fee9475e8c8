"""A queue, a spool and two workers of our own, on which one file is transcribed again and again and compared."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batch_jobs.job import Job, JobOptions, State
from batch_jobs.jobs import Jobs
from batch_jobs.queue.scripts import GROUP, PREFIX
from batch_jobs.queue.server import connect
from batch_jobs.queue.task import Kind
from batch_jobs.settings import BatchSettings
from load.batch_workers import Crew, How, One

_HUNG = 240.0
"""Seconds after which a job will not end any more."""
_STREAMS = ("high", "high-new", "normal", "normal-new", "low", "low-new")


@dataclass(slots=True)
class Row:
    """What was done to the lane, and how it took it. `waits`: seconds until a dead worker's tasks were taken over."""

    name: str
    faults: int = 0
    jobs: int = 0
    equal: int = 0
    waits: list[float] = field(default_factory=list)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)


class Lane:
    """A queue, a spool and two workers of our own, and the file that is transcribed on them."""

    def __init__(self, jobs: Jobs, redis: Any, crew: Crew, path: Path, model: str, chance: random.Random) -> None:
        self.jobs, self.redis, self.crew, self.path, self.chance = jobs, redis, crew, path, chance
        self.options = JobOptions(model=model, language="en")
        self.reference: bytes | None = None

    def submit(self) -> Job:
        """A job that finds nothing done."""
        self.clear()
        return self.jobs.submit(iter([self.path.read_bytes()]), self.path.name, self.options)

    def clear(self) -> None:
        """No jobs, and nothing kept of what was heard."""
        for job in self.jobs.list():
            self.jobs.delete(job.id)
        self.jobs.spool.forget("results")

    def ended(self, job: Job) -> Job:
        """The job once it has ended, or as it hangs."""
        deadline = time.monotonic() + _HUNG
        while not (job := self.jobs.get(job.id)).state.ended and time.monotonic() < deadline:
            time.sleep(0.05)
        return job

    def judge(self, job: Job, row: Row) -> None:
        """Wait for the job and compare its transcript; the first one is the measure of the others."""
        job = self.ended(job)
        row.jobs += 1
        if job.state is not State.DONE:
            row.missed.append(f"{row.name}: the job is {job.state}: {job.error or '; '.join(job.warnings)}")
        elif not job.timings.get("asr"):
            row.missed.append(f"{row.name}: nothing was transcribed")
        elif (job.chunks_done, job.chunks_failed) != (job.chunks, 0):
            row.missed.append(f"{row.name}: of {job.chunks} chunks {job.chunks_done} are counted as done")
        else:
            found = self.jobs.render(job.id, "json")
            self.reference = self.reference or found
            if found == self.reference:
                row.equal += 1
            else:
                row.missed.append(f"{row.name}: the transcript differs{_kept(found, self.reference)}")

    def held(self, one: One) -> list[tuple[str, Kind]]:
        """The tasks that a worker has: (id, kind), as the queue's server knows it."""
        found = []
        for stream in (f"{PREFIX}tasks:{name}" for name in _STREAMS):
            for entry in self.redis.xpending_range(stream, GROUP, "-", "+", 1000):
                if entry["consumer"].split(":")[1] == str(one.pid):
                    for _, fields in self.redis.xrange(stream, entry["message_id"], entry["message_id"]):
                        text = self.redis.hget(f"{PREFIX}tasks_of:{fields['job']}", fields["task"])
                        if text is not None:
                            found.append((fields["task"], Kind(text.partition(" ")[0])))
        return found

    def taken_over(self, gone: One, row: Row) -> None:
        """Wait until nothing is in the hands of a worker that does nothing any more."""
        began = time.monotonic()
        while self.held(gone):
            if time.monotonic() - began > 10 * self.jobs.settings.lease:
                break
            time.sleep(0.01)
        row.waits.append(time.monotonic() - began)

    def busy(self, kind: Kind | None = None) -> One | None:
        """A worker, by chance, that has a task (of that kind)."""
        having = [one for one in self.crew.workers if any(kind in (None, of) for _, of in self.held(one))]
        return self.chance.choice(having) if having else None


@contextmanager
def lane(settings: BatchSettings, path: Path, model: str, seed: int, profiles: Path) -> Iterator[Lane]:
    """The lane for a file, with two workers that are ready."""
    jobs = Jobs.open(settings)
    try:
        how = How(settings, settings.directory / "workers.log", profiles, model)
        with connect(settings) as server, Crew(how, 2) as crew:
            yield Lane(jobs, server.redis, crew, path, model, random.Random(seed))
    finally:
        jobs.close()


def _kept(found: bytes, reference: bytes) -> str:
    """Put both transcripts where they can be looked at; where that is."""
    folder = Path(tempfile.mkdtemp(prefix="speechlane-differ-"))
    (folder / "found.json").write_bytes(found)
    (folder / "quiet.json").write_bytes(reference)
    return f": see {folder}"
