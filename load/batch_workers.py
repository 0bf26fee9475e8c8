"""Worker processes of the batch lane that can be killed, halted and replaced at any moment.

They run what `speechlane worker` runs, with any settings of the queue (the command has no flag for the lease), and are
forked from a process that has imported everything, so that a new one is there in a second or two.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

from batch_jobs.settings import BatchSettings

READY = 120.0
"""Seconds in which a worker has to be ready; the first one measures the machine."""
_STOP = 30.0
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["batch_jobs.worker", "speech.engine"])


@dataclass(frozen=True, slots=True)
class How:
    """How each worker runs. `log`: the file that takes what all of them say.

    `profiles`: what the first of them measures of the machine and the others take over. A folder of our own, because
    whoever else measures in between may find another precision the fastest, which gives other transcripts.
    """

    settings: BatchSettings
    log: Path
    profiles: Path
    model: str = "tiny.en"
    threads: int = 1
    concurrency: int = 24


class One:
    """A worker process that has been started."""

    def __init__(self, how: How) -> None:
        self._told, told = _context.Pipe(duplex=False)
        self._process = _context.Process(target=_run, args=(how, told), daemon=True)
        self._process.start()
        told.close()
        self._ready = False
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def ready(self) -> bool:
        """It takes tasks. Raises SystemExit when it has ended instead."""
        if not self._ready and self._told.poll():
            try:
                self._ready = bool(self._told.recv())
            except EOFError:
                raise SystemExit(f"worker {self.pid} did not start") from None
        return self._ready

    def kill(self) -> None:
        """End it as kill -9 does."""
        self._process.kill()
        self._process.join()

    def halt(self) -> None:
        """Let it do nothing until `go_on`, as a machine that swaps or sleeps does."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Ask it to end, so that it gives back what it holds."""
        self._process.terminate()
        self._process.join(_STOP)
        if self._process.is_alive():
            self.kill()


class Crew:
    """A number of workers; `replace` keeps it."""

    def __init__(self, how: How, count: int) -> None:
        self._how = how
        self.workers = [One(how)]
        try:
            self.wait()  # the first may measure what suits the machine, and the others must find the same
            self.workers += [One(how) for _ in range(count - 1)]
            self.wait()
        except BaseException:
            self.close()
            raise

    def wait(self) -> None:
        """Until all take tasks. Raises SystemExit when one does not come."""
        deadline = time.monotonic() + READY
        while not all(one.ready for one in self.workers):
            if time.monotonic() > deadline:
                raise SystemExit(f"a worker did not get ready in {READY:.0f} s; {self._how.log} may say why")
            time.sleep(0.02)

    def replace(self, gone: One) -> None:
        """Start another one in the place of one that was killed; does not wait for it."""
        self.workers[self.workers.index(gone)] = One(self._how)

    def close(self) -> None:
        for one in self.workers:
            one.stop()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _run(how: How, told: Connection) -> None:
    log = os.open(how.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started it
    asyncio.run(_work(how, told))


async def _work(how: How, told: Connection) -> None:
    from batch_jobs.jobs import Jobs
    from batch_jobs.worker import Worker
    from speech.engine import Engine, EngineSettings

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    engine = await Engine.start(EngineSettings((how.model,), threads=how.threads, profiles=how.profiles))
    jobs = await asyncio.to_thread(Jobs.open, how.settings)
    try:
        told.send(True)
        await Worker(jobs, engine, how.concurrency).run(stop)
    finally:
        await engine.close()
        await asyncio.to_thread(jobs.close)
