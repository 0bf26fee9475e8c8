"""Transcribing files in this process: a queue of the run's own, one worker, a few files at a time, resumable.

Every run has a directory of its own, named after what was asked: the same command finds it again and goes on, and
runs that have nothing to do with each other, or want other models, do not take each other's work.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from batch_jobs.job import Job, JobOptions, State
from batch_jobs.jobs import Jobs
from batch_jobs.settings import BatchSettings
from batch_jobs.worker import Worker
from gateway.cli.progress import Board, Tally
from gateway.cli.recordings import Recording, blocks, real
from speech.engine import Engine, EngineSettings
from speech.languages import check_language
from workers.errors import ServingError

log = logging.getLogger(__name__)

POLL_SECONDS = 0.15
LEFT_OVER = 10_000
"""Jobs that an earlier run can have left: those with holes, and the few that were in hand."""
CLEAN_SECONDS = 3600.0
"""Age of files of finished recordings after which they make room; a younger one may be just what another wants."""
SERVER_SECONDS = 5.0
"""That the queue's server may take to stop."""
AHEAD = 2
"""Files more than pieces at once: the next ones are read and cut while these are transcribed."""


class RunTaken(Exception):
    """The same run is going on in another process."""


class Stopped(Exception):
    """The run was interrupted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a recording. `job` None: it could not even be read; `error` says why."""

    recording: Recording
    job: Job | None
    error: str | None = None


Finished = Callable[[Jobs, Outcome], None]
"""Called in a thread with each recording's outcome, in the order in which they end; the job goes when it returns."""


class LocalRun:
    """One command's work. `stop` is set by whoever wants it to end early; `run` then raises Stopped."""

    def __init__(
        self,
        settings: BatchSettings,
        options: JobOptions,
        engine: EngineSettings,
        concurrency: int,
        board: Board,
        tally: Tally,
        *,
        force: bool = False,
    ) -> None:
        self._settings, self._options, self._engine_settings = settings, options, engine
        self._concurrency, self._board, self._tally, self._force = concurrency, board, tally, force
        self.stop = asyncio.Event()
        self._active: dict[str, Recording] = {}
        self._left_over: dict[str, Job] = {}
        self._cleaned = time.monotonic()

    async def run(self, recordings: Sequence[Recording], finished: Finished) -> None:
        """Transcribe all. Raises RunTaken, Stopped, ServingError, ModelError, ValueError, OSError."""
        async with self._queue() as jobs, self._engine() as engine:
            self._left_over = {job.name: job for job in await asyncio.to_thread(jobs.list, limit=LEFT_OVER)}
            check_language(engine.models(), engine.resolve(self._options.model), self._options.language)
            worker = asyncio.create_task(Worker(jobs, engine, self._concurrency).run(self.stop))
            feeder = asyncio.create_task(self._feed(jobs, recordings, finished))
            try:
                await self._unless_stopped(worker, feeder)
                if not feeder.done():
                    worker.result()
                    raise RuntimeError("the worker ended before its work")
                feeder.result()
            finally:
                self.stop.set()
                feeder.cancel()
                await asyncio.gather(feeder, return_exceptions=True)
                await worker

    async def _unless_stopped(self, *tasks: asyncio.Task[Any]) -> None:
        """Wait for the first of the tasks; raises Stopped when the stop comes before it."""
        stopping = asyncio.create_task(self.stop.wait())
        await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not any(task.done() for task in tasks):
            raise Stopped

    @asynccontextmanager
    async def _queue(self) -> AsyncIterator[Jobs]:
        """The run's queue; its directory goes when nothing in it waits to be gone on with."""
        directory = self._settings.directory
        directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(directory / "run.lock", timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            raise RunTaken("the same command is running already; wait for it, or stop it first") from None
        try:
            os.utime(directory)  # somebody goes on with it
            jobs = await asyncio.to_thread(Jobs.open, self._settings)
            empty = False
            try:
                yield jobs
                empty = not await asyncio.to_thread(jobs.list)
            finally:
                await asyncio.to_thread(jobs.close)
            if empty:
                await asyncio.to_thread(_remove_run, directory)
        finally:
            lock.release()

    @asynccontextmanager
    async def _engine(self) -> AsyncIterator[Engine]:
        self._board.loading(f"Loading {', '.join(self._engine_settings.models)}")
        starting = asyncio.create_task(Engine.start(self._engine_settings))
        await self._unless_stopped(starting)
        engine = starting.result()
        self._board.loading(None)
        try:
            yield engine
        finally:
            await engine.close()

    async def _feed(self, jobs: Jobs, recordings: Sequence[Recording], finished: Finished) -> None:
        """Hand in a few recordings at a time and finish those that have ended, until there are no more."""
        waiting = list(reversed(recordings))
        handing_in: asyncio.Task[None] | None = None
        while waiting or handing_in or self._active:
            if handing_in is not None and handing_in.done():
                handing_in.result()
                handing_in = None
            if handing_in is None and waiting and len(self._active) < self._concurrency + AHEAD:
                handing_in = asyncio.create_task(self._begin(jobs, waiting.pop(), finished))
            for job_id in list(self._active):
                await self._look(jobs, job_id, finished)
            self._board.refresh()
            if handing_in is not None:
                await asyncio.wait({handing_in}, timeout=POLL_SECONDS)
            else:
                await asyncio.sleep(POLL_SECONDS)

    async def _begin(self, jobs: Jobs, recording: Recording, finished: Finished) -> None:
        try:
            job = await asyncio.to_thread(self._submitted, jobs, recording)
        except (OSError, ServingError) as error:
            reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            self._tally.end(recording.name)
            await asyncio.to_thread(finished, jobs, Outcome(recording, None, reason))
            return
        self._active[job.id] = recording

    def _submitted(self, jobs: Jobs, recording: Recording) -> Job:
        """A recording's job: that of an earlier run of this command when it is the same file, else a new one."""
        earlier = self._left_over.pop(recording.name, None)
        if earlier is not None:
            same = recording.path is not None and earlier.source == _sha256(recording.path)
            if same and earlier.options == self._options and not self._force:
                if earlier.state is State.PARTIAL:
                    jobs.retry(earlier.id)
                    return jobs.get(earlier.id)
                if earlier.state not in (State.FAILED, State.CANCELLED):
                    return earlier
            _remove(jobs, earlier)
        return jobs.submit(self._blocks(recording.path), recording.name, self._options)

    def _blocks(self, path: Path | None) -> Iterator[bytes]:
        for block in blocks(path):
            if self.stop.is_set():
                raise Stopped
            yield block

    async def _look(self, jobs: Jobs, job_id: str, finished: Finished) -> None:
        recording = self._active[job_id]
        job = await asyncio.to_thread(jobs.get, job_id)
        self._tally.update(recording.name, job)
        if not job.state.ended:
            self._board.show(recording.name, recording.name, job)
            return
        del self._active[job_id]
        self._tally.end(recording.name)
        self._board.hide(recording.name)
        await asyncio.to_thread(finished, jobs, Outcome(recording, job, job.error))
        if job.state is not State.PARTIAL:  # the holes of a partial one are tried again by the same command
            await asyncio.to_thread(jobs.delete, job_id)
        if time.monotonic() - self._cleaned > CLEAN_SECONDS / 2:
            self._cleaned = time.monotonic()
            await asyncio.to_thread(jobs.clean, CLEAN_SECONDS)


def _remove(jobs: Jobs, job: Job) -> None:
    if not job.state.ended:
        jobs.cancel(job.id)
    jobs.delete(job.id)


def _remove_run(directory: Path) -> None:
    """Remove a run's directory, once the queue's server has gone: it would take the socket of its successor along."""
    with suppress(Timeout, OSError):
        FileLock(directory / "queue" / "guard", timeout=SERVER_SECONDS).acquire()
    shutil.rmtree(directory, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run_directory(root: Path, arguments: Sequence[str], settings: str) -> Path:
    """The directory of the run that these arguments (as paths) and settings make; short, for the socket in it."""
    named = [argument if argument == "-" else str(real(Path(argument))) for argument in arguments]
    digest = hashlib.sha256("\0".join([settings, *sorted(named)]).encode()).hexdigest()[:12]
    return root / "runs" / digest


def forget_old_runs(root: Path, keep: float) -> None:
    """Remove the directories of runs that nobody went on with for `keep` seconds."""
    for directory in (root / "runs").glob("*"):
        lock = FileLock(directory / "run.lock", timeout=0, thread_local=False)
        with suppress(Timeout, OSError):
            if time.time() - directory.stat().st_mtime > keep:
                with lock:
                    shutil.rmtree(directory, ignore_errors=True)
