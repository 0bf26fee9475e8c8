"""What comes back, in which order, and what is wrong with an input; with the bundled model and with small ones."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.vision_text.embeddings import models
from vision_text.embeddings.embedder import Embedder, EmbeddingSettings
from vision_text.embeddings.quantise import Ranges, quantised
from vision_text.embeddings.space import Space, SpaceMismatch, check_same
from vision_text.models import resolve
from workers.device import Device
from workers.errors import BackendFailed, Draining, Expired, InputInvalid, InputTooLarge
from workers.task import Lane

MINI = "all-MiniLM-L6-v2"


@pytest.fixture
def device() -> Iterator[Device]:
    device = Device("cpu")
    device.start()
    yield device
    device.close()


@pytest.fixture(scope="module")
def mini() -> Iterator[Embedder]:
    device = Device("cpu")
    device.start()
    yield asyncio.run(Embedder.start([device], EmbeddingSettings()))
    device.close()


async def small(device: Device, path: Path, **more: Any) -> Embedder:
    return await Embedder.start([device], EmbeddingSettings(models=(str(path),), **more))


def mixed(count: int, longest: int = 60) -> list[str]:
    """Texts of very different lengths, no two alike in length and words."""
    chosen = random.Random(3)
    return [" ".join(chosen.choices(models.WORDS[:11], k=1 + n * 7919 % longest)) for n in range(count)]


async def test_the_bundled_model_makes_what_sentence_transformers_makes(mini: Embedder) -> None:
    from sentence_transformers import SentenceTransformer

    texts = ["To be, or not to be", "a cat 🐈 sat", "Ünïcode ﬁ", *mixed(12, 200)]
    theirs = SentenceTransformer(str(resolve(MINI).directory), device="cpu").encode([*texts, "word " * 400])
    ours = await mini.embed(texts)
    assert ours.vectors.dtype == np.float32
    assert ((ours.vectors * theirs[:-1]).sum(1) > 0.99999).all()
    assert ours.truncated == [False] * len(texts)
    cut = await mini.embed(["word " * 400], truncate=True)
    assert cut.truncated == [True]
    assert cut.tokens == [256]
    assert (cut.vectors[0] * theirs[-1]).sum() > 0.99999


async def test_two_thousand_texts_come_back_in_order_each_as_if_alone(tmp_path: Path, device: Device) -> None:
    embedder = await small(device, models.save_sentence_model(tmp_path / "model"))
    texts = mixed(2000)
    for lane in (Lane.BULK, Lane.INTERACTIVE):
        together = (await embedder.embed(texts, lane=lane)).vectors
        some = range(0, 2000, 19)
        alone = np.concatenate([(await embedder.embed([texts[n]])).vectors for n in some])
        assert ((together[some] * alone).sum(1) > 0.9999).all()
        distinct = sorted({texts[n]: n for n in some}.values())
        own = together[distinct] @ together[distinct].T
        assert (own.argmax(1) == np.arange(len(distinct))).all()


async def test_a_bad_input_is_named_and_disturbs_no_other(mini: Embedder) -> None:
    ids = [101, 2204, 102], [2204], [101, 99999, 102], []
    inputs = ["good", "", " \n", "word " * 600, "half \ud800", *ids, "x" * 1_000_001]
    for lane in (Lane.INTERACTIVE, Lane.BULK):
        found = await mini.embed(inputs, lane=lane)
        assert sorted(found.errors) == [1, 2, 3, 4, 6, 7, 8, 9]
        for n, error in found.errors.items():
            assert error.param == f"input[{n}]"
            assert f"input[{n}]" in error.message
            assert not found.vectors[n].any()
            assert found.tokens[n] == 0
        assert isinstance(found.errors[3], InputTooLarge)
        assert isinstance(found.errors[9], InputTooLarge)
        assert "check_embedding_ctx_length" in found.errors[6].message
        np.testing.assert_allclose(found.vectors[0], found.vectors[5], atol=1e-6)  # the same text as token ids
        assert found.tokens[0] == 3


async def test_no_number_and_no_direction_are_errors_of_the_one_text(tmp_path: Path, device: Device) -> None:
    path = models.save_sentence_model(tmp_path / "model")
    weights = load_file(path / "model.safetensors")
    name = next(name for name in weights if name.endswith("word_embeddings.weight"))
    weights[name][5 + models.WORDS.index("sky")] = float("nan")
    save_file(weights, path / "model.safetensors", {"format": "pt"})
    found = await (await small(device, path)).embed(["the cat", "the sky", "a dog"])
    assert list(found.errors) == [1]
    assert isinstance(found.errors[1], BackendFailed)
    assert "input[1]" in found.errors[1].message
    assert np.isfinite(found.vectors).all()


async def test_an_input_that_breaks_a_batch_fails_alone(tmp_path: Path, device: Device) -> None:
    # Its tokeniser knows a word that the model has no row for, as with files of two models put together.
    path = models.save_sentence_model(tmp_path / "model", vocab_size=19)
    texts = ["the cat", "a dog ran", "the cats", "on the mat", "blue"]
    found = await (await small(device, path)).embed(texts)
    assert list(found.errors) == [2]
    assert found.vectors[[0, 1, 3, 4]].any(1).all()


async def test_whoever_waits_overtakes_bulk(tmp_path: Path, device: Device) -> None:
    embedder = await small(device, models.save_sentence_model(tmp_path / "model"))
    order = []

    async def run(name: str, texts: list[str], lane: Lane) -> None:
        await embedder.embed(texts, lane=lane)
        order.append(name)

    bulk = asyncio.create_task(run("bulk", mixed(3000), Lane.BULK))
    while not device.stats().queue[Lane.BULK]:
        await asyncio.sleep(0.001)
    await run("online", ["the cat"], Lane.INTERACTIVE)
    await bulk
    assert order == ["online", "bulk"]


async def test_time_and_the_end(tmp_path: Path, device: Device) -> None:
    embedder = await small(device, models.save_sentence_model(tmp_path / "model"))
    with pytest.raises(Expired):
        await embedder.embed(["the cat"], deadline=time.monotonic() - 1)
    assert (await embedder.embed([])).vectors.shape == (0, 32)
    await embedder.close()
    with pytest.raises(Draining):
        await embedder.embed(["the cat"])


async def test_fewer_bits(mini: Embedder, tmp_path: Path) -> None:
    texts = mixed(20)
    whole = (await mini.embed(texts)).vectors
    half = (await mini.embed(texts, precision="float16")).vectors
    assert half.dtype == np.float16
    np.testing.assert_allclose(half.astype(np.float32), whole, atol=1e-3)
    bits = (await mini.embed(texts, precision="binary")).vectors
    assert bits.shape == (20, 48)
    assert (np.unpackbits(bits, axis=1) == (whole > 0)).all()
    small = await mini.embed(texts, precision="int8")
    least, most = Ranges().of(384, normalised=True)
    back = (small.vectors.astype(np.float32) + 128) * (most - least) / 255 + least
    assert small.vectors.dtype == np.int8
    assert ((back * whole).sum(1) / np.linalg.norm(back, axis=1) > 0.999).all()
    measured = Ranges.measure(whole)
    measured.save(tmp_path / "ranges.npz")
    again = Ranges.read(tmp_path / "ranges.npz")
    assert again.hash(384, normalised=True) == measured.hash(384, normalised=True)
    assert again.hash(384, normalised=True) != small.space.ranges
    assert quantised(whole, small.space, again).min() == -128
    with pytest.raises(InputInvalid, match="float32, float16, int8, binary"):
        await mini.embed(texts, precision="int4")


async def test_the_model_is_named(mini: Embedder) -> None:
    assert mini.resolve(None) == mini.resolve("text-embedding-3-small") == MINI
    with pytest.raises(InputInvalid, match=MINI) as refused:
        await mini.embed(["a"], model="gpt-5")
    assert refused.value.param == "model"
    (info,) = mini.models()
    assert (info.dimensions, info.most_tokens, info.sizes) == (384, 256, ())
    with pytest.raises(InputInvalid, match="not 128"):
        mini.space(dimensions=128)


async def test_equal_lengths_of_two_models_are_not_mixed(tmp_path: Path, device: Device) -> None:
    one = await small(device, models.save_sentence_model(tmp_path / "one", seed=1))
    two = await small(device, models.save_sentence_model(tmp_path / "two", seed=2))
    stored, given = one.space(), two.space()
    assert stored.dimensions == given.dimensions
    check_same(stored, Space.from_dict(stored.to_dict()), "query")
    with pytest.raises(SpaceMismatch) as refused:
        check_same(stored, given, "query the collection 'talks'")
    for said in ("query the collection 'talks'", '"one"', '"two"', "evision", "collections migrate"):
        assert said in refused.value.message
    with pytest.raises(SpaceMismatch, match="Precision is"):
        check_same(stored, one.space(precision="binary"), "add")
    with pytest.raises(InputInvalid, match="changed by hand"):
        Space.from_dict(stored.to_dict() | {"model": "other"})
    with pytest.raises(InputInvalid, match="lacks revision"):
        Space.from_dict({name: value for name, value in stored.to_dict().items() if name != "revision"})


async def test_tasks_that_nobody_waits_for_are_cancelled(tmp_path: Path, device: Device) -> None:
    embedder = await small(device, models.save_sentence_model(tmp_path / "model"))
    waiting = asyncio.create_task(embedder.embed(mixed(3000), lane=Lane.BULK))
    while not device.stats().open:
        await asyncio.sleep(0.001)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert device.stats().queue[Lane.BULK] == 0
    assert torch.is_inference_mode_enabled() is False
