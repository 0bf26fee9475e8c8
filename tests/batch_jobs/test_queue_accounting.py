"""Whatever happens to a job's tasks, in whatever order: each counts once and each stage starts once."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from batch_jobs.job import State
from batch_jobs.queue.queue import Queue
from batch_jobs.queue.server import connect
from batch_jobs.queue.task import Kind, Lease, Task
from batch_jobs.settings import BatchSettings
from tests.batch_jobs.queueing import abandon, create

DELIVERIES, ATTEMPTS = 3, 2
STREAM = "speechlane:tasks:normal"
NEW = f"{STREAM}-new"


class Accounting(RuleBasedStateMachine):
    """Two workers and one job. `done` is what a plain dictionary would hold of the results."""

    server: ClassVar[Any]
    leases: Bundle[tuple[int, Lease]] = Bundle("leases")
    spent: Bundle[tuple[int, Lease]] = Bundle("spent")

    @initialize()
    def start(self) -> None:
        self.server.redis.flushall()
        self.now = 1000.0
        chosen = BatchSettings(lease=30.0, deliveries=DELIVERIES, attempts=ATTEMPTS)
        self.queues = [Queue(self.server.redis, chosen, lambda: self.now) for _ in range(2)]
        self.queue = self.queues[0]
        create(self.queue, "job")
        self.done: dict[str, str] = {}
        self.chunks = 0
        self.runs = 1

    def owned(self, worker: int, lease: Lease) -> bool:
        stream = f"speechlane:tasks:{lease.stream}"
        pending = self.server.redis.xpending_range(stream, "workers", lease.message, lease.message, 1)
        ours = bool(pending) and pending[0]["consumer"] == self.queues[worker]._consumer
        ours = ours and pending[0]["times_delivered"] == lease.deliveries and not lease.over
        return ours and not self.ended() and lease.run == str(self.runs) and lease.task.id not in self.done

    def ended(self) -> bool:
        found = self.queue.job("job")
        assert found is not None
        return found.state.ended

    @rule(target=leases, worker=st.integers(0, 1))
    def take(self, worker: int) -> Any:
        lease = self.queues[worker].take(0)
        self.learn()  # it may have buried tasks
        if lease is None:
            return multiple()
        assert lease.task.id not in self.done and lease.deliveries <= DELIVERIES
        return worker, lease

    @rule(held=leases, count=st.integers(1, 3))
    def fan_out(self, held: tuple[int, Lease], count: int) -> None:
        worker, lease = held
        if lease.task.kind is not Kind.SPLIT:
            return
        tasks = [Task("job", f"c{number}", Kind.CHUNK) for number in range(count)]
        owned = self.owned(worker, lease)
        assert self.queues[worker].fan_out(lease, tasks) == owned
        if owned:
            self.chunks = max(self.chunks, count)

    @rule(target=spent, held=leases, text=st.sampled_from("xyz"))
    def commit(self, held: tuple[int, Lease], text: str) -> tuple[int, Lease]:
        worker, lease = held
        owned = self.owned(worker, lease)
        if lease.task.kind is Kind.STITCH:
            repairs = [Task("job", f"r{number}", Kind.REPAIR) for number in range(2)]
            then = Task("job", "write", Kind.WRITE)
            counted = self.queues[worker].commit(lease, text, tasks=repairs, then=then)
        else:
            counted = self.queues[worker].commit(lease, text)
        assert counted == owned
        if counted:
            self.done[lease.task.id] = text
        return held

    @rule(held=spent)
    def commit_again(self, held: tuple[int, Lease]) -> None:
        assert not self.queues[held[0]].commit(held[1], "again")

    @rule(held=leases, again=st.booleans())
    def fail(self, held: tuple[int, Lease], again: bool) -> None:
        self.queues[held[0]].fail(held[1], "bad", again=again)
        self.learn()

    @rule(held=leases)
    def give_back(self, held: tuple[int, Lease]) -> None:
        self.queues[held[0]].give_back(held[1])

    @rule(held=consumes(leases))
    def die(self, held: tuple[int, Lease]) -> None:
        worker, lease = held
        if self.owned(worker, lease):
            abandon(self.queues[worker], lease)

    @rule(number=st.integers(0, 5))
    def deliver_twice(self, number: int) -> None:
        entries = self.server.redis.xrange(STREAM)
        if entries:
            self.server.redis.xadd(STREAM, entries[number % len(entries)][1])

    @rule(seconds=st.sampled_from([0.6, 2.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def cancel(self) -> None:
        assert self.queue.cancel("job") != (self.ended() and self.state() is not State.CANCELLED)

    @rule()
    def retry(self) -> None:
        if self.queue.retry("job"):
            self.runs += 1
            kept = self.queue.results("job")
            assert all(id == "split" or id.startswith("c") for id in kept) and "dead" not in "".join(kept.values())
            assert kept.items() <= self.done.items()
            self.done = kept

    def state(self) -> State:
        found = self.queue.job("job")
        assert found is not None
        return found.state

    def learn(self) -> None:
        """Dead tasks have got a result too."""
        for id, text in self.queue.results("job").items():
            if "dead" in text:
                self.done.setdefault(id, text)

    @invariant()
    def what_counts_stays(self) -> None:
        assert self.queue.results("job") == self.done

    @invariant()
    def stages_come_in_order(self) -> None:
        known = set(self.queue.tasks("job"))
        stage = {id for id in known if id == "split" or id.startswith("c")}
        assert len(stage) == 1 + self.chunks
        if "stitch" in known:
            assert stage <= set(self.done), "it starts when all are done"
        elif not self.ended():
            assert not stage <= set(self.done), "and then it does start"
        if "write" in known:
            assert {"stitch", "r0", "r1"} <= set(self.done)

    @invariant()
    def no_task_is_lost(self) -> None:
        if self.ended():
            return
        waiting = {
            (fields["task"], fields["run"])
            for stream in (STREAM, NEW)
            for _, fields in self.server.redis.xrange(stream)
        }
        waiting |= {tuple(member.split()[1:3]) for member in self.server.redis.zrange("speechlane:delayed", 0, -1)}
        unfinished = set(self.queue.tasks("job")) - set(self.done)
        assert unfinished and unfinished <= {task for task, run in waiting if run == str(self.runs)}

    def teardown(self) -> None:
        """Left to an orderly worker, the job ends."""
        self.queues[1].close()
        for lease in self.queue._renewal.held():
            self.queue.give_back(lease)
        for _ in range(200):
            if self.ended():
                break
            left = self.queue.take(0)
            if left is None:
                self.now += 100.0
            elif left.task.kind is Kind.STITCH:
                assert self.queue.commit(left, "x", then=Task("job", "write", Kind.WRITE))
            else:
                assert self.queue.commit(left, "x")
        assert self.ended()
        if self.state() is State.DONE:
            assert set(self.queue.tasks("job")) == set(self.queue.results("job"))
        self.queue.close()


def test_any_order_of_events_counts_each_task_once_and_starts_each_stage_once() -> None:
    directory = Path(tempfile.mkdtemp())
    with connect(BatchSettings(directory=directory)) as server:
        Accounting.server = server
        server.redis.config_set("appendfsync", "no")  # thousands of steps, and no fault of the disk among them
        chosen = settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        )
        run_state_machine_as_test(Accounting, settings=chosen)
    shutil.rmtree(directory)
