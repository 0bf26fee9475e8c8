"""What was measured of a model takes the place of its estimate, and is kept as a promise."""

from __future__ import annotations

import pytest

from tests.workers.models import Diary, Job, Timed, VirtualClock, teach, virtual
from workers.capacity import OPEN, Capacity, Lease, Measured
from workers.device import Device
from workers.errors import Overloaded
from workers.pool import Pool
from workers.task import Lane

ESTIMATE = 0.3


def admitted(capacity: Capacity, pool: Pool, share: float = ESTIMATE, **how: float) -> list[Lease]:
    """As many as are."""
    leases = []
    while len(leases) < 200:
        try:
            leases.append(capacity.admit(pool, share, **how))
        except Overloaded:
            break
    return leases


def work(device: Device, pool: Pool, seconds: float, lane: Lane = Lane.PARTIAL) -> None:
    """Keep the device in steps for so long."""
    until = device.clock() + seconds
    while device.clock() < until:
        pool.submit_task(Job("x"), lane=lane, deadline=1e9, sink=Diary())
        device.loop.turn()


@pytest.mark.parametrize("limit", [0.5, 0.85, 1.0])
@pytest.mark.parametrize("streams", [1, 3, 7, 100])
def test_as_many_are_admitted_as_were_measured_whatever_the_estimate_and_the_limit(limit: float, streams: int) -> None:
    _, device, (pool,) = virtual(Timed())
    capacity = Capacity([device], limit)
    capacity.promise(device, "timed", Measured(streams, 0.9))
    for estimate in (1e-6, 0.3, 20.0):
        assert capacity.free_streams(device, estimate, "timed") == streams
        leases = admitted(capacity, pool, estimate)
        assert len(leases) == streams
        assert capacity.free_streams(device, estimate, "timed") == 0
        assert capacity.reserved(device) == pytest.approx(limit)
        for lease in leases:
            lease.release()


def test_models_fill_a_device_together_as_each_does_alone() -> None:
    _, device, (hears, speaks, guessed) = virtual(Timed(model="hears"), Timed(model="speaks"), Timed(model="guessed"))
    capacity = Capacity([device])
    capacity.promise(device, "hears", Measured(6, 0.9))
    capacity.promise(device, "speaks", Measured(4, 0.9))
    leases = [capacity.admit(hears, ESTIMATE) for _ in range(3)] + [capacity.admit(speaks, ESTIMATE)]
    assert capacity.free_streams(device, ESTIMATE, "hears") == 1
    assert capacity.free_streams(device, ESTIMATE, "speaks") == 1
    assert capacity.free_streams(device, 0.2, "guessed") == 1, "an estimate adds up with them"
    leases.append(capacity.admit(guessed, 0.2))
    with pytest.raises(Overloaded):
        capacity.admit(hears, ESTIMATE)
    for lease in leases:
        lease.release()
    assert capacity.reserved(device) == 0


def test_a_stream_that_is_half_of_a_measured_one_reserves_half() -> None:
    _, device, (pool,) = virtual(Timed())
    capacity = Capacity([device])
    capacity.promise(device, "timed", Measured(5, 0.9))
    assert len(admitted(capacity, pool, weight=0.5)) == 10
    with pytest.raises(ValueError, match="weight"):
        capacity.admit(pool, ESTIMATE, weight=0.0)


def test_each_device_has_its_own_number() -> None:
    clock = VirtualClock()
    devices = [Device(f"d{number}", clock=clock) for number in range(3)]
    for device in devices:
        device.add(Timed(clock.sleep))
        device.load()
    pool, capacity = Pool("timed", devices), Capacity(devices)
    capacity.promise(devices[0], "timed", Measured(8, 0.9))
    capacity.promise(devices[1], "timed", Measured(2, 0.9))
    assert len(admitted(capacity, pool)) == 8 + 2 + int(0.85 / ESTIMATE)
    assert [capacity.streams(device) for device in devices] == [8, 2, 2]


def test_a_device_as_busy_as_when_it_was_measured_keeps_its_promise() -> None:
    """Few streams get all the partials that many share, so that it is as busy with them: 0.97 is over the limit."""
    _, device, (pool,) = virtual(Timed(a=0.05, items=1))
    capacity = Capacity([device])
    capacity.promise(device, "timed", Measured(6, 0.97))
    leases = [capacity.admit(pool, ESTIMATE)]
    work(device, pool, 60.0)
    assert device.stats().live_utilisation > 0.95
    assert capacity.free_streams(device, ESTIMATE, "timed") == 5
    leases += admitted(capacity, pool)
    assert len(leases) == 6
    work(device, pool, 60.0)
    for lease in leases:
        lease.release()
    pool.submit_task(Job("x"), lane=Lane.BULK, deadline=1e9, sink=Diary())  # not idle
    assert capacity.free_streams(device, ESTIMATE, "timed") == 6, "what those who left had used is nobody's"


def test_streams_that_cost_more_than_when_they_were_measured_keep_others_out() -> None:
    clock, device, (pool,) = virtual(Timed(a=0.05, items=1))
    capacity = Capacity([device])
    capacity.promise(device, "timed", Measured(6, 0.5))
    capacity.admit(pool, ESTIMATE)
    work(device, pool, 60.0)
    assert capacity.free_streams(device, ESTIMATE, "timed") == 0
    with pytest.raises(Overloaded):
        capacity.admit(pool, ESTIMATE)
    clock.sleep(60.0)
    assert capacity.free_streams(device, ESTIMATE, "timed") == 5


def test_the_meter_is_not_forgiven_for_longer_than_it_remembers() -> None:
    clock, device, (pool,) = virtual(Timed(a=0.05, items=1))
    capacity = Capacity([device])
    capacity.promise(device, "timed", Measured(6, 0.97))
    capacity.admit(pool, ESTIMATE).release()
    clock.sleep(60.0)
    work(device, pool, 60.0)  # live work that nobody has been admitted for
    pool.submit_task(Job("x"), lane=Lane.BULK, deadline=1e9, sink=Diary())
    assert capacity.free_streams(device, ESTIMATE, "timed") == 0


def test_a_device_that_is_behind_by_more_than_the_objective_takes_nobody() -> None:
    model = Timed(a=0.5, items=1)
    _, device, (pool,) = virtual(model)
    teach(device, model)
    capacity = Capacity([device])
    capacity.promise(device, "timed", Measured(6, 1.0, within=1.0))
    for _ in range(6):
        pool.submit_task(Job("x"), lane=Lane.FINAL, deadline=9, sink=Diary())
    with pytest.raises(Overloaded, match="late") as refused:
        capacity.admit(pool, ESTIMATE)
    assert refused.value.retry_after == pytest.approx(2.0, rel=0.1)
    with pytest.raises(Overloaded, match="late"):
        capacity.admit(pool, ESTIMATE, first_result=2.0)
    for _ in range(6):
        device.loop.turn()
    capacity.admit(pool, ESTIMATE)


def test_everybody_is_admitted_for_whoever_measures() -> None:
    model = Timed(a=0.5, items=1)
    _, device, (pool,) = virtual(model)
    teach(device, model)
    capacity = Capacity([device], everybody=True)
    for _ in range(6):
        pool.submit_task(Job("x"), lane=Lane.FINAL, deadline=9, sink=Diary())
    assert len(admitted(capacity, pool, 5.0, first_result=0.1)) == 200
    assert capacity.free_streams(device, ESTIMATE, "timed") == OPEN
    capacity.drain()
    assert capacity.free_streams(device, ESTIMATE, "timed") == 0


@pytest.mark.parametrize("wrong", [(0, 0.5), (-1, 0.5), (1, 1.5), (1, -0.1), (1, 0.5, -1.0), (1, 0.5, float("inf"))])
def test_a_measured_number_makes_sense(wrong: tuple[int, float]) -> None:
    with pytest.raises(ValueError, match=r"measured|busy"):
        Measured(*wrong)
