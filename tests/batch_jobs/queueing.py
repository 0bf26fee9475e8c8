"""What the tests of the queue share: small jobs, workers that die, and a worker as a program of its own:

    python tests/batch_jobs/queueing.py DIRECTORY LEASE DELIVERIES

It works on what comes until it is killed. A task's payload is {"seconds": how long it takes, "kill": whether it kills
its worker}; `started` counts the starts of each task.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from batch_jobs.job import Job, JobOptions, Priority, State
from batch_jobs.queue.queue import Queue
from batch_jobs.queue.server import Server, connect
from batch_jobs.queue.task import Kind, Lease, Task
from batch_jobs.settings import BatchSettings

CHUNKS = 40
REPAIRS = 5
STARTED = "started"


def job(id: str, *, owner: str = "", created: float | None = None, priority: Priority = Priority.NORMAL) -> Job:
    created = time.time() if created is None else created
    return Job(id, f"{id}.wav", JobOptions(priority=priority), State.QUEUED, "0" * 64, owner=owner, created=created)


def create(queue: Queue, id: str, *, priority: Priority = Priority.NORMAL, payload: str = "") -> None:
    """A job whose SPLIT is queued and whose STITCH comes after it."""
    first, then = Task(id, "split", Kind.SPLIT, payload), Task(id, "stitch", Kind.STITCH, payload)
    queue.create(job(id, priority=priority), first, then)


def take(queue: Queue, block: float = 5.0) -> Lease:
    lease = queue.take(block)
    assert lease is not None
    return lease


def chunks(id: str, count: int, payload: str = "") -> list[Task]:
    return [Task(id, f"c{number}", Kind.CHUNK, payload) for number in range(count)]


def split(queue: Queue, id: str, count: int, payload: str = "", priority: Priority = Priority.NORMAL) -> None:
    """A job whose chunks are queued."""
    create(queue, id, priority=priority)
    lease = take(queue)
    assert lease.task.id == "split" and lease.task.job == id
    assert queue.fan_out(lease, chunks(id, count, payload), chunks=count)
    assert queue.commit(lease, "split")


def abandon(queue: Queue, lease: Lease) -> None:
    """As if the worker of this queue had been silent with the task for a minute."""
    queue._renewal.release(lease)
    stream = f"speechlane:tasks:{lease.stream}"
    queue._redis.xclaim(stream, "workers", queue._consumer, 0, [lease.message], idle=60_000, justid=True)


def finish(queue: Queue) -> list[str]:
    """Do everything that there is to do; the ids of the tasks in their order."""
    done = []
    while (lease := queue.take(0)) is not None:
        work(queue, lease)
        done.append(lease.task.id)
    return done


def work(queue: Queue, lease: Lease) -> bool:
    """Run a task of the whole pipeline: SPLIT makes chunks, STITCH makes repairs, WRITE ends the job."""
    task = lease.task
    if task.kind is Kind.SPLIT:
        for first in range(0, CHUNKS, 10):
            time.sleep(json.loads(task.payload or "{}").get("seconds", 0.0))
            if not queue.fan_out(lease, chunks(task.job, CHUNKS, task.payload)[first : first + 10], chunks=10):
                return False
        return queue.commit(lease, "split", fields={"split": True})
    if task.kind is Kind.CHUNK:
        return queue.commit(lease, f"text of {task.id}", increments={"chunks_done": 1, "covered": 2.5})
    if task.kind is Kind.STITCH:
        repairs = [Task(task.job, f"r{number}", Kind.REPAIR, task.payload) for number in range(REPAIRS)]
        then = Task(task.job, "write", Kind.WRITE, task.payload)
        return queue.commit(lease, "stitched", tasks=repairs, then=then, fields={"repairs": REPAIRS})
    if task.kind is Kind.REPAIR:
        return queue.commit(lease, f"better {task.id}", increments={"repairs_done": 1})
    heard = {id: text for id, text in queue.results(task.job).items() if id.startswith(("c", "r"))}
    return queue.commit(lease, json.dumps(heard, sort_keys=True), fields={"state": State.DONE})


def whole() -> dict[str, str]:
    """What WRITE finds in a job of which nothing was lost."""
    heard = {f"c{number}": f"text of c{number}" for number in range(CHUNKS)}
    return heard | {f"r{number}": f"better r{number}" for number in range(REPAIRS)}


def started(server: Server) -> Counter[str]:
    """How often each task was started."""
    return Counter(name.split()[0] for name in server.redis.smembers(STARTED))


class Workers:
    """Workers as processes on the embedded server in a directory."""

    def __init__(self, directory: Path, lease: float, deliveries: int) -> None:
        self._command = [sys.executable, __file__, str(directory), str(lease), str(deliveries)]
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        root = Path(__file__).resolve().parents[2]
        process = subprocess.Popen(self._command, env={**os.environ, "PYTHONPATH": str(root)})
        self.running.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        self.running.remove(process)

    def stop(self) -> None:
        for process in list(self.running):
            self.kill(process)


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def main(directory: Path, lease: float, deliveries: int) -> None:
    settings = BatchSettings(directory=directory, lease=lease, deliveries=deliveries)
    server = connect(settings)
    queue = Queue(server.redis, settings)
    while True:
        taken = queue.take(1.0)
        if taken is None:
            continue
        # Each start has a name of its own: a command whose answer was lost with the server is sent again.
        server.redis.sadd(STARTED, f"{taken.task.id} {uuid4().hex}")
        payload = json.loads(taken.task.payload or "{}")
        if payload.get("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(payload.get("seconds", 0.0))
        work(queue, taken)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
