"""The whole measurement at a service whose number is known: what it finds, when it stops, what it proves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from load.capacity.goal import hearing
from load.capacity.measure import Measuring, Plan, measure
from load.capacity.prove import prove
from load.harness.trial import Outcome
from tests.load.capacity.virtual import VirtualService, VirtualTrial

QUIET = Console(quiet=True)


def steep(carries: int, before: float = 0.005, beyond: float = 0.3) -> VirtualTrial:
    return VirtualTrial(lambda clients: before if clients <= carries else beyond)


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 40), st.sampled_from([0.0, 0.002]), st.integers(0, 1000))
def test_the_number_is_found_and_shown(carries: int, before: float, seed: int) -> None:
    trial = steep(carries, before)
    found = measure(trial, VirtualService(), hearing(), Plan(most=64, seconds=120, seed=seed), QUIET)
    assert 0.8 * carries - 1 <= found.count <= carries
    assert found.held is not None and found.held.clients == found.count
    assert found.held.verdict.confidence >= 0.95
    assert found.held.busy == 0.9
    assert len({seed for _, _, seed in trial.runs}) == len(trial.runs), "no run says the same twice"


def test_who_lies_at_the_bar_is_not_promised() -> None:
    """5 of 100 are late with eight: the number must be smaller, however often chance lets eight pass."""
    counts = [
        measure(VirtualTrial(lambda n: 0.0 if n < 8 else 0.06), VirtualService(), hearing(),
                Plan(most=64, seconds=60, seed=100 * seed), QUIET).count
        for seed in range(6)
    ]  # fmt: skip
    assert sum(count > 7 for count in counts) <= 1 and min(counts) >= 5


def test_it_stops_where_it_can_say_nothing() -> None:
    plan = Plan(most=16, seconds=60)
    none = measure(steep(0), VirtualService(), hearing(), plan, QUIET)
    assert none.count == 0 and "not even one client" in none.why
    closed = measure(steep(8), VirtualService(4), hearing(), plan, QUIET)
    assert closed.count == 0 and "--admission everybody" in closed.why
    short = measure(steep(8), VirtualService(), hearing(), Plan(most=16, seconds=10, hold=10, longest=20), QUIET)
    assert short.count == 0 and "--longest" in short.why

    def tired(out: Outcome) -> None:
        if out.offered > 4 and out.watched is not None:
            out.watched.late = [0.8] * 100
            out.limits = out.watched.limits()

    limited = measure(VirtualTrial(lambda n: 0.0 if n <= 4 else 0.3, tired), VirtualService(), hearing(), plan, QUIET)
    assert limited.count == 0 and "these clients are the limit" in limited.why and "4 passed" in limited.why

    def full(out: Outcome) -> None:
        out.refused = out.offered > 4

    refused = measure(VirtualTrial(lambda n: 0.0, full), VirtualService(), hearing(), plan, QUIET)
    assert refused.count == 0 and "--max-sessions" in refused.why


def test_words_are_compared_with_those_of_one_alone() -> None:
    def worse(out: Outcome) -> None:
        out.errors = [5.0 if out.offered < 4 else 15.0] * out.offered

    for start in (1, 2):
        plan = Plan(start, most=16, seconds=120)
        found = measure(VirtualTrial(lambda n: 0.0, worse), VirtualService(), hearing(), plan, QUIET)
        assert found.count == 3 and list(found.alone) == [5.0]


@pytest.mark.parametrize(("promise", "carries"), [(10, 10), (1, 1), (6, 9)])
def test_a_promise_that_is_kept_is_proven(promise: int, carries: int) -> None:
    trial = steep(carries)
    measuring = Measuring(trial, VirtualService(promise), hearing(), 0, QUIET)
    assert prove(measuring, promise, 300.0, "asr") == []
    assert [clients for clients, _, _ in trial.runs] == [max(1, int(0.9 * promise)), promise + 1]


def test_a_promise_that_is_not_kept_is_told() -> None:
    measuring = Measuring(steep(5), VirtualService(10), hearing(), 0, QUIET)
    missed = prove(measuring, 10, 300.0, "asr")
    assert len(missed) == 2 and missed[0].startswith("9 clients:") and missed[1].startswith("11 clients:")
    generous = Measuring(steep(20), VirtualService(14), hearing(), 0, QUIET)
    assert "0 were refused, 1 were too many" in prove(generous, 10, 300.0, "asr")[0]
    mean = Measuring(steep(20), VirtualService(6), hearing(), 0, QUIET)
    missed = prove(mean, 10, 300.0, "asr")
    assert "9 clients: 3 of 9 clients were refused" in missed[0]
    assert "11 clients: 6 were admitted, 10 were promised" in missed

    def slow(out: Outcome) -> None:
        out.latencies["refused"] = [0.5]

    late = Measuring(VirtualTrial(lambda n: 0.0, slow), VirtualService(10), hearing(), 0, QUIET)
    assert prove(late, 10, 300.0, "asr") == ["11 clients: a refusal took 500 ms"]
