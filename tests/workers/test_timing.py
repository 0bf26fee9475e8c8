"""What a task's timing tells of where its time went, on a virtual clock."""

from __future__ import annotations

import pytest

from tests.workers.models import Job, Timed, VirtualClock
from workers.device import Device
from workers.pool import Pool
from workers.task import Lane


def test_device_seconds_count_the_steps_of_others_and_not_the_time_nobody_stepped() -> None:
    clock = VirtualClock()
    model = Timed(clock.sleep, a=0.1, items=1)
    device = Device("cpu:0", clock=clock)
    device.add(model)
    device.load()
    pool = Pool("timed", [device])
    first, second = (
        pool.submit_task(Job(name, (1.0, 1.0)), lane=Lane.FINAL, deadline=at, sink=lambda task, result: None)
        for name, at in (("first", 1.0), ("second", 2.0))
    )
    clock.sleep(0.5)  # the device is late to begin
    while device.loop.turn():
        pass
    assert (first.timing.step_seconds, second.timing.step_seconds) == pytest.approx((0.2, 0.2))
    assert first.timing.device_seconds == pytest.approx(0.2)
    assert second.timing.device_seconds == pytest.approx(0.4)
    assert second.timing.ended_at - second.timing.queued_at - second.timing.device_seconds == pytest.approx(0.5)


def test_shares_of_tasks_that_step_together_make_up_the_devices_time() -> None:
    clock = VirtualClock()
    model = Timed(clock.sleep, a=0.1, items=4)
    device = Device("cpu:0", clock=clock)
    device.add(model)
    device.load()
    pool = Pool("timed", [device])
    tasks = [
        pool.submit_task(Job(str(n), (1.0,) * (n + 1)), lane=Lane.BULK, deadline=1.0, sink=lambda task, result: None)
        for n in range(3)
    ]
    while device.loop.turn():
        pass
    assert sum(task.timing.share_seconds for task in tasks) == pytest.approx(device.loop.ledger.seconds)
    assert tasks[2].timing.share_seconds > tasks[0].timing.share_seconds
