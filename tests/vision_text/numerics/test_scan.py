"""A scan finds what bears low precision, also where it is not where it is often said to be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.vision_text.numerics import small
from vision_text.numerics.linear import Lowering
from vision_text.numerics.plan import PrecisionPlan
from vision_text.numerics.scan import choose, scan

STEPS, BANDS = 4, 2


@pytest.fixture(scope="module")
def sampler():  # type: ignore[no-untyped-def]
    """Makes clips of an untrained model in a few steps of Euler, under a plan. Its middle block has weights with
    outliers, so that this one and no outer one is sensitive."""
    model = small.cogvideox(layers=3)
    with torch.no_grad():
        model.transformer_blocks[1].ff.net[0].proj.weight[:, 5] *= 60
    lowering = Lowering(model)
    given = small.inputs()
    given["hidden_states"] *= 0.3

    def make(plan: PrecisionPlan) -> np.ndarray:  # type: ignore[type-arg]
        latents = given["hidden_states"].clone()
        with torch.inference_mode():
            for step in range(STEPS):
                lowering.use(plan.at(step, STEPS))
                inputs = given | {"hidden_states": latents, "timestep": torch.full((2,), 1000 - 250 * step)}
                latents = latents + model(**inputs, return_dict=False)[0] / STEPS
        return latents.numpy()

    return lowering.layers, make


def test_the_sensitive_block_is_found_and_kept(sampler) -> None:  # type: ignore[no-untyped-def]
    layers, make = sampler
    found = scan(make, layers, "int4", bands=BANDS, peak=2.0)
    assert found.damage.shape == (BANDS, 3) and (found.damage > 0).all()
    assert {layer for _, layer in found.ranked()[-BANDS:]} == {1}
    everything = found.plan.with_cells(found.ranked(), "int4")
    floor = float(10 * np.log10(4 / ((make(everything) - found.reference) ** 2).mean())) + 3
    chosen = choose(found, make, floor_db=floor)
    assert chosen.best.worst_db >= floor > chosen.others["all_low"].worst_db
    assert 0 < chosen.best.low_cells < BANDS * 3
    # With as many low cells, both the folklore and its opposite are worse than what was measured.
    for other in ("outer_high", "outer_low"):
        assert chosen.others[other].low_cells == chosen.best.low_cells
        assert chosen.others[other].db <= chosen.best.db
    assert set(chosen.as_dict()["candidates"]) == {"scan", "all_low", "outer_high", "outer_low"}  # type: ignore[call-overload]
    assert chosen.best.plan.shares()["int4"] == pytest.approx(chosen.best.low_cells / (BANDS * 3))


def test_all_and_none(sampler) -> None:  # type: ignore[no-untyped-def]
    layers, make = sampler
    found = scan(make, layers, "int8", bands=1, peak=2.0)
    assert choose(found, make, floor_db=5).best.low_cells == 3
    nothing = choose(found, make, floor_db=150)
    assert nothing.best.low_cells == 0 and nothing.best.db == 200
    assert nothing.best.plan == found.plan


def test_what_is_no_number_never_passes(sampler) -> None:  # type: ignore[no-untyped-def]
    layers, make = sampler

    def broken(plan: PrecisionPlan) -> np.ndarray:  # type: ignore[type-arg]
        return make(plan) * (np.nan if "int8" in plan.shares() else 1)

    found = scan(broken, layers, "int8", bands=1)
    assert np.isinf(found.damage).all()
    assert choose(found, broken, floor_db=1).best.low_cells == 0
