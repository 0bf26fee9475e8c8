"""Two processes make what one makes, say how much they told each other, and end with a reason."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.vision_text.numerics import small
from tests.vision_text.videos import untrained
from vision_text.denoise.request import Asked, Made
from vision_text.parallel.context import ContextAttention, enable_context_parallel, obstacle, tokens_of
from vision_text.parallel.group import Group
from vision_text.parallel.member import load_transformer, steadied
from vision_text.scenes.clips import FRAMES, SIZE
from vision_text.videos.backend import FilmBackend
from vision_text.videos.filmer import Filmer
from workers.device import Device
from workers.errors import BackendDead, InputInvalid

ASKED = Asked("a red ball goes right", width=SIZE, height=SIZE, frames=FRAMES, steps=3, guidance=3.0, seed=5)
ROWS, TEXT, WIDTH, LAYERS, TOKENS, OUT = 2, 8, 96, 4, FRAMES * 9, 4 * 4 * 4
"""Of the pipeline and of a call with both branches; OUT numbers come of a token."""


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilmBackend]:
    """One group for all tests: its processes take longer to start than everything else here. It is what a model has
    that is placed on a group of devices."""
    directory = untrained.write(tmp_path_factory.mktemp("films"))
    filmer = Filmer._start(str(directory), [Device("cpu:0+cpu:1", "cpu+cpu")], {}, False)
    made = filmer.backends[0]
    assert isinstance(made, FilmBackend)
    yield made
    made.close()


@pytest.fixture(scope="module")
def group(backend: FilmBackend) -> Group:
    assert backend.group is not None
    return backend.group


@pytest.fixture(scope="module")
def model(backend: FilmBackend) -> Any:
    return steadied(load_transformer(str(backend.found.directory / "transformer")))


def inputs() -> dict[str, Any]:
    made = torch.Generator().manual_seed(1)
    return {
        "hidden_states": torch.randn(ROWS, FRAMES, 4, SIZE // 2, SIZE // 2, generator=made),
        "encoder_hidden_states": torch.randn(ROWS, TEXT, 64, generator=made),
        "timestep": torch.full((ROWS,), 500),
        "image_rotary_emb": None,
    }


def alone(model: Any, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.inference_mode():
        made: torch.Tensor = model(**inputs, return_dict=False)[0]
    return made


def film(backend: FilmBackend, asked: Asked, **options: Any) -> Made:
    made = backend.run(replace(asked, options=options))[-1]
    assert isinstance(made, Made)
    return made


def test_each_branch_on_a_rank_of_its_own_gives_what_one_process_gives_bit_for_bit(group: Group, model: Any) -> None:
    evaluated = group.evaluate("guidance", **inputs())
    assert torch.equal(evaluated.made, alone(model, inputs()))
    assert len(evaluated.seconds) == 2 and all(seconds > 0 for seconds in evaluated.seconds)
    # What one rank has made goes to the other, once each way.
    assert evaluated.sent == {"all_gather": evaluated.made.nbytes} and evaluated.calls == {"all_gather": 1}


def test_a_context_over_two_ranks_gives_what_one_gives(group: Group, model: Any) -> None:
    evaluated = group.evaluate("ulysses", **inputs())
    # Not bit for bit: keys come to a rank in another order, and so does what is summed over them.
    assert torch.allclose(evaluated.made, alone(model, inputs()), atol=5e-6, rtol=0)
    assert torch.equal(evaluated.made, group.evaluate("ulysses", **inputs()).made)
    one = {name: None if value is None else value[:1] for name, value in inputs().items()}
    assert torch.allclose(group.evaluate("ulysses", **one).made, alone(model, one), atol=5e-6, rtol=0)


def test_what_is_said_is_what_the_method_says_must_be(group: Group) -> None:
    """Four exchanges in each block (queries, keys, values, results), of which half stays at home on each of two ranks,
    and one gathering of the result's tokens."""
    assert tokens_of(group.config, inputs()["hidden_states"]) == TOKENS
    sent = group.evaluate("ulysses", **inputs()).sent
    exchanged = 2 * LAYERS * 4 * (ROWS * (TEXT + TOKENS) // 2 * WIDTH * 4) // 2
    assert sent == {"all_to_all": exchanged, "all_gather": ROWS * TOKENS * OUT * 4}


def test_a_clip_by_a_group_is_the_clip_by_one(backend: FilmBackend) -> None:
    by_one = film(backend, ASKED, parallel="none")
    backend.counters.clear()
    made = film(backend, ASKED)  # as the model was started
    assert np.array_equal(made.frames, by_one.frames)
    assert made.approximation.evaluations == by_one.approximation.evaluations == 6
    assert made.approximation.options == {"parallel": "guidance"}
    latents = FRAMES * 4 * (SIZE // 2) ** 2 * 4
    assert backend.counters["parallel.guidance"] == 3
    assert backend.counters["exchanged.all_gather"] == 3 * ROWS * latents
    by_context = film(backend, ASKED, parallel="ulysses")
    assert np.abs(by_context.frames.astype(int) - by_one.frames).max() <= 1
    assert backend.counters["parallel.ulysses"] == 3


def test_where_guidance_is_off_there_is_nothing_to_share(backend: FilmBackend) -> None:
    backend.counters.clear()
    made = film(backend, ASKED, guidance_interval=(0.0, 0.5))
    assert made.approximation.evaluations == 5 and made.approximation.skipped == 1
    assert backend.counters["parallel.guidance"] == 2
    assert np.array_equal(made.frames, film(backend, ASKED, guidance_interval=(0.0, 0.5), parallel="none").frames)


def test_what_cannot_be_shared_is_refused_before_anybody_is_asked(backend: FilmBackend, group: Group) -> None:
    odd = inputs()
    odd["encoder_hidden_states"] = odd["encoder_hidden_states"][:, :7]
    with pytest.raises(InputInvalid, match="7 tokens of text") as refused:
        group.evaluate("ulysses", **odd)
    assert refused.value.param == "parallel"
    one = {name: None if value is None else value[:1] for name, value in inputs().items()}
    with pytest.raises(InputInvalid, match="as many rows, not 1"):
        group.evaluate("guidance", **one)
    assert "3 heads" in str(obstacle({"num_attention_heads": 3}, text=8, tokens=128, ranks=2))
    for options, param in (
        ({"step_cache": ("first_block", 0.1)}, "options.parallel"),
        ({"precision": "int8"}, "options.parallel"),
        ({"attention_precision": "int8"}, "options.parallel"),
        ({"branches": "apart"}, "options.branches"),
    ):
        with pytest.raises(InputInvalid) as combined:
            film(backend, ASKED, **options)
        assert combined.value.param == param
    with pytest.raises(InputInvalid, match="9 tokens cannot be shared"):
        film(backend, replace(ASKED, frames=1), parallel="ulysses")
    with pytest.raises(ValueError, match="Ulysses alone"):
        enable_context_parallel(small.cogvideox(), ring=2)
    assert group.evaluate("guidance", **inputs()).made.isfinite().all()


def test_a_rank_that_dies_ends_the_group_and_not_the_clip(backend: FilmBackend, group: Group) -> None:
    """Runs last: the group is over after it."""
    by_one = film(backend, ASKED, parallel="none")
    process = group._members[1][0]
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    made = film(backend, ASKED)
    assert np.array_equal(made.frames, by_one.frames)
    assert backend.counters["groups_lost"] == 1 and backend.group is None
    assert not any(member.is_alive() for member, _ in group._members)
    with pytest.raises(BackendDead, match=r"the group of 2 ranks is over"):
        group.evaluate("guidance", **inputs())
    group.close()


@pytest.mark.parametrize("rotary", [False, True])
def test_attention_that_can_be_split_is_the_class_s_own_where_it_is_not(rotary: bool) -> None:
    model, given = small.cogvideox(), small.inputs()
    if rotary:
        angles = torch.rand(8 * 16, 24, generator=torch.Generator().manual_seed(2))
        given["image_rotary_emb"] = angles.cos(), angles.sin()
    own = alone(model, given)
    model.set_attn_processor(ContextAttention())
    assert torch.allclose(alone(model, given), own, atol=2e-6, rtol=0)


def test_only_models_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"_class_name": "DiffusionPipeline"}))
    with pytest.raises(ValueError, match="no model of the class"):
        load_transformer(str(tmp_path))
