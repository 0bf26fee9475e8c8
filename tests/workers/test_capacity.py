"""Admission of sessions: exact at the limit, honest about when to come back, blind to work that gives way."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from tests.workers.models import Diary, Job, Timed, VirtualClock, teach, virtual
from workers.capacity import RETRY_UNKNOWN, Capacity, Lease
from workers.device import Device
from workers.errors import BackendDead, Draining, Overloaded
from workers.pool import Pool
from workers.task import Lane
from workers.watchdog import Health


@pytest.mark.parametrize("share", [0.01, 0.05, 0.1, 0.17, 0.2, 0.3, 0.85])
def test_refuses_exactly_where_predicted_utilisation_passes_the_limit(share: float) -> None:
    _, device, (pool,) = virtual(Timed())
    capacity = Capacity([device], limit=0.85)
    fits = int(0.85 / share + 1e-6)
    for number in range(fits):
        assert capacity.free_streams(device, share) == fits - number
        capacity.admit(pool, share)
    assert capacity.reserved(device) <= 0.85 + 1e-6
    for _ in range(3):
        with pytest.raises(Overloaded):
            capacity.admit(pool, share)
    assert (capacity.streams(device), capacity.free_streams(device, share)) == (fits, 0)


def test_a_released_share_is_free_again_and_only_once() -> None:
    _, device, (pool,) = virtual(Timed())
    capacity = Capacity([device])
    with capacity.admit(pool, 0.5) as lease:
        with pytest.raises(Overloaded):
            capacity.admit(pool, 0.5)
        other = capacity.admit(pool, 0.35)
        lease.release()
        lease.release()
    assert capacity.reserved(device) == pytest.approx(0.35)
    assert device.loop.live.total() == 1
    other.release()
    assert (capacity.reserved(device), device.loop.live.total()) == (0, 0)


def test_the_device_with_most_room_takes_the_session() -> None:
    clock, devices, pool = two_devices()
    capacity = Capacity(devices)
    where = [capacity.admit(pool, 0.2).device.name for _ in range(4)]
    assert sorted(where) == ["d0", "d0", "d1", "d1"]
    assert clock.now == 0.0


def two_devices() -> tuple[VirtualClock, list[Device], Pool]:
    clock = VirtualClock()
    devices = [Device(f"d{number}", clock=clock) for number in range(2)]
    for device in devices:
        device.add(Timed(clock.sleep, a=0.1))
        device.load()
    return clock, devices, Pool("timed", devices)


def test_an_idle_device_takes_one_session_whatever_the_estimate() -> None:
    _, device, (pool,) = virtual(Timed())
    capacity = Capacity([device])
    assert capacity.free_streams(device, 1.5) == 1
    capacity.admit(pool, 1.5)
    with pytest.raises(Overloaded):
        capacity.admit(pool, 0.01)


def test_bulk_keeps_nobody_out_but_live_overuse_does() -> None:
    model = Timed(a=0.1, items=1)
    clock, device, (pool,) = virtual(model)
    capacity = Capacity([device])
    for lane, admitted in ((Lane.BULK, True), (Lane.INTERACTIVE, True), (Lane.PARTIAL, False)):
        for _ in range(400):
            pool.submit_task(Job("x"), lane=lane, deadline=1e9, sink=Diary())
            device.loop.turn()
        assert device.stats().utilisation > 0.85
        pool.submit_task(Job("x"), lane=Lane.BULK, deadline=1e9, sink=Diary())  # not idle
        if admitted:
            capacity.admit(pool, 0.3).release()
        else:
            with pytest.raises(Overloaded):
                capacity.admit(pool, 0.3)
    clock.sleep(60.0)
    capacity.admit(pool, 0.3)


def test_retry_after_is_when_a_session_is_likely_to_end() -> None:
    clock, device, (pool,) = virtual(Timed())
    capacity = Capacity([device])
    leases = [capacity.admit(pool, 0.17) for _ in range(5)]
    assert refusal(capacity, pool).retry_after == RETRY_UNKNOWN
    clock.sleep(50.0)
    leases.pop().release()
    leases.append(capacity.admit(pool, 0.17))
    assert refusal(capacity, pool).retry_after == pytest.approx(10.0)


def refusal(capacity: Capacity, pool: Pool, first_result: float = 0.0) -> Overloaded:
    with pytest.raises(Overloaded) as refused:
        capacity.admit(pool, 0.17, first_result)
    return refused.value


def test_the_first_result_must_be_in_time() -> None:
    model = Timed(a=0.5, items=1)
    _, device, (pool,) = virtual(model)
    teach(device, model)
    capacity = Capacity([device])
    for _ in range(6):
        pool.submit_task(Job("x"), lane=Lane.FINAL, deadline=9, sink=Diary())
    assert refusal(capacity, pool, first_result=1.0).retry_after == pytest.approx(2.0, rel=0.1)
    for _ in range(6):
        pool.submit_task(Job("x"), lane=Lane.BULK, deadline=9, sink=Diary())
    for _ in range(6):
        device.loop.turn()
    capacity.admit(pool, 0.17, first_result=1.0)


def test_draining_and_dead_devices_admit_nobody() -> None:
    _, devices, pool = two_devices()
    capacity = Capacity(devices)
    devices[0].drain(0.0)
    assert capacity.admit(pool, 0.1).device is devices[1]
    devices[1].health = Health.RESTARTING
    with pytest.raises(BackendDead):
        capacity.admit(pool, 0.1)
    devices[1].drain(0.0)
    with pytest.raises(Draining):
        capacity.admit(pool, 0.1)
    _, device, (pool,) = virtual(Timed())
    capacity = Capacity([device])
    capacity.drain()
    with pytest.raises(Draining):
        capacity.admit(pool, 0.1)
    assert capacity.free_streams(device, 0.1) == 0


def test_threads_cannot_overbook() -> None:
    _, device, (pool,) = virtual(Timed())
    capacity = Capacity([device])
    leases: list[Lease] = []

    def rush() -> None:
        for _ in range(50):
            with suppress(Overloaded):
                leases.append(capacity.admit(pool, 0.01))

    threads = [threading.Thread(target=rush) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(leases) == 85


@pytest.mark.parametrize("share", [0.0, -1.0, float("nan")])
def test_a_share_must_be_positive(share: float) -> None:
    _, device, (pool,) = virtual(Timed())
    with pytest.raises(ValueError, match="share"):
        Capacity([device]).admit(pool, share)
    with pytest.raises(ValueError, match="limit"):
        Capacity([device], limit=1.5)
