"""The queue on the real embedded server: leases, stages, dead letters, order, records."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, ResponseError

from batch_jobs.job import Priority, State
from batch_jobs.queue import queue as queue_module
from batch_jobs.queue import records
from batch_jobs.queue.clients import blames, passes
from batch_jobs.queue.queue import Queue
from batch_jobs.queue.server import Server, connect
from batch_jobs.queue.task import Kind, Lease, Task
from batch_jobs.settings import BatchSettings
from tests.batch_jobs.queueing import (
    CHUNKS,
    REPAIRS,
    abandon,
    chunks,
    create,
    finish,
    job,
    split,
    take,
    wait_for,
    whole,
    work,
)
from workers.errors import InputInvalid, Overloaded

LEASE = 0.6
STREAM = "speechlane:tasks:normal"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with connect(BatchSettings(directory=tmp_path_factory.mktemp("queue"))) as server:
        yield server


@pytest.fixture
def make(server: Server) -> Iterator[Callable[..., Queue]]:
    """Queues on an empty server; each is a worker."""
    server.redis.flushall()
    made: list[Queue] = []

    def make(clock: Callable[[], float] = time.time, **settings: float) -> Queue:
        made.append(Queue(server.redis, BatchSettings(**{"lease": LEASE, **settings}), clock))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for queue in made:
        queue.close()


@pytest.fixture
def queue(make: Callable[..., Queue]) -> Queue:
    return make()


def state(queue: Queue, id: str = "job") -> State:
    found = queue.job(id)
    assert found is not None
    return found.state


# Stages


def test_a_job_goes_through_its_stages(queue: Queue) -> None:
    create(queue, "job")
    assert state(queue) is State.QUEUED
    done = finish(queue)
    assert done[0] == "split" and done[CHUNKS + 1] == "stitch" and done[-1] == "write"
    assert sorted(done) == sorted({*whole(), "split", "stitch", "write"})
    assert json.loads(queue.results("job")["write"]) == whole()
    found = queue.job("job")
    assert found is not None and found.state is State.DONE and found.split and found.progress == 1.0
    assert (found.chunks, found.chunks_done, found.repairs, found.repairs_done) == (CHUNKS, CHUNKS, REPAIRS, REPAIRS)
    assert found.covered == 2.5 * CHUNKS
    assert found.started is not None and found.ended is not None and found.created <= found.started <= found.ended


def test_the_next_stage_starts_once_whoever_commits_last_and_however_often(make: Callable[..., Queue]) -> None:
    queues = [make(lease=60.0) for _ in range(4)]
    for round in range(3):
        split(queues[0], f"job{round}", 60)
        leases = [(queue, lease) for _ in range(15) for queue in queues if (lease := queue.take(0))]
        assert len(leases) == 60
        with ThreadPoolExecutor(16) as threads:
            calls = [threads.submit(queue.commit, lease, "text") for queue, lease in leases for _ in range(3)]
            assert sum(call.result() for call in calls) == 60
        following = [lease for queue in queues for _ in range(2) if (lease := queue.take(0))]
        assert [lease.task.id for lease in following] == ["stitch"]
        assert [queue.commit(following[0], "stitched") for queue in queues].count(True) == 1
        assert state(queues[0], f"job{round}") is State.DONE


def test_adding_tasks_again_changes_nothing(queue: Queue) -> None:
    create(queue, "job")
    lease = take(queue)
    assert queue.fan_out(lease, chunks("job", 3), chunks=3, covered=1.5)
    assert queue.fan_out(lease, chunks("job", 3), chunks=3, covered=1.5)
    found = queue.job("job")
    assert found is not None and (found.chunks, found.covered) == (3, 1.5)
    assert queue.commit(lease, "split")
    assert not queue.fan_out(lease, chunks("job", 9), chunks=9), "it is done and adds no more"
    assert len(finish(queue)) == 3 + 1 + REPAIRS + 1


def test_tasks_that_the_server_forgot_are_there_again_with_the_commit(queue: Queue, server: Server) -> None:
    redis: Any = server.redis
    create(queue, "job")
    lease = take(queue)
    for first in (0, 3):
        assert queue.fan_out(lease, chunks("job", 6)[first : first + 3], chunks=3)
    forgotten = [message for message, fields in redis.xrange(STREAM) if fields["task"] in ("c3", "c4", "c5")]
    redis.xdel(STREAM, *forgotten)
    redis.hdel("speechlane:tasks_of:job", "c3", "c4", "c5")
    redis.hincrby("speechlane:job:job", "chunks", -3)
    assert queue.commit(lease, "split")
    assert finish(queue)[:7] == [*(f"c{number}" for number in range(6)), "stitch"]
    found = queue.job("job")
    assert found is not None and found.chunks == 6


def test_a_task_that_adds_nothing_starts_the_next_stage(queue: Queue) -> None:
    create(queue, "job")
    assert queue.commit(take(queue), "nothing in it")
    lease = take(queue)
    assert lease.task.id == "stitch"
    assert queue.commit(lease, "stitched", then=Task("job", "write", Kind.WRITE))
    assert queue.commit(take(queue), "written", fields={"state": State.PARTIAL, "warnings": ("cut short",)})
    found = queue.job("job")
    assert found is not None and found.state is State.PARTIAL and found.warnings == ("cut short",)


# Leases


def test_an_abandoned_task_goes_to_another_and_its_first_worker_counts_no_more(make: Callable[..., Queue]) -> None:
    slow, other = make(), make()
    split(slow, "job", 1)
    lease = take(slow)
    abandon(slow, lease)
    again = take(other)
    assert (again.task, again.deliveries, again.attempt) == (lease.task, 2, 1)
    assert not slow.commit(lease, "late")
    assert not slow.fan_out(lease, chunks("job", 2))
    slow.fail(lease, "late", again=False)
    slow.give_back(lease)
    assert other.commit(again, "in time")
    assert other.results("job") == {"split": "split", "c0": "in time"} and other.dead() == []


def test_a_dead_workers_task_restarts_within_the_lease_and_a_second(make: Callable[..., Queue]) -> None:
    dead, other = make(), make()
    split(dead, "job", 1)
    lease = take(dead)
    dead._renewal.close()  # as a killed process: nothing is renewed, nothing given back
    began = time.monotonic()
    again = take(other)
    assert again.task == lease.task
    assert time.monotonic() - began <= LEASE + 1.0


def test_a_task_longer_than_its_lease_is_run_once(make: Callable[..., Queue]) -> None:
    worker, idle = make(), make()
    split(worker, "job", 1)
    lease = take(worker)
    assert idle.take(4 * LEASE) is None
    assert not lease.lost
    assert worker.commit(lease, "long")


def test_the_renewal_tells_a_worker_that_it_lost_its_task(make: Callable[..., Queue]) -> None:
    slow, other = make(), make()
    split(slow, "job", 2)
    lost, kept = take(slow), take(slow)
    abandon(slow, lost)
    slow._renewal.hold(lost)
    take(other)
    wait_for(lambda: lost.lost)
    assert not lost.cancelled and not kept.lost


def test_many_live_tasks_hide_no_dead_one(make: Callable[..., Queue]) -> None:
    busy, other = make(), make()
    split(busy, "job", 30)
    leases = [take(busy) for _ in range(30)]
    abandon(busy, leases[25])
    assert take(other, 0).task == leases[25].task


def test_a_task_given_back_goes_to_others_at_once_in_its_place_and_uncounted(
    make: Callable[..., Queue], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "_POLL", 60.0)
    leaving, other = make(), make()
    split(leaving, "job", 3)
    with ThreadPoolExecutor() as threads:
        for _ in range(5):
            lease = take(leaving)
            assert (lease.task.id, lease.deliveries) == ("c0", 1)
            leaving.give_back(lease)
        held = [take(leaving) for _ in range(3)]
        waiting = threads.submit(other.take, 30.0)
        time.sleep(0.1)
        leaving.give_back(held[1])
        found = waiting.result(5.0)
    assert found is not None and (found.task, found.deliveries) == (held[1].task, 1)
    leaving.close()
    assert {take(other, 0).task.id, take(other, 0).task.id} == {"c0", "c2"}, "closing gives back what is held"


def test_a_task_that_kills_its_workers_is_buried_and_the_job_goes_on(make: Callable[..., Queue]) -> None:
    queue = make(deliveries=3)
    split(queue, "job", 2)
    poison, good = take(queue), take(queue)
    assert queue.commit(good, "text")
    for deliveries in (2, 3):
        abandon(queue, poison)
        poison = take(queue, 0)
        assert (poison.task.id, poison.deliveries) == ("c0", deliveries)
    abandon(queue, poison)
    following = take(queue, 0)
    assert following.task.id == "stitch"
    (dead,) = queue.dead("job")
    assert (dead.task, dead.kind, dead.deliveries) == ("c0", Kind.CHUNK, 3) and "died or hung" in dead.reason
    assert queue.dead() == [dead]
    assert json.loads(queue.results("job")["c0"]) == {"dead": dead.reason}
    found = queue.job("job")
    assert found is not None and found.chunks_failed == 1 and found.state is State.RUNNING
    assert queue.take(0) is None and not queue.commit(poison, "too late")


# Waiting


def test_a_waiting_worker_wakes_at_once(make: Callable[..., Queue], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "_POLL", 60.0)
    submitter, worker = make(), make()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(worker.take, 30.0)
        time.sleep(0.1)
        create(submitter, "job")
        lease = waiting.result(5.0)
        assert lease is not None and lease.task.id == "split"
        waiting = threads.submit(make().take, 30.0)
        time.sleep(0.1)
        worker.fail(lease, "for a moment", again=True)
        again = waiting.result(5.0)
        assert again is not None and again.attempt == 2, "a delayed task wakes when it is due"
        waiting = threads.submit(worker.take, 30.0)
        time.sleep(0.1)
        worker.close()
        assert waiting.result(5.0) is None


def test_waiting_ends_after_its_time(queue: Queue) -> None:
    began = time.monotonic()
    assert queue.take(0.3) is None
    assert 0.3 <= time.monotonic() - began < 2.0


def test_failures_are_tried_later_and_later_and_then_buried(make: Callable[..., Queue]) -> None:
    now = [1000.0]
    queue = make(lambda: now[0], attempts=3)
    split(queue, "job", 1)
    for attempt, wait in ((1, 1.0), (2, 2.0)):
        lease = take(queue, 0)
        assert lease.attempt == attempt
        queue.fail(lease, "out of memory", again=True)
        now[0] += wait * 0.49
        assert queue.take(0) is None
        now[0] += wait * 0.52
    lease = take(queue, 0)
    assert lease.attempt == 3
    queue.fail(lease, "out of memory", again=True)
    assert [(dead.reason, dead.deliveries) for dead in queue.dead()] == [("out of memory", 3)]
    assert take(queue, 0).task.id == "stitch"


# Order


def test_high_goes_before_normal_before_low_and_nothing_starves(queue: Queue) -> None:
    for priority in Priority:
        create(queue, priority, priority=priority)
    for lease in [take(queue, 0) for _ in Priority]:
        assert queue.fan_out(lease, chunks(lease.task.job, 40)) and queue.commit(lease, "split")
    taken = [take(queue, 0).task.job for _ in range(32)]
    assert (taken.count("high"), taken.count("normal"), taken.count("low")) == (20, 8, 4)
    rest = [take(queue, 0).task.job for _ in range(88)]
    assert len(rest) == 88 and rest[-8:] == ["low"] * 8


def test_one_worker_takes_one_task_at_a_time(make: Callable[..., Queue]) -> None:
    queues = [make() for _ in range(3)]
    split(queues[0], "job", 12)
    counts = [0, 0, 0]
    for number in range(12):
        assert queues[number % 3].take(0) is not None
        counts[number % 3] += 1
    assert counts == [4, 4, 4] and queues[0].take(0) is None


# Ends


def test_a_dead_task_that_the_job_needs_fails_it(queue: Queue) -> None:
    create(queue, "job")
    lease = take(queue)
    queue.fan_out(lease, chunks("job", 4), chunks=4)
    queue.fail(lease, "This is no audio file.", again=False)
    found = queue.job("job")
    assert found is not None and (found.state, found.error) == (State.FAILED, "This is no audio file.")
    assert found.ended is not None and queue.take(0) is None, "what it had queued is dropped"


def test_a_cancelled_job_stops_everywhere(queue: Queue) -> None:
    split(queue, "job", 10)
    held, other = take(queue), take(queue)
    assert queue.cancel("job") and queue.cancel("job")
    assert state(queue) is State.CANCELLED
    wait_for(lambda: held.lost and held.cancelled)
    assert not queue.commit(held, "late")
    queue.fail(other, "late", again=True)
    assert queue.take(0) is None and set(queue.results("job")) == {"split"}
    assert all(queue._redis.xlen(f"speechlane:tasks:{name}") == 0 for name in [*Priority, "normal-new"])
    assert not queue.cancel("nobody")


def test_retry_runs_what_died_and_stitches_again(queue: Queue) -> None:
    split(queue, "job", 4)
    for lease in [take(queue) for _ in range(4)]:
        if lease.task.id == "c2":
            queue.fail(lease, "bad", again=False)
        else:
            assert queue.commit(lease, f"text of {lease.task.id}", increments={"chunks_done": 1})
    assert not queue.retry("job"), "it goes on"
    assert finish(queue)[0] == "stitch"
    assert state(queue) is State.DONE and len(queue.dead("job")) == 1

    assert queue.retry("job") and not queue.retry("job")
    assert queue.dead() == [] and state(queue) is State.QUEUED
    assert finish(queue) == ["c2", "stitch", *(f"r{number}" for number in range(REPAIRS)), "write"]
    found = queue.job("job")
    assert found is not None and (found.chunks_done, found.chunks_failed, found.state) == (4, 0, State.DONE)
    assert queue.results("job")["c2"] == "text of c2"
    assert not queue.retry("job"), "nothing is missing"
    assert not queue.retry("nobody")


def test_retry_of_a_dead_repair_stitches_again(queue: Queue) -> None:
    split(queue, "job", 1)
    assert queue.commit(take(queue), "text")
    assert queue.commit(take(queue), "s", tasks=[Task("job", "r0", Kind.REPAIR)], then=Task("job", "write", Kind.WRITE))
    queue.fail(take(queue), "bad", again=False)
    assert queue.commit(take(queue), "written")
    assert queue.retry("job")
    assert finish(queue) == ["stitch", *(f"r{number}" for number in range(REPAIRS)), "write"]


@pytest.mark.parametrize("last", ["split", "stitch", "write"])
def test_retry_of_a_failed_job_keeps_what_was_done(queue: Queue, last: str) -> None:
    create(queue, "job")
    done = []
    while (lease := take(queue)).task.id != last:
        assert work(queue, lease)
        done.append(lease.task.id)
    if last == "split":
        queue.fan_out(lease, chunks("job", 2))
        assert queue.commit(take(queue), "text of c0")
        done.append("c0")
    queue.fail(lease, "bad", again=False)
    assert state(queue) is State.FAILED and queue.retry("job")
    again = finish(queue)
    kept = {id for id in done if id == "split" or id.startswith("c")}
    assert kept.isdisjoint(again) and again[-1] == "write" and again.count("stitch") == 1
    found = queue.job("job")
    assert found is not None and found.state is State.DONE and found.error is None
    assert json.loads(queue.results("job")["write"]) == whole()


def test_a_cancelled_job_can_go_on_and_leases_from_before_count_for_nothing(make: Callable[..., Queue]) -> None:
    queue, other = make(), make()
    split(queue, "job", 2)
    old_chunk = take(queue)
    assert queue.commit(take(queue), "text of c1")
    assert queue.cancel("job") and queue.retry("job")
    assert not queue.commit(old_chunk, "old")
    again = take(other)
    assert again.task.id == "c0" and other.commit(again, "text of c0")
    stitch = take(other)
    assert queue.cancel("job") and queue.retry("job")
    second = take(queue)
    assert second.task.id == "stitch"
    assert not other.commit(stitch, "old", tasks=chunks("job", 9), then=Task("job", "write", Kind.WRITE))
    assert queue.commit(second, "new")
    assert queue.results("job") == {"split": "split", "c0": "text of c0", "c1": "text of c1", "stitch": "new"}
    assert state(queue) is State.DONE


# Records


def test_jobs_are_listed_newest_first_in_pages(queue: Queue) -> None:
    for number in range(250):
        one = job(f"job{number}", owner="me" if number % 5 else "you", created=1000.0 + number // 2)
        queue.create(one, Task(one.id, "split", Kind.SPLIT), Task(one.id, "stitch", Kind.STITCH))
    queue.cancel("job7")
    assert [found.id for found in queue.jobs(State.CANCELLED)] == ["job7"]
    assert len(queue.jobs(owner="you", limit=1000)) == 50 and len(queue.jobs()) == 100
    pages: list[str] = []
    while page := queue.jobs(owner="me", limit=33, before=pages[-1] if pages else None):
        pages += [found.id for found in page]
    assert len(pages) == len(set(pages)) == 200
    times = [int(id.removeprefix("job")) // 2 for id in pages]
    assert times == sorted(times, reverse=True)
    with pytest.raises(InputInvalid, match="no job nobody"):
        queue.jobs(before="nobody")


def test_only_an_owners_jobs_are_read_for_a_list_of_them(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that an earlier version stored without an index."""
    for number in range(120):
        one = job(f"job{number}", owner="me" if number == 60 else "you", created=1000.0 + number)
        queue.create(one, Task(one.id, "split", Kind.SPLIT), Task(one.id, "stitch", Kind.STITCH))
    queue.cancel("job5")
    indexes = [*queue._redis.keys("*jobs_of:*"), *queue._redis.keys("*source:*"), "speechlane:again"]
    before = {name: queue._redis.dump(name) for name in indexes}
    assert len(before) == 4
    queue._redis.delete(*indexes, "speechlane:indexes")
    queue._index()
    assert {found.id for found in queue.jobs(owner="you", limit=1000)} == {f"job{n}" for n in range(120) if n != 60}
    assert queue._redis.smembers("speechlane:again") == {"job5"}
    assert queue._redis.scard(f"speechlane:source:{'0' * 64}") == 120
    read: list[str] = []
    real = records.decode_job
    monkeypatch.setattr(records, "decode_job", lambda id, stored: read.append(id) or real(id, stored))
    monkeypatch.setattr(queue._redis, "zscan", lambda *_, **__: pytest.fail("made once"))
    queue._index()
    assert [found.id for found in queue.jobs(owner="me")] == read == ["job60"]
    with pytest.raises(InputInvalid, match="no job job60"):
        queue.jobs(owner="you", before="job60")
    assert queue.jobs(owner="nobody") == []


def test_files_of_deleted_jobs_are_told_when_their_time_has_come_and_nobody_needs_them(
    make: Callable[..., Queue],
) -> None:
    now = [1000.0]
    queue = make(lambda: now[0])
    split(queue, "one", 1)
    files = [("source", "0" * 64), ("audio", "a" * 64), ("heard", "results/b")]
    queue.discard(files[1:], 60.0)
    assert queue.unused() == []
    now[0] += 61
    assert queue.unused() == [], "a job goes on, which may have the same"
    queue.discard(files, 60.0)
    now[0] += 61
    finish(queue)
    assert queue.unused() == files[1:], "the job has the same source"
    queue.delete("one")
    queue.discard(files, 60.0)
    now[0] += 61
    assert sorted(queue.unused()) == sorted(files)
    assert queue.unused() == []
    split(queue, "dead", 1)
    queue.fail(take(queue), "bad", again=False)
    finish(queue)
    assert state(queue, "dead") is State.DONE
    queue.discard(files[1:], 0.0)
    assert queue.unused() == [], "it can be tried again"


def test_a_chunk_that_is_given_up_counts_as_covered_until_it_is_tried_again(make: Callable[..., Queue]) -> None:
    queue = make(deliveries=1)
    create(queue, "job")
    lease = take(queue)
    assert queue.fan_out(lease, [Task("job", f"c{n}", Kind.CHUNK, covers=2.5) for n in range(3)], chunks=3)
    assert queue.commit(lease, "split", fields={"decoded": 7.5, "split": True})
    queue.fail(take(queue), "bad", again=False)
    abandon(queue, take(queue))
    assert queue.commit(take(queue), "text", increments={"covered": 2.5})
    stitch = take(queue)
    found = queue.job("job")
    assert found is not None and (found.covered, found.chunks_failed, found.progress) == (7.5, 2, 0.99)
    assert queue.commit(stitch, "", fields={"state": State.PARTIAL})
    assert queue.retry("job")
    found = queue.job("job")
    assert found is not None and (found.covered, found.chunks_failed) == (2.5, 0)


def test_a_clock_that_is_set_back_makes_no_delayed_task_wait_for_the_old_time(make: Callable[..., Queue]) -> None:
    now = [1_000_000.0]
    queue = make(lambda: now[0])
    create(queue, "job")
    lease = queue.take(0)
    assert lease is not None
    queue.fail(lease, "passing", again=True)
    assert queue.take(0) is None
    now[0] -= 3600
    assert (again := queue.take(0)) is not None
    assert (again.task.id, again.attempt) == (lease.task.id, 2)


def test_what_is_postponed_waits_without_an_attempt_and_says_why_but_not_for_ever(make: Callable[..., Queue]) -> None:
    now = [1000.0]
    queue = make(lambda: now[0], patience=600.0)
    create(queue, "job")
    tries = 0
    while (lease := queue.take(0)) is not None:
        tries += 1
        assert (lease.attempt, lease.deliveries) == (1, 1)
        assert queue.job("job").waiting is None  # type: ignore[union-attr]
        queue.postpone(lease, "no room")
        found = queue.job("job")
        assert found is not None
        if found.state.ended:
            break
        assert (found.waiting, found.error) == ("no room", None)
        now[0] += 61
    assert tries > 5 and now[0] >= 1600
    found = queue.job("job")
    assert found is not None and (found.state, found.error, found.waiting) == (State.FAILED, "no room", None)
    assert queue.retry("job")
    queue.postpone(take(queue), "no room")
    now[0] += 61
    assert queue.commit(take(queue), "split")
    assert queue._redis.keys("*waits_of*") == []
    assert "stitch" in finish(queue)


@pytest.mark.parametrize("broken", ["results_of:job", "tasks_of:job", "job:job", "covers_of:job", "dead_of:job"])
def test_a_job_whose_records_are_broken_is_given_up_and_in_nobodys_way(
    make: Callable[..., Queue], server: Server, broken: str
) -> None:
    queue = make()
    split(queue, "job", 2)
    held = take(queue)
    server.redis.delete(f"speechlane:{broken}")
    server.redis.set(f"speechlane:{broken}", "no hash")
    with suppress(ResponseError):
        queue.commit(held, "text")
    held.over = False
    queue.drop(held, "broken")
    create(queue, "other")
    while (lease := queue.take(0)) is not None:
        if lease.task.job == "other":
            work(queue, lease)
        else:
            queue.drop(lease, "broken")
    assert state(queue, "other") is State.DONE
    letters = {letter.task for letter in queue.dead() if letter.job == "job"}
    assert (letters <= {"c0", "c1"} and letters) or broken == "covers_of:job", "its first may have failed the job"
    assert queue._redis.sismember("speechlane:open", "job") == 0


@pytest.mark.parametrize(
    ("answer", "passing", "blamed"),
    [
        ("WRONGTYPE Operation against a key holding the wrong kind of value", False, True),
        ("user_script:12: bad argument #1 to 'match'", False, True),
        ("Error running script (call to f_1): @user_script:3: -OOM command not allowed", True, False),
        ("MISCONF Redis is configured to save RDB snapshots script: f_1, on @user_script:9.", True, False),
        ("BUSY Redis is busy running a script", True, False),
        ("BUSYGROUP Consumer Group name already exists", False, True),
    ],
)
def test_what_passes_and_what_stays_wrong(answer: str, passing: bool, blamed: bool) -> None:
    error = ResponseError(answer)
    assert (passes(error), blames(error)) == (passing, blamed)
    assert not blames(NoPermissionError("this user has no permissions")), "no task's fault"
    assert not blames(RedisConnectionError("away"))


def test_a_job_comes_back_as_it_was(queue: Queue) -> None:
    one = job("job", owner="ключ")
    first = Task("job", "split", Kind.SPLIT, '{"a": "ü\\u0000"}')
    queue.create(one, first, Task("job", "stitch", Kind.STITCH, "a  b "))
    assert queue.job("job") == one and queue.job("nobody") is None
    queue.create(job("job"), Task("job", "x", Kind.SPLIT), Task("job", "y", Kind.STITCH))
    assert queue.job("job") == one and set(queue.tasks("job")) == {"split"}, "submitting again changes nothing"
    queue.update("job", expected=12.5, warnings=["two", "words"], split=True, state=State.RUNNING, name="bad\udcff.wav")
    queue.add("job", decoded=1.25, chunks=2, **{"timings.asr": 0.5})
    queue.add("job", decoded=1.25, **{"timings.asr": 0.25})
    found = queue.job("job")
    assert found is not None and found.expected == 12.5 and found.warnings == ("two", "words") and found.split
    assert (found.decoded, found.chunks, found.timings, found.name) == (2.5, 2, {"asr": 0.75}, "bad?.wav")
    queue.update("job", expected=None)
    assert queue.job("job").expected is None  # type: ignore[union-attr]
    assert queue.tasks("job") == {"split": first}
    assert queue.commit(take(queue), "")
    assert take(queue).task.payload == "a  b "


def test_what_cannot_be_stored_is_refused(queue: Queue) -> None:
    split(queue, "job", 1)
    for call in (
        lambda: queue.update("job", colour="red"),
        lambda: queue.update("job", timings={}),
        lambda: queue.update("job", state=State.DONE),
        lambda: queue.update("job", decoded=float("nan")),
        lambda: queue.add("job", name=1.0),
        lambda: queue.add("job", covered=float("inf")),
        lambda: Task("job", "has space", Kind.CHUNK),
        lambda: Task("job", "c", Kind.CHUNK, "x" * 70_000),
        lambda: queue.commit(take(queue), "x" * (queue_module.MAX_RESULT + 1)),
    ):
        with pytest.raises(ValueError):
            call()
    queue.cancel("job")
    queue.update("job", state=State.RUNNING)
    queue.add("job", covered=1.0)
    found = queue.job("job")
    assert found is not None and (found.state, found.covered) == (State.CANCELLED, 0.0), "an ended job stays as it is"


def test_open_jobs_are_bounded_and_ended_ones_too(make: Callable[..., Queue]) -> None:
    queue = make(max_jobs=2)
    create(queue, "a")
    create(queue, "b")
    with pytest.raises(Overloaded, match="2 jobs are open"):
        create(queue, "c")
    queue.cancel("a")
    create(queue, "c")
    with pytest.raises(Overloaded):
        queue.retry("a")
    for number in range(40):
        queue.cancel("c" if number == 0 else f"n{number - 1}")
        create(queue, f"n{number}")
    assert len(queue.jobs()) == 2 + 20, "the records of the oldest went"


def test_deleted_and_swept_jobs_leave_nothing(make: Callable[..., Queue], server: Server) -> None:
    now = [1000.0]
    queue = make(lambda: now[0])
    split(queue, "gone", 2)
    held = take(queue)
    queue.fail(take(queue), "bad", again=False)
    queue.delete("gone")
    wait_for(lambda: held.cancelled)
    assert not queue.commit(held, "late") and queue.job("gone") is None and queue.dead() == []
    for id in ("old", "new"):
        now[0] += 100
        split(queue, id, 1)
        queue.cancel(id)
    create(queue, "open")
    now[0] += 50
    assert queue.sweep(100.0) == ["old"] and queue.sweep(100.0) == []
    assert {found.id for found in queue.jobs()} == {"new", "open"}
    assert [name for name in server.redis.keys("*") if "gone" in name or "old" in name] == []


def test_changes_reach_those_who_watch(make: Callable[..., Queue]) -> None:
    queue, other = make(), make()
    with queue.changes(timeout=0.2) as everything, queue.changes("b", timeout=0.2) as one:
        create(other, "a")
        create(other, "b")
        other.update("b", decoded=1.0)
        assert list(everything) == ["a", "b", "b"] and list(one) == ["b", "b"]
        other.update("a", decoded=1.0)
        assert list(everything) == ["a"] and list(one) == []


# The server


def test_consumers_of_workers_that_are_gone_are_removed_but_never_their_tasks(make: Callable[..., Queue]) -> None:
    idle, holding, other = make(), make(), make()
    split(holding, "job", 1)
    assert take(holding).task.id == "c0" and idle.take(0) is None and other.take(0) is None

    def consumers() -> set[str]:
        return {row["name"] for row in other._redis.xinfo_consumers(STREAM, "workers")}

    assert holding._consumer in consumers()
    idle.close()
    assert idle._consumer not in consumers()
    time.sleep(0.05)
    other._run("tidy", 10)
    assert consumers() == {holding._consumer}


def test_a_server_that_was_emptied_or_forgot_its_scripts_goes_on(queue: Queue, server: Server) -> None:
    split(queue, "job", 1)
    server.redis.script_flush()
    assert queue.commit(take(queue), "text")
    server.redis.flushall()
    assert queue.take(0) is None
    split(queue, "job", 1)
    assert finish(queue)[-1] == "write"


def test_a_lease_taken_by_ones_own_late_renewal_stays_one_lease(queue: Queue) -> None:
    split(queue, "job", 1)
    lease = take(queue)
    abandon(queue, lease)
    queue._renewal.hold(lease)
    assert queue.take(0) is None
    assert queue.commit(lease, "text")


def test_an_old_lease_counts_for_nothing_when_its_own_worker_took_the_task_again(queue: Queue) -> None:
    split(queue, "job", 2)
    given_back = take(queue)
    queue.give_back(given_back)
    abandoned = take(queue)
    abandon(queue, abandoned)
    again = take(queue)
    assert again.message == abandoned.message == given_back.message
    for old in (given_back, abandoned):
        assert not queue.commit(old, "old") and not queue.fan_out(old, chunks("job", 5))
        queue.fail(old, "old", again=False)
    assert queue.commit(again, "text") and not queue.commit(again, "text")


def test_leases_survive_threads_that_keep_the_interpreter_busy(queue: Queue, make: Callable[..., Queue]) -> None:
    split(queue, "job", 1)
    lease: Lease = take(queue)
    other = make()
    stop = threading.Event()

    def burn() -> None:
        while not stop.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=burn) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert other.take(2 * LEASE) is None
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert queue.commit(lease, "text")


def test_what_has_begun_goes_before_what_has_not(queue: Queue) -> None:
    split(queue, "first", 3)
    queue.create(job("second"), Task("second", "split", Kind.SPLIT), Task("second", "stitch", Kind.STITCH))
    lease = queue.take(0)
    assert lease is not None and lease.task.job == "first"
    assert [found.task.kind for _ in range(3) if (found := queue.take(0))] == [Kind.CHUNK, Kind.CHUNK, Kind.SPLIT]


def test_a_worker_may_leave_new_jobs_to_others(queue: Queue) -> None:
    queue.create(job("only"), Task("only", "split", Kind.SPLIT), Task("only", "stitch", Kind.STITCH))
    assert queue.take(0, begin=False) is None
    found = queue.take(0)
    assert found is not None and found.task.kind is Kind.SPLIT
