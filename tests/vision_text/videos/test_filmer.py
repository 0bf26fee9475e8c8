"""Clips through the step loop: the same for the same seed, with every option counted, measured and scanned."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import pytest_asyncio

from tests.vision_text.videos import untrained
from vision_text.denoise.loading import read_pipeline
from vision_text.denoise.request import Asked, Made, Preview
from vision_text.media.encode import clip_file
from vision_text.models import ModelUnusable
from vision_text.numerics.plan import PrecisionPlan
from vision_text.scenes.clips import FRAMES, SIZE
from vision_text.videos.backend import FilmBackend
from vision_text.videos.decoding import ClipAdapter
from vision_text.videos.filmer import Filmer
from vision_text.videos.precision import find_plan, table
from vision_text.videos.share import share_of_attention
from vision_text.videos.share import table as share_table
from workers.backend import Done, More
from workers.device import Device
from workers.errors import InputInvalid

ASKED = Asked("a red ball goes right", width=SIZE, height=SIZE, frames=FRAMES, steps=4, guidance=3.0, seed=5)
BLOCKS = 4


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained.write(tmp_path_factory.mktemp("films"))


@pytest.fixture(scope="module")
def backend(directory: Path) -> Iterator[FilmBackend]:
    made = FilmBackend("video", *read_pipeline(str(directory)))
    made.load("cpu")
    yield made
    made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filmer(directory: Path) -> AsyncIterator[Filmer]:
    device = Device("cpu:films")
    device.start()
    made = await Filmer.start(str(directory), [device])
    yield made
    await made.close()
    device.close()


def film(backend: FilmBackend, asked: Asked, **options: Any) -> Made:
    made = backend.run(replace(asked, options=options))[-1]
    assert isinstance(made, Made)
    return made


@pytest.mark.asyncio(loop_scope="module")
async def test_a_clip_with_previews_becomes_a_file_that_plays(filmer: Filmer) -> None:
    assert filmer.info.default_frames == FRAMES and filmer.info.default_size == (SIZE, SIZE)
    outputs = [output async for output in filmer.make(replace(ASKED, previews=1))]
    assert [type(output) for output in outputs] == [Preview, Made]
    made = outputs[-1]
    assert isinstance(made, Made)
    assert made.frames.shape == (FRAMES, SIZE, SIZE, 3) and made.frames.dtype == np.uint8
    assert made.approximation.evaluations == 8 and made.approximation.skipped == 0
    assert made.approximation.options == {} and made.approximation.precision == "float32"
    with av.open(io.BytesIO(clip_file(made.frames, 8.0))) as container:
        seen = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(seen) == FRAMES


@pytest.mark.asyncio(loop_scope="module")
async def test_a_clip_is_the_same_alone_beside_others_and_after_one_that_was_given_up(filmer: Filmer) -> None:
    alone = await filmer.made(ASKED)
    cached = replace(ASKED, seed=6, steps=6, options={"step_cache": ("first_block", 0.2)})
    async for output in filmer.make(replace(cached, previews=3)):
        assert isinstance(output, Preview)
        break  # which closes it, in the middle of its steps
    others = [filmer.made(cached), filmer.made(replace(ASKED, seed=7, steps=2, options={"precision": "int8"}))]
    made, *_ = await asyncio.gather(filmer.made(ASKED), *others)
    assert np.array_equal(made.frames, alone.frames)
    backend = filmer.backends[0]
    assert backend.held() == set() and isinstance(backend, FilmBackend) and not backend._decodings


@pytest.mark.asyncio(loop_scope="module")
async def test_what_cannot_be_is_refused_by_name(filmer: Filmer) -> None:
    for wrong, param in (
        (replace(ASKED, width=SIZE + 1), "width"),
        (replace(ASKED, frames=FRAMES + 1), "frames"),
        (replace(ASKED, options={"attention_precision": "int1"}), "options.attention_precision"),
        (replace(ASKED, options={"parallel": "ulysses"}), "options.parallel"),
        (replace(ASKED, options={"precision": {"layers": ["a"], "edges": [0, 1], "formats": [["fp9"]]}}),
         "options.precision"),
    ):  # fmt: skip
        with pytest.raises(InputInvalid) as refused:
            await filmer.made(wrong)
        assert refused.value.param == param


@pytest.mark.asyncio(loop_scope="module")
async def test_a_model_of_pictures_is_no_filmer() -> None:
    with pytest.raises(ModelUnusable, match="FluxPipeline"):
        await Filmer.start("shapes-image", [Device("cpu:none")])


def test_pixels_come_in_parts_and_are_those_of_the_whole(backend: FilmBackend) -> None:
    state = backend.open(ASKED)
    while state.phase != "decode":
        assert isinstance(backend.step([state])[0], More)
    whole = super(ClipAdapter, backend.adapter).decode(state.latents, ASKED)  # type: ignore[misc, arg-type]
    results = [backend.step([state])[0]]
    while isinstance(results[-1], More):
        results.append(backend.step([state])[0])
    assert len(results) == FRAMES // 2  # the autoencoder takes two frames of latents after two
    assert isinstance(results[-1], Done) and np.array_equal(results[-1].output.frames, whole)
    backend.discard(state)
    # Frames that do not come out even, fewer than a part, and one that was given up half way.
    for frames in (1, 3, 5):
        assert film(backend, replace(ASKED, frames=frames)).frames.shape[0] == frames
    given_up = backend.open(replace(ASKED, steps=1))
    while not backend._decodings:
        backend.step([given_up])
    backend.discard(given_up)
    assert not backend._decodings


def test_options_of_numbers_take_effect_and_are_stated(backend: FilmBackend) -> None:
    exact = film(backend, ASKED)
    assert np.array_equal(exact.frames, film(backend, ASKED).frames)
    for options, effect in (
        ({"precision": "int8"}, "linear.int8 (emulated)"),
        ({"precision": "mxfp8"}, "linear.mxfp8 (emulated)"),
        ({"attention_precision": "int8"}, "attention.int8 (emulated)"),
        ({"attention_precision": "fp8"}, "attention.fp8 (emulated)"),
    ):
        backend.counters.clear()
        made = film(backend, ASKED, **options)
        assert backend.counters[effect] >= 4 * BLOCKS, options
        assert not np.array_equal(made.frames, exact.frames)
        assert np.abs(made.frames.astype(int) - exact.frames).mean() < 8
        stated = made.approximation.as_dict()
        assert "(emulated)" in stated["precision"] + stated["kernel"] and stated["options"] == options
        again = film(backend, replace(ASKED, exact=True), **options)
        assert np.array_equal(again.frames, exact.frames)


def test_a_plan_is_followed_step_by_step(backend: FilmBackend) -> None:
    layers = tuple(f"transformer_blocks.{n}" for n in range(BLOCKS))
    plan = PrecisionPlan.uniform("float32", layers, 2).with_cells([(1, 0), (1, 2)], "int8")
    backend.counters.clear()
    film(backend, ASKED, precision="int8")
    whole = backend.counters["linear.int8 (emulated)"]
    backend.counters.clear()
    made = film(backend, ASKED, precision=plan.as_dict())
    # Two of four blocks in the second half of the steps: a quarter.
    assert backend.counters["linear.int8 (emulated)"] * 4 == whole
    assert made.approximation.precision == "75% float32, 25% int8 (emulated)"


def test_a_scan_of_clips_gives_a_plan_that_keeps_its_floor(backend: FilmBackend) -> None:
    asked = [replace(ASKED, steps=2, seed=seed) for seed in range(2)]
    found, chosen = find_plan(backend, asked, "int4", bands=2, floor_db=34)
    assert found.damage.shape == (2, BLOCKS)
    assert chosen.best.worst_db >= 34
    lines = table(found, chosen).splitlines()
    assert lines[3].strip().startswith("scan")
    made = film(backend, asked[0], precision=chosen.best.plan)
    exact = film(backend, asked[0])
    error = ((made.frames / 255.0 - exact.frames / 255.0) ** 2).mean()
    assert error == 0 or 10 * np.log10(1 / error) >= 34


def test_attention_s_share_grows_with_length_and_resolution(backend: FilmBackend) -> None:
    model = backend.pipeline.transformer
    small, large = share_of_attention(model, 4, 12, 12, repeats=1), share_of_attention(model, 16, 48, 48, repeats=1)
    assert (small.tokens, large.tokens) == (4 * 9 + 8, 16 * 144 + 8)
    assert 0 < small.product < small.attention < 1
    assert small.product < large.product < large.attention < 1
    assert "16 x 48 x 48" in share_table([small, large])
    assert not any(module._forward_hooks for module in model.modules())
