"""Models of texts on trial: arithmetic and engine, and what vectors are kept as, against float32 with torch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from vision_text.embeddings.backend import Piece, TextBackend
from vision_text.embeddings.layout import read_layout
from vision_text.embeddings.linear import Packed, Plain
from vision_text.embeddings.quantise import Ranges, shaped
from vision_text.embeddings.space import Space
from vision_text.embeddings.tokens import Ids, Tokeniser
from vision_text.models import resolve
from workers.gate.helping import answers, cancelled, count_calls, running_on
from workers.gate.subject import Floats, Option, Run, Settings
from workers.gate.texts import sentences

Vector = np.ndarray[Any, np.dtype[Any]]


class EmbeddingSubject:
    """Options: "arithmetic" "bfloat16", "engine" "onnx", "precision" of vectors, "dimensions" they are cut to."""

    modality = "embeddings"

    def __init__(self, model: str, *, allow_download: bool = False) -> None:
        self._found = resolve(model, allow_download=allow_download)
        self.name = self._found.name
        self._layout = read_layout(self._found.directory)
        self._backends: dict[tuple[str, str], TextBackend] = {}
        self._counts: Counter[str] = Counter()
        first = self._backend({})
        most = min(self._layout.most_tokens or first.encoder.most_tokens, first.encoder.most_tokens)
        self._tokeniser = Tokeniser(self._layout.transformer, most, first.encoder.vocabulary)
        self._width = first.pooling.width

    def identity(self) -> Mapping[str, str]:
        return identity_of(self.name)

    def options(self) -> Sequence[Option]:
        engines = [Option("engine", "onnx")] if _has_onnx(self._layout.transformer) else []
        kept = [Option("precision", one, gains="bytes") for one in ("float16", "int8", "binary")]
        cuts = [Option("dimensions", n, gains="bytes") for n in (self._width // 2, self._width // 4)]
        harm = Option("dimensions", 8, harmful=True, gains="bytes")
        return [Option("arithmetic", "bfloat16"), *engines, *kept, *cuts, harm]

    def items(self, n: int, seed: int) -> Sequence[str]:
        return sentences(n, seed)

    def run(self, settings: Settings, items: Sequence[str]) -> Run:
        backend = self._backend(settings)
        space = self._space(settings)
        self._counts.clear()
        outputs, seconds = [], []
        for ids in self._tokens(items):
            began = time.perf_counter()
            found = answers(backend, [Piece((ids,), (0,))])[0][0]
            vector = shaped(np.asarray(found, np.float32)[None], space, Ranges())[0]
            seconds.append(time.perf_counter() - began)
            outputs.append(vector)
            self._counts[f"vectors of {vector.dtype}"] += 1
            self._counts["bytes"] += vector.nbytes
        held = np.array([vector.nbytes for vector in outputs], np.float64)
        return Run(outputs, np.array(seconds), self._counts.copy(), held)

    def score(
        self, reference: Sequence[Vector], candidate: Sequence[Vector], items: Sequence[str]
    ) -> Mapping[str, Floats]:
        """Nearness of every text to all others: its order must stay, and for whole vectors their direction."""
        exact, found = _directions(reference), _directions(candidate)
        near, theirs = exact @ exact.T, found @ found.T
        np.fill_diagonal(near, -2)
        np.fill_diagonal(theirs, -2)
        rows = np.arange(len(items))
        kept = near[rows, theirs.argmax(1)] >= near.max(1) - 0.002
        scores = {"neighbour": kept.astype(np.float64)}
        if exact.shape == found.shape and candidate[0].dtype == np.float32:
            scores["cosine"] = (exact * found).sum(1)
        return scores

    def control(self, seconds_per_item: float) -> Settings | None:
        return None  # fewer dimensions are an option themselves, and there is no smaller model at hand

    def isolation(self, settings: Settings) -> list[str]:
        """Alone, among others of other lengths, and after one that was dropped."""
        backend = self._backend(settings)
        ids = self._tokens(["Rain.", *self.items(3, 99), " ".join(self.items(5, 98))])
        pieces = [Piece((one,), (0,)) for one in ids]
        alone = [answers(backend, [one])[0][0] for one in pieces]
        among = [found[0] for found in answers(backend, pieces)]
        leaks = []
        if not all(_near(a, b) for a, b in zip(alone, among, strict=True)):
            leaks.append("another vector among others than alone")
        cancelled(backend, pieces[0], 1)
        if not _near(answers(backend, pieces[1:2])[0][0], alone[1]):
            leaks.append("another vector after a request that was dropped")
        return leaks

    def show(self, output: Vector) -> str:
        return f"{len(output)} numbers in {output.nbytes} bytes"

    def caption(self, item: str) -> str:
        return item

    def _tokens(self, texts: Sequence[str]) -> list[Ids]:
        return [self._tokeniser.cut(ids) for ids in self._tokeniser.encode(list(texts))]

    def _space(self, settings: Settings) -> Space:
        dimensions = settings.get("dimensions", self._width)
        assert isinstance(dimensions, int)
        precision: Any = settings.get("precision", "float32")
        return Space(self.name, self._found.revision, "", "", True, dimensions, precision)

    def _backend(self, settings: Settings) -> TextBackend:
        key = str(settings.get("arithmetic", "float32")), str(settings.get("engine", "torch"))
        if key not in self._backends:
            torch.set_num_threads(1)
            made = TextBackend(self.name, self._found.revision, self._layout, *key)
            made.load("cpu")
            count_calls(made, (Packed, Plain), self._counts)
            self._backends[key] = made
        return self._backends[key]


def identity_of(name: str) -> dict[str, str]:
    """Of a model as it is now, told from files: the same when it is tuned and before it is served. Raises
    ModelUnusable."""
    versions = running_on("cpu", ("torch", "numpy", "onnxruntime", "tokenizers", "speechlane"))
    return {"weights": resolve(name).revision, **versions}


def _directions(vectors: Sequence[Vector]) -> Floats:
    if vectors[0].dtype == np.uint8:
        stacked = np.unpackbits(np.stack(vectors), axis=1).astype(np.float64) * 2 - 1
    else:
        stacked = np.stack(vectors).astype(np.float64)
    found: Floats = stacked / np.maximum(np.linalg.norm(stacked, axis=1, keepdims=True), 1e-12)
    return found


def _near(a: Any, b: Any) -> bool:
    return bool(np.abs(np.asarray(a) - np.asarray(b)).max() <= 1e-5)


def _has_onnx(folder: Any) -> bool:
    return any((folder / place).is_file() for place in ("onnx/model.onnx", "model.onnx"))
