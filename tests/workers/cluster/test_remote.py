"""A device at the other end of a wire: what crosses, in what order, what it costs, and that it looks like one here."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from tests.workers.cluster.net import Net, Seat, Wire, reached
from tests.workers.models import Diary, Job, Timed, teach
from workers.backend import Done, More
from workers.cluster.messages import Cancel
from workers.cluster.remote import RemoteDevice
from workers.errors import BackendFailed, Cancelled, Draining, Expired, InputInvalid, Overloaded
from workers.fairness import TENANT, Tenant
from workers.pool import Pool
from workers.task import Lane, Task
from workers.watchdog import save


@dataclass
class Far:
    net: Net
    seat: Seat
    remote: RemoteDevice
    wire: Wire
    pool: Pool
    diary: Diary

    def submit(self, job: Job, lane: Lane = Lane.FINAL, within: float = 9.0, **how: object) -> Task:
        deadline = self.net.clock() + within
        return self.pool.submit_task(job, lane=lane, deadline=deadline, sink=self.diary, **how)  # type: ignore[arg-type]

    def ends(self, *tasks: Task) -> None:
        self.net.run(60.0, lambda: all(self.diary.end_of(task) for task in tasks))


def far(model: Timed | None = None, known: bool = True, **how: float) -> Far:
    net = Net()
    seat = Seat(net, model or Timed(a=0.001))
    if known:
        teach(seat.device, seat.model)
    remote, wire = reached(net, seat, **how)
    return Far(net, seat, remote, wire, Pool("timed", [remote]), Diary())


def test_many_tasks_share_a_call_and_are_batched_over_there() -> None:
    one = far()
    before = one.wire.posts
    tasks = [one.submit(Job(n, costs=(1, 1))) for n in range(40)]
    one.ends(*tasks)
    assert one.wire.posts - before <= 2
    assert [len(batch) for batch in one.seat.model.batches] == [32, 32, 8, 8] or len(one.seat.model.batches) <= 4
    for task in tasks:
        assert one.diary.outputs_of(task) == [f"{task.payload.name}.0", f"{task.payload.name}.1"]
    assert not len(one.remote._held) and not one.seat.device.loop.open


def test_a_lone_task_does_not_wait_for_a_tick() -> None:
    one = far(Timed(a=0.0))
    one.net.run(1.0)
    began = one.net.clock()
    one.ends(one.submit(Job("a")))
    assert one.net.clock() - began < 0.0025, "one way there and one back, of 1 ms each"


def test_answers_come_back_in_the_order_in_which_they_are_made() -> None:
    one = far(Timed(a=0.01, items=1))
    slow, fast = one.submit(Job("slow", costs=(1,) * 5), within=9), one.submit(Job("fast"), within=1)
    one.ends(slow, fast)
    assert one.diary.ends() == ["fast", "slow"]


@pytest.mark.parametrize("seed", range(6))
def test_a_bad_wire_changes_nothing_but_the_time(seed: int) -> None:
    one = far(Timed(a=0.002), lose=0.2, twice=0.2, spread=0.02, seed=seed)
    tasks = []
    for n in range(40):
        tasks.append(one.submit(Job(n, costs=(1,) * (1 + n % 4)), stream=n % 7))
        one.net.run(0.003)
    one.net.run(120.0, lambda: all(one.diary.end_of(task) for task in tasks))
    for task in tasks:
        steps = len(task.payload.costs)
        assert one.diary.outputs_of(task) == [f"{task.payload.name}.{step}" for step in range(steps)]
        assert isinstance(one.diary.end_of(task), Done)
    assert sum(job in batch for batch in one.seat.model.batches for job in [0]) == 1, "every task was run once"
    for stream in range(7):
        ends = [name for name in one.diary.ends() if name % 7 == stream]  # type: ignore[operator]
        assert ends == sorted(ends), "tasks of one stream end in their order"


def test_errors_arrive_as_the_same_types() -> None:
    one = far()
    bad, poison, fine = one.submit(Job("bad", fault="open")), one.submit(Job("x", fault="raise")), one.submit(Job("y"))
    one.ends(bad, poison, fine)
    refused, failed = one.diary.end_of(bad), one.diary.end_of(poison)
    assert isinstance(refused, InputInvalid) and refused.param == "payload" and refused.message == "no such thing"
    assert isinstance(failed, BackendFailed) and "poison x" in failed.message
    assert one.diary.end_of(fine) == Done("y.0")
    one.seat.device.queue_limit = 0
    full = one.submit(Job("z"))
    one.ends(full)
    end = one.diary.end_of(full)
    assert isinstance(end, Overloaded) and end.retry_after > 0


def test_a_deadline_goes_over_as_the_seconds_that_are_left() -> None:
    one = far(Timed(a=0.1, items=1))
    running = one.submit(Job("running"))
    one.net.run(0.01)
    late, soon = one.submit(Job("late"), within=math.inf), one.submit(Job("soon"), within=0.5)
    expires = one.submit(Job("expires"), lane=Lane.INTERACTIVE, within=0.05, hard=True)
    one.ends(running, late, soon, expires)
    assert one.seat.model.batches == [["running"], ["soon"], ["late"]]
    assert isinstance(one.diary.end_of(expires), Expired)


def test_a_cancelled_task_is_freed_there_and_says_nothing_more() -> None:
    one = far(Timed(a=0.1, items=1))
    task, other = one.submit(Job("a", costs=(1,) * 9)), one.submit(Job("b"))
    one.net.run(0.25)
    said = len(one.diary.of(task))
    assert said
    assert task.cancel()
    assert isinstance(one.diary.of(task)[-1], Cancelled)
    one.ends(other)
    one.net.run(1.0)
    assert len(one.diary.of(task)) == said + 1
    assert [state.freed for state in one.seat.model.states] == [1, 1]
    assert any(isinstance(order, Cancel) for order in one.wire.orders)
    unsent = one.submit(Job("c"))
    unsent.cancel()
    one.net.run(1.0)
    assert "c" not in [order.parcel.name for order in one.wire.opened()], "it was never sent"


def test_a_moved_task_overtakes() -> None:
    one = far(Timed(a=0.1, items=1))
    first, second, third = (one.submit(Job(n), lane=Lane.BULK) for n in range(3))
    one.net.run(0.01)
    third.move(one.net.clock() + 0.1, Lane.FINAL)
    one.ends(first, second, third)
    assert one.seat.model.batches == [[0], [2], [1]]


def test_a_newer_partial_replaces_the_one_that_waits() -> None:
    one = far(Timed(a=0.1, items=1))
    running = one.submit(Job("running"))
    one.net.run(0.01)
    old = one.submit(Job("old"), lane=Lane.PARTIAL, stream="s", coalesce="partial")
    new = one.submit(Job("new"), lane=Lane.PARTIAL, stream="s", coalesce="partial")
    assert one.remote.holds("timed", "s") and not one.remote.holds("timed", "t")
    one.ends(running, old, new)
    assert isinstance(one.diary.end_of(old), Cancelled)
    assert one.diary.end_of(new) == Done("new.0")
    assert not one.remote.holds("timed", "s")


def test_tenants_cross_and_are_treated_fairly() -> None:
    one = far(Timed(a=0.01, items=1))
    flood, quiet = Tenant("flood"), Tenant("quiet")
    token = TENANT.set(flood)
    tasks = [one.submit(Job(("flood", n)), lane=Lane.INTERACTIVE) for n in range(200)]
    one.net.run(1.5)
    TENANT.set(quiet)
    mine = one.submit(Job("mine"), lane=Lane.INTERACTIVE)
    TENANT.reset(token)
    one.ends(mine)
    assert sum(one.diary.end_of(task) is not None for task in tasks) < 160
    assert mine.tenant == quiet


def test_timing_is_told_on_this_clock() -> None:
    one = far(Timed(a=0.1, items=1))
    first, second = one.submit(Job("a", costs=(1, 1), opening=1)), one.submit(Job("b"))
    one.ends(first, second)
    timing = second.timing
    assert (timing.steps, first.timing.steps) == (1, 2)
    assert timing.step_seconds == pytest.approx(0.1)
    assert first.timing.opening_seconds == pytest.approx(0.1) and first.timing.opened_at > first.timing.started_at
    assert timing.queued_at < timing.started_at < timing.ended_at <= one.net.clock()
    assert timing.started_at - timing.queued_at == pytest.approx(0.2, abs=0.02)
    assert timing.device_seconds == pytest.approx(0.3, abs=0.02)


def test_what_is_predicted_follows_what_was_sent() -> None:
    one = far(Timed(a=0.0, k=0.1, items=1))
    assert one.remote.finish_in(Lane.FINAL) == 0.0
    for n in range(5):
        one.submit(Job(n))
    one.net.run(0.35)
    assert 0.1 < one.remote.finish_in(Lane.FINAL) < 0.4
    stats = one.remote.stats()
    assert stats.name == "far" and stats.steps > 0 and stats.health == "ready"


def test_a_full_queue_refuses_here() -> None:
    one = far(Timed(a=1.0, items=1))
    one.remote._queue_limit = 4
    for n in range(2):
        one.submit(Job(n), lane=Lane.BULK)
    with pytest.raises(Overloaded):
        one.submit(Job("bulk"), lane=Lane.BULK)
    one.submit(Job("a"))
    one.submit(Job("b"))
    with pytest.raises(Overloaded):
        one.submit(Job("c"))


def test_a_device_that_hangs_gives_its_tasks_back() -> None:
    net = Net()
    seats = [Seat(net, Timed(a=0.01), name=name) for name in ("one", "two")]
    remotes = [reached(net, seat)[0] for seat in seats]
    pool, diary = Pool("timed", remotes), Diary()
    seats[0].stopped = True
    task = pool.submit_task(Job("a"), lane=Lane.FINAL, deadline=9, sink=diary)
    net.run(0.1)
    with seats[0].device.loop.lock:
        held = seats[0].device.loop.evacuate(thread_is_gone=True)
    assert [one.payload.name for one in held] == ["a"]
    for one in held:
        one.run = object()  # as if it had been in the step
        save(one, seats[0].device, "a step took too long")
    net.run(1.0)
    assert seats[1].model.batches == [["a"]]
    assert diary.outputs_of(task) == ["a.0"] and task.retries == 1
    assert task.party is not None, "it runs alone"


def test_draining_and_closing() -> None:
    one = far(Timed(a=0.1, items=1))
    open_task = one.submit(Job("a", costs=(1,) * 50))
    one.net.run(0.1)
    assert not one.remote.drain(0.0)
    assert isinstance(one.diary.end_of(open_task), Draining)
    with pytest.raises(Draining):
        one.submit(Job("b"))
    one.remote._contact.leave(0.0)
    one.net.run(1.0)
    assert not one.seat.station.gateways and not one.seat.device.loop.open


def test_outputs_on_the_way_keep_their_order() -> None:
    one = far(Timed(a=0.002))
    task = one.submit(Job("a", costs=(1,) * 30))
    one.ends(task)
    assert one.diary.outputs_of(task) == [f"a.{n}" for n in range(30)]
    assert sum(isinstance(result, More) for result in one.diary.of(task)) >= 5, "they came as they were made"
