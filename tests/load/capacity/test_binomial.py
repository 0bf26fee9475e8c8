"""Bounds of a share, against known values, each other, and chance itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from load.capacity.binomial import at_most, lower_bound, shown, trials_needed, upper_bound


@pytest.mark.parametrize(
    ("events", "trials", "bound"),
    [(0, 2995, 0.001), (0, 10, 0.2589), (1, 100, 0.0466), (5, 50, 0.1988), (10, 10, 1.0), (0, 0, 1.0)],
)
def test_the_upper_bound_is_clopper_pearsons(events: int, trials: int, bound: float) -> None:
    assert upper_bound(events, trials) == pytest.approx(bound, abs=2e-4)


@pytest.mark.parametrize(
    ("events", "trials", "bound"), [(0, 10, 0.0), (10, 10, 0.7411), (50, 1000, 0.0391), (3, 3000, 0.00027)]
)
def test_the_lower_bound_is_clopper_pearsons(events: int, trials: int, bound: float) -> None:
    assert lower_bound(events, trials) == pytest.approx(bound, abs=2e-4)


def test_tails_far_out_are_exact() -> None:
    assert at_most(0, 100_000, 0.5) == 0.0
    assert at_most(99_999, 100_000, 0.5) == pytest.approx(1.0)
    assert at_most(3, 10, 0.0) == at_most(10, 10, 1.0) == 1.0
    assert at_most(3, 10, 1.0) == 0.0
    assert at_most(2, 4, 0.5) == pytest.approx(11 / 16)


@given(st.integers(1, 400), st.data(), st.floats(0.5, 0.999))
def test_a_bound_is_where_it_is_shown(trials: int, data: st.DataObject, confidence: float) -> None:
    events = data.draw(st.integers(0, trials))
    low, high = lower_bound(events, trials, confidence), upper_bound(events, trials, confidence)
    assert 0 <= low <= events / trials <= high <= 1
    if events < trials:
        assert shown(events, trials, high) == pytest.approx(confidence, abs=1e-6)
        assert shown(events, trials, min(1.0, high * 1.01)) >= confidence - 1e-9


def test_as_many_trials_are_enough_as_are_needed() -> None:
    assert trials_needed(0.05, 0.95) == 59
    assert trials_needed(0.001, 0.95) == 2995
    with_room = trials_needed(0.05, 0.95, spare=2)
    assert with_room is not None and 124 <= with_room <= 128
    worse = trials_needed(0.05, 0.95, share=0.03)
    assert worse is not None and shown(int(np.ceil(0.03 * worse)), worse, 0.05) >= 0.95
    assert trials_needed(0.05, 0.95, share=0.05) is None


def test_a_bound_misleads_as_seldom_as_it_says() -> None:
    chance = np.random.default_rng(0)
    misled = sum(upper_bound(int(events), 200) < 0.05 for events in chance.binomial(200, 0.05, 1000))
    assert misled <= 0.05 * 1000 * 1.3
