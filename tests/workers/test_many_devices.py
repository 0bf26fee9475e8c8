"""With many devices a few are looked at, and nothing else changes: nobody is refused while there is a place, a key has
its part of all, a stream stays together."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.workers.models import Diary, Job, Timed, VirtualClock
from workers.capacity import FULL_FOR, Capacity, Lease
from workers.device import Device
from workers.errors import BackendDead, Draining, Overloaded
from workers.fairness import TENANT, Tenant
from workers.pool import FEW, REMEMBERED, Pool
from workers.task import Lane
from workers.watchdog import Health

MANY = 5 * FEW


def fleet(count: int = MANY) -> tuple[VirtualClock, list[Device], Pool]:
    clock = VirtualClock()
    devices = [Device(f"d{number}", clock=clock) for number in range(count)]
    for device in devices:
        device.add(Timed(clock.sleep, a=0.1))
        device.load()
    return clock, devices, Pool("timed", devices)


def test_every_place_is_found() -> None:
    _, devices, pool = fleet()
    capacity = Capacity(devices)
    for _ in range(5 * MANY):
        capacity.admit(pool, 0.17)
    assert {capacity.streams(device) for device in devices} == {5}
    with pytest.raises(Overloaded, match="every device"):
        capacity.admit(pool, 0.17)


def test_sessions_are_spread() -> None:
    _, devices, pool = fleet()
    capacity = Capacity(devices)
    for _ in range(10 * MANY):
        capacity.admit(pool, 0.01)
    streams = [capacity.streams(device) for device in devices]
    assert min(streams) >= 8 and max(streams) <= 12


def test_a_place_that_gets_free_is_given_at_once() -> None:
    clock, devices, pool = fleet()
    capacity = Capacity(devices)
    leases = [capacity.admit(pool, 0.85) for _ in range(MANY)]
    for _ in range(3):  # refused by all, then at once
        with pytest.raises(Overloaded) as refused:
            capacity.admit(pool, 0.85)
        assert refused.value.retry_after > 0
    leases.pop().release()
    leases.append(capacity.admit(pool, 0.85))
    with pytest.raises(Overloaded):
        capacity.admit(pool, 0.85)
    # A smaller one is another question, and so is the same a moment later.
    for share, later in ((0.0001, 0.0), (0.85, FULL_FOR)):
        clock.sleep(later)
        with pytest.raises(Overloaded):
            capacity.admit(pool, share)


def test_a_key_has_its_part_of_all_of_them_and_one_session_in_any_case() -> None:
    _, devices, pool = fleet()
    capacity = Capacity(devices)
    half, small = Tenant("half", room=0.5), Tenant("small", room=0.0)
    context = TENANT.set(half)
    try:
        leases: list[Lease] = []
        with pytest.raises(Overloaded, match="meant for one key"):
            while True:
                leases.append(capacity.admit(pool, 0.17))
        assert len(leases) == 5 * MANY // 2
        leases.pop().release()
        leases.append(capacity.admit(pool, 0.17))
        TENANT.set(small)
        capacity.admit(pool, 0.17)
        with pytest.raises(Overloaded, match="meant for one key"):
            capacity.admit(pool, 0.17)
    finally:
        TENANT.reset(context)


def test_the_one_that_is_up_is_found() -> None:
    _, devices, pool = fleet()
    capacity = Capacity(devices)
    for device in devices[1:]:
        device.health = Health.RESTARTING
    assert capacity.admit(pool, 0.1).device is devices[0]
    devices[0].health = Health.DEAD
    with pytest.raises(BackendDead):
        capacity.admit(pool, 0.1)
    capacity.drain()
    with pytest.raises(Draining):
        capacity.admit(pool, 0.1)


def test_tasks_without_a_stream_are_spread_and_one_goes_where_somebody_is_up() -> None:
    _, devices, pool = fleet()
    for _ in range(10 * MANY):
        task = pool.submit_task(Job("x"), lane=Lane.BULK, deadline=9.0, sink=Diary())
        assert task.host is not None
    open_tasks = [device.loop.open for device in devices]
    assert max(open_tasks) <= 40 and sum(open_tasks) == 10 * MANY
    for device in devices[:-1]:
        device.health = Health.RESTARTING
    assert pool.submit_task(Job("x"), lane=Lane.BULK, deadline=9.0, sink=Diary()).host is devices[-1]


def test_a_stream_stays_together_until_its_tasks_have_ended() -> None:
    _, devices, pool = fleet()
    where = Counter(
        pool.submit_task(Job(n), lane=Lane.PARTIAL, deadline=9.0, sink=Diary(), stream="one").host for n in range(20)
    )
    (host,) = where
    lost = next(device for device in devices if device is host)
    lost.health = Health.RESTARTING
    after = {
        pool.submit_task(Job(n), lane=Lane.PARTIAL, deadline=9.0, sink=Diary(), stream="one").host for n in range(20)
    }
    assert len(after) == 1 and host not in after


def test_streams_that_have_ended_are_forgotten() -> None:
    _, devices, pool = fleet(2)
    for stream in range(3 * REMEMBERED):
        pool.submit_task(Job("x"), lane=Lane.PARTIAL, deadline=9.0, sink=Diary(), stream=stream)
        while any(device.loop.turn() for device in devices):
            pass
    assert len(pool._where) <= REMEMBERED
