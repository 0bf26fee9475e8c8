"""When clients come: as often as they should, the same for a seed, and never later because others take long."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import numpy as np
import pytest

from load.harness.arrivals import Arrivals, Pattern, come, paced, phases, poisson


def test_moments_of_a_poisson_process_are_independent_and_as_many_as_asked_for() -> None:
    moments = poisson(20.0, 500.0, 1)
    gaps = np.diff(moments)
    assert len(moments) == pytest.approx(10_000, rel=0.05)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)  # as an exponential distribution has it
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 0.05
    assert moments == poisson(20.0, 500.0, 1) != poisson(20.0, 500.0, 2)
    assert poisson(0.0, 10.0, 0) == []


def test_open_arrivals_have_so_many_there_on_average() -> None:
    for pattern in (Pattern.POISSON, Pattern.BURSTS):
        arrivals = Arrivals(pattern, burst=5)
        moments = arrivals.moments(clients=8, seconds=4000.0, visit=20.0, seed=3)
        assert len(moments) * 20.0 / 4000.0 == pytest.approx(8, rel=0.12)
        together = sum(a == b for a, b in pairwise(moments))
        assert (together > len(moments) / 2) == (pattern is Pattern.BURSTS)


def test_clients_of_a_closed_loop_begin_at_moments_of_their_own() -> None:
    moments = Arrivals(spread=3.0).moments(clients=50, seconds=60.0, visit=1.0, seed=0)
    assert moments == phases(50, 3.0, 0) == sorted(moments)
    assert moments[0] >= 0 and moments[-1] <= 3.0 and len(set(moments)) == 50


async def test_nobody_waits_for_those_before() -> None:
    begun = time.monotonic()
    seen: list[tuple[int, float, float]] = []
    release = asyncio.Event()

    async def work(number: int, due: float) -> None:
        seen.append((number, due - begun, time.monotonic()))
        if number == 2:
            release.set()
        await release.wait()  # all three have to be there for any of them to end

    await come([0.0, 0.02, 0.05], work)
    assert [number for number, _, _ in seen] == [0, 1, 2]
    assert [due for _, due, _ in seen] == pytest.approx([0.0, 0.02, 0.05], abs=0.01)


async def test_work_is_due_when_it_was_to_be_done_however_long_the_work_before_took() -> None:
    first = time.monotonic()
    dues, waited = [], []
    async for due in paced(first, 0.05, first + 0.25):
        dues.append(due - first)
        waited.append(time.monotonic() - due)
        if len(dues) == 1:
            await asyncio.sleep(0.12)
    assert dues == pytest.approx([0.0, 0.05, 0.1, 0.15, 0.2])
    assert waited[1] >= 0.06  # a latency that counts from `due` has what the service's slowness put off


async def test_what_fails_ends_the_others() -> None:
    async def work(number: int, due: float) -> None:
        if number:
            raise ValueError("no")
        await asyncio.sleep(30)

    with pytest.raises(ExceptionGroup):
        await come([0.0, 0.01], work)
