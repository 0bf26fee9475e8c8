"""Which task runs next, on a virtual clock with latency tables."""

from __future__ import annotations

import math
import random

import pytest

from tests.workers.models import Diary, Job, Timed, teach, virtual
from workers.backend import Done
from workers.errors import Cancelled, Expired
from workers.fairness import NOBODY
from workers.task import Lane, Phase


def test_finals_overtake_partials_overtake_interactive_overtake_bulk() -> None:
    model, diary = Timed(a=0.01, items=1), Diary()
    _, device, (pool,) = virtual(model)
    for lane in (Lane.BULK, Lane.INTERACTIVE, Lane.PARTIAL, Lane.FINAL):
        for number in range(2):  # the later of two has the earlier deadline
            pool.submit_task(Job((lane, number)), lane=lane, deadline=2.0 - number, sink=diary)
    while device.loop.turn():
        pass
    assert diary.ends() == [(lane, number) for lane in Lane for number in (1, 0)]


def test_the_urgent_is_first_whatever_model_and_bucket_it_is_for() -> None:
    one, two, diary = Timed(a=0.01, model="one"), Timed(a=0.01, model="two"), Diary()
    _, device, (ones, twos) = virtual(one, two)
    teach(device, one, "x")
    teach(device, two, "y")
    for number in range(4):
        ones.submit_task(Job(f"bulk{number}", bucket="x"), lane=Lane.BULK, deadline=9, sink=diary)
    twos.submit_task(Job("final", bucket="y"), lane=Lane.FINAL, deadline=20, sink=diary)
    device.loop.turn()
    assert diary.ends() == ["final"]


def test_only_equal_buckets_share_a_batch_and_limits_hold() -> None:
    model, diary = Timed(a=0.001, items=3, cost=10.0), Diary()
    _, device, (pool,) = virtual(model)
    teach(device, model, "a")
    teach(device, model, "b")
    costs = {"a": (1, 1, 1, 1), "b": (6, 5, 4, 11)}
    for bucket, each in costs.items():
        for number, cost in enumerate(each):
            job = Job(f"{bucket}{number}", costs=(cost,), bucket=bucket)
            pool.submit_task(job, lane=Lane.FINAL, deadline=number + (10 if bucket == "b" else 0), sink=diary)
    while device.loop.turn():
        pass
    # 6+5 is over the cost, 5+4 fits, and what is over it alone runs alone.
    assert model.batches == [["a0", "a1", "a2"], ["a3"], ["b0"], ["b1", "b2"], ["b3"]]


def test_a_task_joins_under_its_new_bucket_after_every_step() -> None:
    model, diary = Timed(a=0.01), Diary()
    _, device, (pool,) = virtual(model)
    for bucket in ("encode", "token"):
        teach(device, model, bucket)
    first = Job("first", costs=(5, 1, 1), bucket=["encode", "token", "token"])
    pool.submit_task(first, lane=Lane.FINAL, deadline=9, sink=diary)
    device.loop.turn()
    pool.submit_task(Job("second", costs=(1,), bucket="token"), lane=Lane.FINAL, deadline=10, sink=diary)
    while device.loop.turn():
        pass
    assert model.batches == [["first"], ["first", "second"], ["first"]]


def test_steps_keep_to_the_budget_while_somebody_is_live() -> None:
    model = Timed(a=0.012, k=0.0016, items=64)
    _, device, (pool,) = virtual(model)
    teach(device, model)
    for number in range(64):
        pool.submit_task(Job(number), lane=Lane.FINAL, deadline=99, sink=Diary())
    device.loop.turn()
    assert len(model.batches[0]) == 29 or len(model.batches[0]) == 30  # (60 - 12) / 1.6 = 30, to rounding of the fit
    clock, device, (pool,) = virtual(model)
    teach(device, model)
    for number in range(64):
        pool.submit_task(Job(number), lane=Lane.BULK, deadline=99, sink=Diary())
    model.batches.clear()
    device.loop.turn()
    assert len(model.batches[0]) == 64
    assert clock.now > 0.1


def test_a_live_session_keeps_the_budget_between_its_chunks() -> None:
    model = Timed(a=0.012, k=0.0016, items=64)
    _, device, (pool,) = virtual(model)
    teach(device, model)
    device.loop.live[NOBODY] = 1
    for number in range(64):
        pool.submit_task(Job(number), lane=Lane.BULK, deadline=99, sink=Diary())
    device.loop.turn()
    assert len(model.batches[0]) <= 30


def test_a_models_very_first_step_runs_alone() -> None:
    model = Timed(a=0.01, k=1.0)
    _, device, (pool,) = virtual(model)
    for number in range(8):
        pool.submit_task(Job(number), lane=Lane.PARTIAL, deadline=0.2, sink=Diary())
    device.loop.turn()
    assert model.batches == [[0]]


@pytest.mark.parametrize("seed", range(200))
def test_no_batch_makes_the_earliest_deadline_late_when_a_smaller_one_would_not(seed: int) -> None:
    dice = random.Random(seed)
    fast, slow = Timed(a=0.005, k=0.002, model="fast"), Timed(a=0.01, k=0.004, model="slow")
    clock, device, pools = virtual(fast, slow)
    for model in (fast, slow):
        teach(device, model)
    tasks = []
    for number in range(dice.randrange(2, 25)):
        job = Job(number, costs=(dice.choice((1.0, 2.0)),))
        lane = dice.choice((Lane.FINAL, Lane.PARTIAL, Lane.BULK))
        tasks.append(dice.choice(pools).submit_task(job, lane=lane, deadline=dice.uniform(0.0, 0.15), sink=Diary()))
    curves = {home.name: device.loop.latency.curve(home.name, None, clock.now) for home in device.loop.homes.values()}
    while len(device.loop.scheduler):
        waiting = sorted((task for task in tasks if task.entry), key=lambda task: (task.rank, task.due, task.number))
        now = clock.now
        batch = device.loop.scheduler.pick(now)
        assert batch is not None
        curve = curves[batch.home.name]
        assert curve is not None
        took, members = curve.at(batch.cost), batch.tasks
        head, last = members[0], members[-1]
        assert head is waiting[0]
        if len(members) > 1:
            without = curve.at(batch.cost - last.demand.cost)
            assert took <= 0.060 + 1e-9
            for task in members[:-1]:
                assert now + took <= task.deadline + 1e-9 or now + without > task.deadline - 1e-9
            heads = {task.home.name: task for task in reversed(waiting) if task not in members}
            for rival in heads.values():
                if rival.home is not batch.home and (rival.rank, rival.due) < (last.rank, last.due):
                    alone = curves[rival.home.name].at(rival.demand.cost)  # type: ignore[union-attr]
                    in_time = rival.deadline - alone
                    assert now + took <= in_time + 1e-9 or now + without > in_time - 1e-9
        for task in members:
            device.loop.scheduler.finish(task, now)
        clock.sleep(took)


def test_a_lost_deadline_does_not_shrink_batches() -> None:
    model = Timed(a=0.012, k=0.001)
    clock, device, (pool,) = virtual(model)
    teach(device, model)
    clock.sleep(5.0)
    for number in range(20):
        pool.submit_task(Job(number), lane=Lane.FINAL, deadline=1.0, sink=Diary())
    device.loop.turn()
    assert len(model.batches[0]) == 20


def test_bulk_is_not_starved_by_live_load_and_live_load_hardly_notices() -> None:
    """Finals that could keep the device busy for ever: everything else still gets a step a second."""
    model, diary = Timed(a=0.010, items=1), Diary()
    clock, device, (pool,) = virtual(model)
    others = [
        pool.submit_task(Job(lane.name, costs=(1.0,) * 3), lane=lane, deadline=1e9, sink=diary)
        for lane in (Lane.PARTIAL, Lane.INTERACTIVE, Lane.BULK)
    ]
    finals = 0
    while clock.now < 6.0:
        while device.loop.scheduler.waiting[Lane.FINAL] < 3:
            pool.submit_task(Job("final"), lane=Lane.FINAL, deadline=clock.now + 0.1, sink=diary)
            finals += 1
        device.loop.turn()
    assert all(diary.end_of(task) == Done(f"{task.payload.name}.2") for task in others)
    assert finals > 0.97 * 6.0 / 0.010


def test_old_bulk_is_not_passed_for_ever_by_newer_bulk_with_near_deadlines() -> None:
    model, diary = Timed(a=0.5, items=1), Diary()
    clock, device, (pool,) = virtual(model)
    old = pool.submit_task(Job("old"), lane=Lane.BULK, deadline=math.inf, sink=diary)
    while diary.end_of(old) is None:
        pool.submit_task(Job("new"), lane=Lane.BULK, deadline=clock.now + 1.0, sink=diary)
        device.loop.turn()
        assert clock.now < 70.0


def test_a_newer_task_of_the_same_kind_replaces_the_waiting_one() -> None:
    model, diary = Timed(a=0.01, items=1), Diary()
    _, device, (pool,) = virtual(model)
    submit = {"lane": Lane.PARTIAL, "sink": diary, "stream": "s", "coalesce": "partial"}
    first = pool.submit_task(Job(1), deadline=1.0, **submit)
    second = pool.submit_task(Job(2), deadline=2.0, **submit)
    other = pool.submit_task(Job(3), deadline=0.5, **{**submit, "stream": "t"})
    assert isinstance(diary.end_of(first), Cancelled)
    assert second.due == 1.0, "a stream that replaces its task keeps its turn"
    device.loop.turn()
    device.loop.turn()
    assert diary.ends() == [1, 3, 2]
    assert not len(device.loop.scheduler)
    assert diary.end_of(other) == Done("3.0")
    device.loop.turn()
    assert [state.freed for state in model.states] == [1, 1, 1]


def test_a_task_that_has_begun_is_not_replaced() -> None:
    model, diary = Timed(a=0.01), Diary()
    _, device, (pool,) = virtual(model)
    submit = {"lane": Lane.PARTIAL, "deadline": 1.0, "sink": diary, "stream": "s", "coalesce": "partial"}
    first = pool.submit_task(Job(1, costs=(1, 1)), **submit)
    device.loop.turn()
    second = pool.submit_task(Job(2), **submit)
    while device.loop.turn():
        pass
    assert diary.outputs_of(first) == ["1.0", "1.1"]
    assert diary.outputs_of(second) == ["2.0"]


def test_tasks_of_a_stream_run_in_order_and_lend_their_urgency() -> None:
    model, diary = Timed(a=0.01, items=1), Diary()
    _, device, (pool,) = virtual(model)
    pool.submit_task(Job("partial"), lane=Lane.PARTIAL, deadline=5.0, stream="s", sink=diary)
    pool.submit_task(Job("other"), lane=Lane.PARTIAL, deadline=1.0, stream="t", sink=diary)
    pool.submit_task(Job("final"), lane=Lane.FINAL, deadline=2.0, stream="s", sink=diary)
    while device.loop.turn():
        pass
    assert diary.ends() == ["partial", "final", "other"]


def test_urgency_lent_by_a_cancelled_task_is_taken_back() -> None:
    model, diary = Timed(a=0.01, items=1), Diary()
    _, device, (pool,) = virtual(model)
    pool.submit_task(Job("partial"), lane=Lane.PARTIAL, deadline=5.0, stream="s", sink=diary)
    pool.submit_task(Job("other"), lane=Lane.PARTIAL, deadline=1.0, stream="t", sink=diary)
    pool.submit_task(Job("final"), lane=Lane.FINAL, deadline=2.0, stream="s", sink=diary).cancel()
    while device.loop.turn():
        pass
    assert diary.ends() == ["final", "other", "partial"]


def test_deadlines_move() -> None:
    model, diary = Timed(a=0.01, items=1), Diary()
    _, device, (pool,) = virtual(model)
    tasks = [pool.submit_task(Job(n), lane=Lane.INTERACTIVE, deadline=1.0 + n, stream=n, sink=diary) for n in range(3)]
    tasks[2].move(0.5)
    tasks[0].move(9.0)
    for n in range(1000):
        tasks[0].move(9.0 + n)
    group = tasks[0].group
    assert sum(len(heap) for heaps in group.heaps for heap in heaps.values()) < 200, "moves must not pile up"
    while device.loop.turn():
        pass
    assert diary.ends() == [2, 1, 0]


def test_a_task_can_be_moved_to_another_lane_while_it_waits_and_while_it_runs() -> None:
    model, diary = Timed(a=0.01, items=1), Diary()
    _, device, (pool,) = virtual(model)
    slow = pool.submit_task(Job("slow", costs=(1,) * 5), lane=Lane.BULK, deadline=0.1, sink=diary)
    device.loop.turn()
    other = pool.submit_task(Job("other"), lane=Lane.INTERACTIVE, deadline=0.1, sink=diary)
    live = [pool.submit_task(Job(f"live {n}"), lane=Lane.PARTIAL, deadline=0.2, sink=diary) for n in range(3)]
    slow.move(0.2, Lane.FINAL)
    other.move(0.5, Lane.FINAL)
    assert device.stats().queue == {Lane.FINAL: 2, Lane.PARTIAL: 3, Lane.INTERACTIVE: 0, Lane.BULK: 0}
    while device.loop.turn():
        pass
    assert diary.ends() == ["slow", "other", *(f"live {n}" for n in range(len(live)))]
    assert sum(device.stats().queue.values()) == 0


def test_only_a_hard_deadline_expires_and_only_before_the_first_step() -> None:
    model, diary = Timed(a=0.1, items=1), Diary()
    clock, device, (pool,) = virtual(model)
    begun = pool.submit_task(Job("begun", costs=(1, 1)), lane=Lane.PARTIAL, deadline=0.05, hard=True, sink=diary)
    late = pool.submit_task(Job("late"), lane=Lane.PARTIAL, deadline=0.06, hard=True, sink=diary)
    moved = pool.submit_task(Job("moved"), lane=Lane.PARTIAL, deadline=0.06, hard=True, sink=diary)
    soft = pool.submit_task(Job("soft"), lane=Lane.PARTIAL, deadline=0.06, sink=diary)
    final = pool.submit_task(Job("final"), lane=Lane.FINAL, deadline=0.2, sink=diary)
    clock.now = 0.0
    assert begun.phase is Phase.WAITING
    final.cancel()
    moved.move(5.0)
    while device.loop.turn():
        pass
    assert isinstance(diary.end_of(late), Expired)
    for task in (begun, moved, soft):
        assert isinstance(diary.end_of(task), Done)
    with pytest.raises(ValueError, match="final never expires"):
        pool.submit_task(Job("no"), lane=Lane.FINAL, deadline=1.0, hard=True, sink=diary)


def test_a_task_cancelled_while_its_step_is_handed_out_takes_no_other_step() -> None:
    model, diary = Timed(a=0.01), Diary()
    _, device, (pool,) = virtual(model)
    teach(device, model)
    first = pool.submit_task(Job("a", costs=(1, 1, 1)), lane=Lane.FINAL, deadline=1.0, sink=diary)
    pool.submit_task(Job("b", costs=(1, 1)), lane=Lane.FINAL, deadline=2.0, sink=lambda *_: first.cancel())
    while device.loop.turn():
        pass
    assert model.batches == [["a", "b"], ["b"]]
    assert diary.outputs_of(first) == ["a.0"]
    assert [state.freed for state in model.states] == [1, 1]


def long_run(name: str) -> Job:
    return Job(name, costs=(5, 1, 1), bucket=["encode", "token", "token"], opening=1)


def test_bulk_opens_tasks_before_it_goes_on_with_those_under_way_so_that_their_batches_are_full() -> None:
    model, diary = Timed(a=0.01, items=3, cost=5), Diary()
    _, device, (pool,) = virtual(model)
    for bucket in ("encode", "token"):
        teach(device, model, bucket)
    for n in range(4):
        pool.submit_task(long_run(str(n)), lane=Lane.BULK, deadline=60 + n, sink=diary)
    while device.loop.turn():
        pass
    # Three are opened, then step together; the fourth is opened as soon as there is room in their batch.
    assert model.batches == [["0"], ["1"], ["2"], ["0", "1", "2"], ["0", "1", "2"], ["3"], ["3"], ["3"]]


def test_bulk_whose_time_presses_is_not_kept_waiting_by_what_is_to_be_opened() -> None:
    model, diary = Timed(a=0.01, k=0.1, items=3), Diary()
    _, device, (pool,) = virtual(model)
    for bucket in ("encode", "token"):
        teach(device, model, bucket)
    pool.submit_task(Job("urgent", bucket="token"), lane=Lane.BULK, deadline=0.3, sink=diary)
    pool.submit_task(long_run("other"), lane=Lane.BULK, deadline=60, sink=diary)
    while device.loop.turn():
        pass
    assert model.batches[0] == ["urgent"]


def test_live_work_does_not_wait_for_what_is_to_be_opened() -> None:
    model, diary = Timed(a=0.01, items=3), Diary()
    _, device, (pool,) = virtual(model)
    for bucket in ("encode", "token"):
        teach(device, model, bucket)
    pool.submit_task(Job("live", bucket="token"), lane=Lane.PARTIAL, deadline=60, sink=diary)
    pool.submit_task(long_run("live too"), lane=Lane.PARTIAL, deadline=61, sink=diary)
    device.loop.turn()
    assert model.batches == [["live"]]


def test_late_live_work_is_opened_first_so_that_a_device_that_is_behind_catches_up_in_full_batches() -> None:
    model, diary = Timed(a=0.01, items=3, cost=5), Diary()
    _, device, (pool,) = virtual(model)
    for bucket in ("encode", "token"):
        teach(device, model, bucket)
    for n in range(4):
        pool.submit_task(long_run(str(n)), lane=Lane.FINAL, deadline=0.001 * n, sink=diary)
    while device.loop.turn():
        pass
    opened = ["0", "1", "2"]
    assert model.batches == [["0"], ["1"], ["2"], opened, opened, ["3"], ["3"], ["3"]]


def test_late_live_work_waits_for_no_more_to_be_opened_than_a_step_may_take() -> None:
    model, diary = Timed(k=0.02, items=64), Diary()
    _, device, (pool,) = virtual(model)
    for bucket in ("encode", "token"):
        teach(device, model, bucket)
    for n in range(8):
        job = Job(str(n), costs=(1, 1), bucket=["encode", "token"], opening=1)
        pool.submit_task(job, lane=Lane.FINAL, deadline=0.001 * n, sink=diary)
    while device.loop.turn():
        pass
    # Two tokens fit into a step of 60 ms with room to spare; with four under way nobody is opened any more.
    assert model.batches[:3] == [["0", "1"], ["2", "3"], ["0", "1"]]


def test_late_live_work_of_a_less_urgent_lane_is_not_opened_before_what_is_under_way() -> None:
    model, diary = Timed(a=0.01, items=3), Diary()
    _, device, (pool,) = virtual(model)
    for bucket in ("encode", "token"):
        teach(device, model, bucket)
    pool.submit_task(Job("final", bucket="token"), lane=Lane.FINAL, deadline=0.0, sink=diary)
    pool.submit_task(long_run("partial"), lane=Lane.PARTIAL, deadline=0.0, sink=diary)
    device.loop.turn()
    assert model.batches == [["final"]]


def test_bulk_in_a_gap_between_live_steps_is_short() -> None:
    model = Timed(k=0.002, items=64)
    _, device, (pool,) = virtual(model)
    teach(device, model)
    device.loop.live[NOBODY] = 1
    device.loop.scheduler.pick(0.0)
    for number in range(64):
        pool.submit_task(Job(number), lane=Lane.BULK, deadline=99, sink=Diary())
    device.loop.scheduler._turn_at[Lane.BULK] = 0.0
    device.loop.turn()
    assert 4 <= len(model.batches[0]) <= 5  # a sixth of 60 ms


def test_bulk_joins_no_batch_that_a_live_task_leads() -> None:
    model, diary = Timed(k=0.001, items=64), Diary()
    _, device, (pool,) = virtual(model)
    teach(device, model)
    for lane in (Lane.BULK, Lane.INTERACTIVE, Lane.PARTIAL, Lane.FINAL):
        pool.submit_task(Job(lane.name), lane=lane, deadline=99, sink=diary)
    while device.loop.turn():
        pass
    assert model.batches == [["FINAL", "PARTIAL", "INTERACTIVE"], ["BULK"]]
