"""The numbers are those that sentence-transformers and transformers make of the same files."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sentence_transformers import CrossEncoder, SentenceTransformer

from tests.vision_text.embeddings import models
from vision_text.embeddings.embedder import Embedded, Embedder, EmbeddingSettings, Picture
from vision_text.embeddings.fidelity import require_faithful
from vision_text.models import ModelUnusable
from workers.device import Device
from workers.errors import InputInvalid, InputTooLarge

TEXTS = ["the cat sat on the mat", "a dog ran", "blue", "the blue sky . the blue sky . the dog sat on the cats"]


@pytest.fixture
def device() -> Iterator[Device]:
    device = Device("cpu")
    device.start()
    yield device
    device.close()


async def started(device: Device, path: Path, **more: Any) -> Embedder:
    return await Embedder.start([device], EmbeddingSettings(models=(str(path),), **more))


def embed(device: Device, path: Path, texts: Sequence[Any] = TEXTS, **how: Any) -> Embedded:
    async def run() -> Embedded:
        return await (await started(device, path)).embed(texts, **how)

    return asyncio.run(run())


def cosines(ours: Any, theirs: Any) -> Any:
    return (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)


@pytest.mark.parametrize(
    ("kind", "pooling", "more"),
    [
        ("bert", "mean", {}),
        ("bert", "cls", {"hidden_act": "gelu_new"}),
        ("roberta", "mean", {}),
        ("xlm-roberta", "lasttoken", {"normalise": False}),
        ("bert", "max", {"dense": 16}),
        ("bert", "mean", {"hidden_act": "relu"}),  # not one that is packed here: as transformers computes it
        ("mpnet", "mean", {}),
        ("distilbert", "cls", {}),
        ("modernbert", "mean", {}),
    ],
)
def test_vectors_are_those_of_sentence_transformers(
    tmp_path: Path, device: Device, kind: str, pooling: str, more: dict[str, Any]
) -> None:
    path = models.save_sentence_model(tmp_path / "model", kind, pooling, **more)
    theirs = SentenceTransformer(str(path), device="cpu").encode(TEXTS)
    ours = embed(device, path).vectors
    assert cosines(ours, theirs).min() > 0.99999
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_prompts_are_put_before_texts_and_left_out_of_the_mean_where_the_model_says_so(
    tmp_path: Path, device: Device
) -> None:
    prompts = {"query": "query : ", "document": "passage : "}
    path = models.save_sentence_model(tmp_path / "model", prompts=prompts, include_prompt=False)
    theirs = SentenceTransformer(str(path), device="cpu").encode(TEXTS, prompt_name="query")

    async def run() -> tuple[Embedded, list[str]]:
        embedder = await started(device, path)
        prompts = ("query", "document", "", "blue : ")
        return await embedder.embed(TEXTS, prompt="query"), [embedder.space(prompt=p).fingerprint for p in prompts]

    found, fingerprints = asyncio.run(run())
    assert cosines(found.vectors, theirs).min() > 0.99999
    query, document, bare, other = fingerprints
    assert query == document
    assert len({query, bare, other}) == 3


def test_vectors_are_cut_only_to_sizes_that_the_model_was_trained_for(tmp_path: Path, device: Device) -> None:
    path = models.save_sentence_model(tmp_path / "model", sizes=(8, 16))

    async def run() -> tuple[Embedder, Embedded, Embedded]:
        embedder = await started(device, path)
        return embedder, await embedder.embed(TEXTS), await embedder.embed(TEXTS, dimensions=8)

    embedder, whole, cut = asyncio.run(run())
    assert cut.vectors.shape == (4, 8)
    np.testing.assert_allclose(np.linalg.norm(cut.vectors, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(cosines(cut.vectors, whole.vectors[:, :8]), 1, rtol=1e-5)
    with pytest.raises(InputInvalid, match="8, 16, 32 dimensions, not 12") as refused:
        embedder.space(dimensions=12)
    assert refused.value.param == "dimensions"


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_texts_and_pictures_share_a_space(tmp_path: Path, device: Device, kind: str) -> None:
    path = models.save_clip(tmp_path / "model", kind)
    noise = np.random.default_rng(0).integers(0, 255, (40, 50, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "PNG")
    picture = Picture(buffer.getvalue())
    found = embed(device, path, ["the cat", picture, "a dog sat", picture, Picture(b"none")])
    assert list(found.errors) == [4]
    assert found.errors[4].param == "input[4]"
    np.testing.assert_allclose(found.vectors[1], found.vectors[3], atol=1e-6)

    import transformers

    model = transformers.AutoModel.from_pretrained(path).eval()
    tokeniser = transformers.AutoTokenizer.from_pretrained(path)
    processor = transformers.AutoImageProcessor.from_pretrained(path)
    with torch.inference_mode():
        padding = {"padding": "max_length", "max_length": 16} if kind == "siglip" else {}
        ids = tokeniser("the cat", return_tensors="pt", **padding)["input_ids"]
        text = model.get_text_features(input_ids=ids)
        image = model.get_image_features(**processor(images=Image.fromarray(noise), return_tensors="pt"))
    for theirs, ours in ((text, found.vectors[0]), (image, found.vectors[1])):
        vector = getattr(theirs, "pooler_output", theirs)[0].numpy()
        assert cosines(ours[None], vector[None])[0] > 0.99999


def test_a_cross_encoder_scores_as_sentence_transformers_does(tmp_path: Path, device: Device) -> None:
    path = models.save_reranker(tmp_path / "ranker")
    encoder = models.save_sentence_model(tmp_path / "model")

    async def run() -> Any:
        settings = EmbeddingSettings(models=(str(encoder),), rerankers=(str(path),))
        embedder = await Embedder.start([device], settings)
        return await embedder.rerank("the cat", [*TEXTS, "cat " * 100]), embedder

    ranked, embedder = asyncio.run(run())
    theirs = CrossEncoder(str(path), device="cpu").predict([("the cat", text) for text in TEXTS])
    np.testing.assert_allclose(ranked.scores[:4], theirs, atol=1e-5)
    assert ranked.method == "cross-encoder"
    assert ranked.truncated == [4]
    with pytest.raises(InputTooLarge, match=r"documents\[0\]"):
        asyncio.run(embedder.rerank("the cat", ["cat " * 100], truncate=False))


def test_what_cannot_be_computed_is_not_loaded(tmp_path: Path, device: Device) -> None:
    with pytest.raises(ModelUnusable, match="no directory"):
        embed(device, tmp_path / "none")
    with pytest.raises(ModelUnusable, match="weights"):
        (tmp_path / "empty").mkdir()
        embed(device, tmp_path / "empty")
    path = models.save_sentence_model(tmp_path / "model")
    text = (path / "1_Pooling" / "config.json").read_text()
    (path / "1_Pooling" / "config.json").write_text(text.replace("mean", "weightedmean"))
    with pytest.raises(ModelUnusable, match="weightedmean"):
        embed(device, path)


def test_bfloat16_finds_the_same_in_the_bundled_model() -> None:
    async def vectors(model: str, arithmetic: Any) -> Any:
        device = Device("cpu")
        device.start()
        try:
            embedder = await Embedder.start([device], EmbeddingSettings(models=(model,), arithmetic=arithmetic))
            return (await embedder.embed(TEXTS)).vectors
        finally:
            device.close()

    exact, fast = (asyncio.run(vectors("all-MiniLM-L6-v2", kind)) for kind in ("float32", "bfloat16"))
    assert 0.999 < cosines(exact, fast).min() < 1
    assert (exact != fast).any()


def test_what_changes_directions_or_neighbours_is_refused() -> None:
    numbers = np.random.default_rng(0)
    texts = [np.array([n]) for n in range(40)]
    exact = numbers.normal(size=(40, 64)).astype(np.float32)

    def noisy(size: float) -> Any:
        return lambda ids: exact[ids[0]] + size * numbers.normal(size=64).astype(np.float32)

    assert require_faithful("a model", texts, lambda ids: exact[ids[0]], noisy(0.01)) > 0.999
    for size in (0.1, float("nan")):
        with pytest.raises(ModelUnusable, match="a model is refused: against float32"):
            require_faithful("a model", texts, lambda ids: exact[ids[0]], noisy(size))


def test_onnx_makes_the_same_or_is_refused(tmp_path: Path, device: Device) -> None:
    path = models.save_sentence_model(tmp_path / "model")
    with pytest.raises(ModelUnusable, match=r"has no onnx/model\.onnx"):
        asyncio.run(started(device, path, engine="onnx"))
    models.export_onnx(path)

    async def run(**more: Any) -> Any:
        device = Device("cpu")
        device.start()
        try:
            return (await (await started(device, path, **more)).embed(TEXTS)).vectors
        finally:
            device.close()

    assert cosines(asyncio.run(run(engine="onnx")), asyncio.run(run())).min() > 0.99999
    models.export_onnx(models.save_encoder(tmp_path / "other", seed=5), path / "onnx" / "model.onnx")
    with pytest.raises(ModelUnusable, match="model with onnx is refused"):
        asyncio.run(run(engine="onnx"))
