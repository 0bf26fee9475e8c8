"""What one tenant's flood does to another, on a virtual clock: next to nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.workers.models import Diary, Job, Timed, teach, virtual
from workers.backend import More
from workers.capacity import Capacity
from workers.errors import Overloaded
from workers.fairness import KEPT, TENANT, Fairness, Tenant
from workers.task import Lane, Result, Task

QUIET, NOISY = Tenant("quiet"), Tenant("noisy")
FAST = {"a": 0.010, "k": 0.0002}
"""Seconds of a step, and of each task in it: a batch costs hardly more than one of its tasks, as on a GPU."""
SLOW = {"a": 0.001, "k": 0.004}
"""Each task costs its own time, as on a CPU."""
UTTERANCE = (20.0, *(30 * [1.0]))
"""Costs of the steps: the sound, then token by token."""
LEAD = 3.0
SECONDS = 24.0


@contextmanager
def tenant(whose: Tenant) -> Iterator[None]:
    token = TENANT.set(whose)
    try:
        yield
    finally:
        TENANT.reset(token)


def waits_of_the_quiet(model: dict[str, float], demand: float, lane: Lane, noisy: Tenant = NOISY) -> list[float]:
    """Seconds from arrival to end of what the quiet one says, about once a second, beside somebody who has wanted
    `demand` times all that the device can do since `LEAD` seconds before, in the same lane."""
    dice, waits, at = random.Random(5), [], 0.0
    timed = Timed(items=32, **model)
    clock, device, (pool,) = virtual(timed, queue_limit=1_000_000)
    teach(device, timed)
    device.loop.live.update((QUIET, noisy))
    coming: list[tuple[float, Tenant, tuple[float, ...]]]
    coming = [(LEAD + number + 0.4 * dice.random(), QUIET, UTTERANCE) for number in range(int(SECONDS))]
    while demand and at < LEAD + SECONDS:
        coming.append((at, noisy, (1.0,)))
        at += dice.expovariate(demand / (model["a"] / 32 + model["k"]))
    coming.sort(key=lambda one: one[0], reverse=True)

    def ended(task: Task, result: Result) -> None:
        if task.payload.costs is UTTERANCE and not isinstance(result, More):
            waits.append(clock.now - task.payload.name)

    while len(waits) < SECONDS:
        while coming and coming[-1][0] <= clock.now:
            came, whose, costs = coming.pop()
            with tenant(whose):
                pool.submit_task(Job(came, costs=costs), lane=lane, deadline=came + 0.5, sink=ended)
        if not device.loop.turn():
            clock.now = max(clock.now, coming[-1][0])
    return sorted(waits)


def p95(waits: list[float]) -> float:
    return waits[int(0.95 * len(waits))]


@pytest.mark.parametrize("lane", [Lane.FINAL, Lane.INTERACTIVE])
@pytest.mark.parametrize("model", [FAST, SLOW], ids=["fast", "slow"])
def test_a_flood_of_one_tenant_costs_another_a_tenth_at_most(model: dict[str, float], lane: Lane) -> None:
    alone = p95(waits_of_the_quiet(model, 0.0, lane))
    assert p95(waits_of_the_quiet(model, 3.0, lane)) <= 1.1 * alone


def test_told_apart_by_nobody_the_same_flood_is_felt() -> None:
    alone = p95(waits_of_the_quiet(SLOW, 0.0, Lane.FINAL))
    assert p95(waits_of_the_quiet(SLOW, 1.5, Lane.FINAL, noisy=QUIET)) > 3 * alone


def served(tenants: list[Tenant], model: dict[str, float], seconds: float) -> dict[str, int]:
    """How many steps each got of a device that all of them keep busy."""
    timed = Timed(items=4, **model)
    clock, device, (pool,) = virtual(timed)
    teach(device, timed, costs=(1, 4))
    count = dict.fromkeys((one.name for one in tenants), 0)

    def again(task: Task, _: Result) -> None:
        count[task.tenant.name] += 1
        ask(task.tenant)

    def ask(whose: Tenant) -> None:
        with tenant(whose):
            pool.submit_task(Job(whose.name), lane=Lane.PARTIAL, deadline=clock.now, sink=again)

    for one in tenants:
        for _ in range(8):
            ask(one)
    while clock.now < seconds:
        device.loop.turn()
    return count


@pytest.mark.parametrize("model", [FAST, SLOW], ids=["fast", "slow"])
def test_time_is_shared_by_weight(model: dict[str, float]) -> None:
    count = served([Tenant("one"), Tenant("two", weight=2.0), Tenant("five", weight=5.0)], model, 30.0)
    total = sum(count.values())
    for name, part in (("one", 1 / 8), ("two", 2 / 8), ("five", 5 / 8)):
        assert count[name] / total == pytest.approx(part, rel=0.15)


def test_who_was_away_comes_back_with_a_small_credit() -> None:
    model, diary = Timed(items=1, a=0.1), Diary()
    _, device, (pool,) = virtual(model)
    teach(device, model)
    with tenant(NOISY):
        for _ in range(60):
            pool.submit_task(Job("noisy"), lane=Lane.FINAL, deadline=1.0, sink=diary)
    for _ in range(40):
        device.loop.turn()
    with tenant(QUIET):
        for _ in range(20):
            pool.submit_task(Job("quiet"), lane=Lane.FINAL, deadline=20.0, sink=diary)
    while device.loop.turn():
        pass
    came_back = diary.ends()[40:60]
    assert came_back[:10] == ["quiet"] * 10, "a second of it at once, however long it was away"
    assert came_back[12:].count("quiet") == 4, "and then they take turns"


def test_within_a_tenant_and_between_lanes_the_order_stays() -> None:
    model, diary = Timed(items=1, **SLOW), Diary()
    _, device, (pool,) = virtual(model)
    teach(device, model)
    with tenant(QUIET):
        pool.submit_task(Job("quiet partial"), lane=Lane.PARTIAL, deadline=0.1, sink=diary)
    with tenant(NOISY):
        for deadline in (3.0, 1.0, 2.0):
            pool.submit_task(Job(f"noisy final {deadline:g}"), lane=Lane.FINAL, deadline=deadline, sink=diary)
    while device.loop.turn():
        pass
    assert diary.ends() == ["noisy final 1", "noisy final 2", "noisy final 3", "quiet partial"]


def test_a_thousand_tenants_that_have_gone_are_forgotten() -> None:
    model, diary = Timed(items=1, a=0.1), Diary()
    clock, device, (pool,) = virtual(model)
    device.loop.scheduler._fairness = fairness = Fairness(4)
    teach(device, model)
    for number in range(1000):
        with tenant(Tenant(f"visitor {number}")):
            pool.submit_task(Job(number), lane=Lane.FINAL, deadline=clock.now, sink=diary)
        device.loop.turn()
    assert len(diary.ends()) == 1000
    assert len(fairness._stands[Lane.FINAL]) <= KEPT


def test_a_tenant_leaves_room_for_others() -> None:
    _, device, (pool,) = virtual(Timed())
    capacity = Capacity([device], limit=0.8)
    half = Tenant("half", room=0.5)
    with tenant(half):
        held = [capacity.admit(pool, 0.2), capacity.admit(pool, 0.2)]
        with pytest.raises(Overloaded, match="one key"):
            capacity.admit(pool, 0.2)
    with tenant(QUIET):
        held.append(capacity.admit(pool, 0.2))
    with tenant(half):
        held.pop(0).release()
        held.append(capacity.admit(pool, 0.2))
    for lease in held:
        lease.release()
    with tenant(Tenant("small", room=0.1)):
        capacity.admit(pool, 0.7)  # one session in any case
