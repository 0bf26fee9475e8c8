"""Real inputs, and strange ones made of them: every parser takes them or refuses them in its protocol's words."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from tests.fuzz.conftest import CHECKS, FACTOR
from tests.fuzz.everything import targets
from tests.fuzz.mutations import changed

TARGETS = targets()


@pytest.mark.parametrize("name", TARGETS)
def test_real_inputs(name: str) -> None:
    target = TARGETS[name]
    seeds = target.seeds()
    assert seeds
    for seed in seeds:
        target.check(seed)
    target.check(b"")


@pytest.mark.parametrize("name", TARGETS)
def test_strange_inputs(name: str) -> None:
    target = TARGETS[name]
    seeds = list(target.seeds())

    # Changes do not shrink to smaller ones, so nothing is gained by trying.
    phases = [Phase.explicit, Phase.reuse, Phase.generate]

    @settings(max_examples=target.examples * FACTOR, deadline=None, phases=phases, suppress_health_check=CHECKS)
    @given(st.randoms(use_true_random=False), st.sampled_from(seeds), st.integers(1, 4))
    def strange(random: Random, seed: bytes, times: int) -> None:
        data = changed(random, seed, target.kind, target.words, times)
        note(repr(data[:5000]))
        target.check(data)

    strange()
