"""How the batch queue scales: one job of equal chunks over 1, 2, 4, 8 workers whose model takes a fixed time a step.

Each worker is a process with its own step loop and its own connection to the embedded server, as `speechlane worker`
is; only the model is replaced by a wait, so that what is lost is lost by the queue and not by a shared processor.
`of linear` is the speed against that many times the speed of one worker; `lost` is the time of a worker for each chunk
beyond its step. Ends with status 1 when a row is under 0.9 of linear.

    python -m load.batch_scaling
"""

from __future__ import annotations

import argparse
import queue as queues
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from batch_jobs.job import Job, JobOptions, State
from batch_jobs.queue.queue import Queue
from batch_jobs.queue.server import Server, connect
from batch_jobs.queue.task import Kind, Task
from batch_jobs.settings import BatchSettings
from load.report import console, table
from workers.backend import Limits, Spec
from workers.device import Device
from workers.errors import ServingError
from workers.onestep import OneStep
from workers.pool import Pool
from workers.task import Lane, Result
from workers.task import Task as Step

LINEAR = 0.9
READY = "scaling:ready"


class FixedTime(OneStep):
    """A model that takes its time, whatever it is given."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.spec = Spec(task="wait", model="wait")
        self.limits = Limits(items=1)

    def run(self, payloads: Sequence[Any]) -> Sequence[Any]:
        time.sleep(self._seconds)
        return payloads


def work(directory: Path, seconds: float) -> None:
    """A worker: take, step, commit, until it is stopped."""
    settings = BatchSettings(directory=directory)
    server = connect(settings)
    queue = Queue(server.redis, settings)
    device = Device("wait:0")
    device.add(FixedTime(seconds))
    device.start()
    pool = Pool("wait", [device])
    results: queues.SimpleQueue[Result] = queues.SimpleQueue()

    def sink(_step: Step, result: Result) -> None:
        results.put(result)

    server.redis.incr(READY)
    while True:
        lease = queue.take(1.0)
        if lease is None:
            continue
        if lease.task.kind is Kind.CHUNK:
            pool.submit_task(lease.task.payload, lane=Lane.BULK, deadline=time.monotonic() + 60.0, sink=sink)
            if isinstance(result := results.get(), ServingError):
                raise result
        queue.commit(lease, "{}", increments={"chunks_done": 1})


def measure(server: Server, directory: Path, workers: int, chunks: int, seconds: float) -> float:
    """Seconds from the moment the chunks are queued until the job has ended."""
    server.redis.flushall()
    queue = Queue(server.redis, BatchSettings(directory=directory))
    job = Job("scaling", "scaling", JobOptions(), State.QUEUED, "", created=time.time())
    queue.create(job, Task(job.id, "split", Kind.SPLIT), Task(job.id, "stitch", Kind.STITCH))
    lease = queue.take(5.0)
    assert lease is not None
    command = [sys.executable, "-m", "load.batch_scaling", "--work-in", str(directory), "--step", str(seconds)]
    processes = [subprocess.Popen(command) for _ in range(workers)]
    try:
        while int(server.redis.get(READY) or 0) < workers:
            time.sleep(0.05)
        began = time.time()
        queue.fan_out(lease, [Task(job.id, f"c{number}", Kind.CHUNK) for number in range(chunks)], chunks=chunks)
        queue.commit(lease, "{}")
        with queue.changes(job.id, timeout=60.0) as changes:
            while (found := queue.job(job.id)) is not None and found.ended is None:
                changes.get(1.0)
        assert found is not None and found.ended is not None
        return found.ended - began
    finally:
        for process in processes:
            process.terminate()
            process.wait()
        queue.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8], help="default %(default)s")
    parser.add_argument("--chunks", type=int, default=160, help="chunks of the job (default %(default)s)")
    parser.add_argument("--step", type=float, default=0.25, help="seconds of a chunk (default %(default)s)")
    parser.add_argument("--work-in", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work_in is not None:
        work(options.work_in, options.step)
    walls: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as name, connect(BatchSettings(directory=Path(name))) as server:
        for workers in options.workers:
            walls[workers] = measure(server, Path(name), workers, options.chunks, options.step)
    fewest = min(walls)
    shares = {workers: walls[fewest] * fewest / (wall * workers) for workers, wall in walls.items()}
    rows = []
    for workers, wall in walls.items():
        lost = wall * workers / options.chunks - options.step
        rows.append(
            [str(workers), f"{wall:.2f}", f"{options.chunks / wall:.1f}", f"{shares[workers]:.3f}", f"{lost:.4f}"]
        )
    head = ["workers", "wall s", "chunks/s", "of linear", "lost s/chunk"]
    console().print(table(f"{options.chunks} chunks of {options.step} s", head, rows))
    return int(min(shares.values()) < LINEAR)


if __name__ == "__main__":
    sys.exit(main())
