"""What a device does when more people come than it can serve, simulated: 12 ms a step and 1.6 ms for each chunk of
200 ms, so about 98 live sessions; every chunk is wanted within 200 ms.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.workers.models import Diary, Job, Timed, VirtualClock, teach, virtual
from workers.capacity import Capacity, Lease
from workers.device import Device
from workers.errors import Overloaded
from workers.pool import Pool
from workers.task import Lane

CHUNK = 0.200
WANTED_WITHIN = 0.200
SECONDS = 20.0
FIXED, EACH, ITEMS = 0.012, 0.0016, 32
SHARE = (FIXED + EACH * ITEMS) / ITEMS / CHUNK
"""Seconds of step time per second that a session's chunks take in full batches."""


def serve(
    sessions: int, *, admit: bool, order: Callable[[float], float] = lambda wanted: wanted, bulk: float = 0.0
) -> tuple[int, float, int]:
    """Sessions served, fraction of their chunks in time, bulk tasks done. `order` gives the deadline to submit."""
    clock, device, pools = _device()
    dice = random.Random(7)
    capacity = Capacity([device])
    arrivals: list[tuple[float, int, Lease | None]] = []
    served = 0
    for session in range(sessions):
        lease = None
        if admit:
            try:
                lease = capacity.admit(pools[0], SHARE)
            except Overloaded as refused:
                assert refused.retry_after > 0
                continue
        served += 1
        phase = dice.uniform(0, CHUNK)
        arrivals += [(phase + number * CHUNK, session, lease) for number in range(int(SECONDS / CHUNK))]
    arrivals += [(number / bulk, -1, None) for number in range(int(SECONDS * bulk))]
    arrivals.sort(key=lambda arrival: arrival[:2], reverse=True)
    diary, wanted = Diary(), {}
    while arrivals and clock.now < SECONDS:
        while arrivals and arrivals[-1][0] <= clock.now:
            at, session, lease = arrivals.pop()
            if session < 0:
                pools[1].submit_task(Job("bulk"), lane=Lane.BULK, deadline=at + 60.0, sink=diary)
            else:
                due = at + WANTED_WITHIN
                task = pools[0].submit_task(
                    Job(session), lane=Lane.PARTIAL, deadline=order(due), sink=diary, stream=session, lease=lease
                )
                wanted[task] = due
        if not device.loop.turn():
            clock.now = max(clock.now, arrivals[-1][0])
    in_time = sum(0 < task.timing.ended_at <= due for task, due in wanted.items() if due <= clock.now)
    return served, in_time / sum(due <= clock.now for due in wanted.values()), diary.ends().count("bulk")


def _device() -> tuple[VirtualClock, Device, list[Pool]]:
    live, bulk = Timed(a=FIXED, k=EACH, items=ITEMS, model="live"), Timed(k=0.020, items=ITEMS, model="bulk")
    clock, device, pools = virtual(live, bulk, queue_limit=1_000_000)
    teach(device, live)
    teach(device, bulk)
    return clock, device, pools


@pytest.mark.parametrize("sessions", [40, 80])
def test_within_capacity_everything_is_in_time(sessions: int) -> None:
    assert serve(sessions, admit=False)[1] == 1.0


def test_without_admission_more_than_fit_means_nobody_is_served() -> None:
    """First come first served, and earliest deadline first that looks no further than the order."""
    assert serve(110, admit=False, order=lambda wanted: wanted - 1000.0)[1] < 0.10
    assert serve(110, admit=False, order=lambda wanted: wanted - WANTED_WITHIN - 1000.0)[1] < 0.10


def test_no_order_of_chunks_replaces_admission() -> None:
    assert serve(110, admit=False)[1] < 0.50


def test_admitting_sessions_keeps_every_promise_to_those_admitted() -> None:
    served, in_time, _ = serve(110, admit=True)
    assert served == 86
    assert in_time == 1.0


def test_bulk_fills_what_live_sessions_leave() -> None:
    _, in_time, done = serve(80, admit=True, bulk=8.0)
    assert in_time == 1.0
    assert done >= 8.0 * SECONDS - 20


def test_too_much_bulk_costs_live_sessions_nothing() -> None:
    _, in_time, done = serve(80, admit=True, bulk=40.0)
    assert in_time > 0.999
    assert done > 10 * SECONDS * 0.5
