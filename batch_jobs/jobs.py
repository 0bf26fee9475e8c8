"""The lane as its clients see it: hand in recordings, look, wait, cancel, take the transcript.

Everything here blocks (a queue's server, files): call it off an event loop.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO

from batch_jobs import wire
from batch_jobs.errors import NoSuchJob, NotReady
from batch_jobs.job import Job, JobOptions, State
from batch_jobs.queue.changes import Changes
from batch_jobs.queue.queue import Queue
from batch_jobs.queue.server import Server, connect
from batch_jobs.queue.task import Dead, Kind, Task
from batch_jobs.settings import BatchSettings
from batch_jobs.split import SplitReport
from batch_jobs.spool import Spool
from batch_jobs.steps import SPLIT, STITCH, dead_reason, transcript_name
from batch_jobs.transcript import Chunk, Transcript
from batch_jobs.writers.render import render
from workers.errors import InputInvalid, InputTooLarge

_YOUNG = 3600.0
"""Seconds for which nothing is removed from a full spool: somebody is about to make a job of it."""
_ROOM = 0.9
"""Share of the spool's limit from which on it is cleaned before a file is taken."""
_IDLE = 60.0
"""Seconds for which nobody may have put a file again before it is removed with its last job: longer than it takes from
there until the new job is known."""
_PAGE = 1000
"""Jobs read at once."""
_LOOK = 30.0
"""Seconds between two looks at how full the spool is: each goes through all of its files."""


class Jobs:
    """The queue and the spool together. Thread-safe."""

    def __init__(self, settings: BatchSettings, server: Server, spool: Spool) -> None:
        self.settings, self.spool = settings, spool
        self.queue = Queue(server.redis, settings)
        self._server = server
        self._looked = -math.inf

    @classmethod
    def open(cls, settings: BatchSettings) -> Jobs:
        """Connect, starting the embedded server if no other is named. Raises QueueUnavailable, OSError."""
        settings.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        spool = Spool(settings.spool_url or settings.directory / "spool", settings.spool_bytes)
        server = connect(settings)
        try:
            return cls(settings, server, spool)
        except BaseException:
            server.close()
            raise

    def submit(self, data: Iterable[bytes], name: str, options: JobOptions, owner: str = "") -> Job:
        """A job for a file's bytes. Raises InputTooLarge, SpoolFull, Overloaded, and what `data` raises."""
        return self.create(self.keep(data), name, options, owner)

    def keep(self, data: Iterable[bytes]) -> str:
        """Spool a file's bytes; the blob, for `create`. Raises InputTooLarge, SpoolFull, and what `data` raises."""
        if time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            self.discard()
            if self.spool.usage() > _ROOM * self.settings.spool_bytes:
                self.clean(_YOUNG)
        return self.spool.put(self._limited(data))

    def create(self, source: str, name: str, options: JobOptions, owner: str = "", id: str | None = None) -> Job:
        """A job for a blob that is in the spool. One of this `id` that exists stays as it is. Raises Overloaded."""
        now = time.time()
        id = id or f"{int(now * 1000):012x}{secrets.token_hex(5)}"
        job = Job(id, name, options, State.QUEUED, source, owner, now)
        self.queue.create(job, Task(job.id, SPLIT, Kind.SPLIT), Task(job.id, STITCH, Kind.STITCH))
        return job

    def get(self, id: str) -> Job:
        """Raises NoSuchJob."""
        job = self.queue.job(id)
        if job is None:
            raise NoSuchJob(f"There is no job {id}.")
        return job

    def list(
        self, state: State | None = None, owner: str | None = None, limit: int = 100, before: str | None = None
    ) -> Sequence[Job]:
        """The newest first."""
        return self.queue.jobs(state, owner, limit, before)

    def changes(self, timeout: float = 1.0) -> Changes:
        """The ids of jobs as they change."""
        return self.queue.changes(timeout=timeout)

    def cancel(self, id: str) -> bool:
        """End a job. False when it has ended otherwise. Raises NoSuchJob."""
        self.get(id)
        return self.queue.cancel(id)

    def retry(self, id: str) -> bool:
        """Do again what failed in a job that has ended. False when nothing did. Raises NoSuchJob, Overloaded."""
        self.get(id)
        return self.queue.retry(id)

    def delete(self, id: str) -> None:
        """Remove a job and its transcript. Raises NoSuchJob.

        Its file and what was made of it follow with the first `discard` after `_IDLE` seconds, if nobody needs them:
        somebody may be handing in the same file just now, and have found it in the spool.
        """
        job = self.get(id)
        audio, heard = self._files_of(job)
        files = {("source", job.source), *(("audio", blob) for blob in audio), *(("heard", name) for name in heard)}
        self.queue.delete(id)
        self.spool.forget(f"jobs/{id}")
        self.queue.discard(files, _IDLE)
        self.discard()

    def discard(self) -> None:
        """Remove files of deleted jobs whose time has come and that no job needs."""
        while files := self.queue.unused():
            young = []
            for kind, name in files:
                remove = self.spool.forget if kind == "heard" else self.spool.delete
                if not remove(name, _IDLE):
                    young.append((kind, name))
            self.queue.discard(young, _IDLE)

    def dead(self, id: str | None = None, limit: int = 100) -> Sequence[Dead]:
        """Tasks that were given up, the newest first."""
        return self.queue.dead(id, limit)

    def purge(self, older_than: float) -> int:
        """Delete the jobs that ended more than `older_than` seconds ago, and files nobody needs; how many jobs."""
        gone = self.queue.sweep(older_than)
        for id in gone:
            self.spool.forget(f"jobs/{id}")
        self.discard()
        self.clean(max(older_than, _YOUNG))
        return len(gone)

    def clean(self, older_than: float) -> int:
        """Remove files older than this (seconds) that no job needs; bytes.

        Kept are sources and transcripts, and of jobs that go on or can be tried again also audio and results.
        """
        keep: set[str] = set()
        for job in self._all():
            keep |= {job.source, f"jobs/{job.id}"}
            if self._unsettled(job):
                keep = keep.union(*self._files_of(job))
        return self.spool.sweep(keep, older_than)

    def _all(self) -> Iterator[Job]:
        """Every job, some of them twice when others are deleted meanwhile."""
        page = self.queue.jobs(limit=_PAGE)
        yield from page
        while len(page) == _PAGE:
            for last in reversed(page):
                with suppress(InputInvalid):  # deleted: go on from the one before
                    page = self.queue.jobs(limit=_PAGE, before=last.id)
                    break
            else:
                return
            yield from page

    def _unsettled(self, job: Job) -> bool:
        """Whether it goes on, or `retry` would have something to do."""
        return job.state is not State.DONE or bool(self.queue.dead(job.id, 1))

    def _files_of(self, job: Job) -> tuple[set[str], set[str]]:
        """The blobs of a job's decoded audio, and the names of what was heard in it."""
        chunks = [wire.load(Chunk, t.payload) for t in self.queue.tasks(job.id).values() if t.kind is Kind.CHUNK]
        results = self.queue.results(job.id)
        audio = {one.blob for chunk in chunks for run in chunk.runs for one in run.audio}
        if (split := results.get(SPLIT, "")) and dead_reason(split) is None:
            audio |= {part.blob for parts in wire.load(SplitReport, split).parts for part in parts}
        return audio, {name for name in results.values() if name.startswith("results/")}

    def transcript(self, id: str) -> Transcript:
        """Raises NoSuchJob, NotReady."""
        job = self.get(id)
        data = self.spool.load(transcript_name(id)) if job.state in (State.DONE, State.PARTIAL) else None
        if data is None:
            raise NotReady(f"The job is {job.state}: {job.error or 'there is no transcript yet'}.")
        return wire.load(Transcript, data)

    def render(self, id: str, format: str) -> bytes:
        """The transcript in a format of FORMATS. Raises NoSuchJob, NotReady, InputInvalid."""
        return render(self.transcript(id), format, self.get(id).options.subtitles)

    def source(self, id: str) -> BinaryIO:
        """The file as it was handed in. Raises NoSuchJob, BlobMissing."""
        return self.spool.open(self.get(id).source)

    def close(self) -> None:
        """Let go of the queue; the embedded server ends with its last user."""
        self.queue.close()
        self._server.close()

    def _limited(self, data: Iterable[bytes]) -> Iterator[bytes]:
        size = 0
        for piece in data:
            size += len(piece)
            if size > self.settings.max_file_bytes:
                raise InputTooLarge(f"The file is over {self.settings.max_file_bytes} bytes; send a smaller one.")
            yield piece
