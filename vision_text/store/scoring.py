"""Numbers about vectors that every store needs: what may be stored, quantised scores, two rankings made one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vision_text.embeddings.space import Space
from workers.errors import InputInvalid

Vectors = NDArray[Any]
"""[n, d] float32 or float16, [n, d] int8, or [n, d / 8] uint8 (packed bits), by the precision of their space."""

_TYPES = {"float32": np.float32, "float16": np.float16, "int8": np.int8, "binary": np.uint8}
_FUSION = 60.0
"""The constant of reciprocal rank fusion: how much the first places matter more than the next."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What int8 was calibrated with: the least and the greatest value of each dimension."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def floats(self, codes: Vectors) -> NDArray[np.float32]:
        """Values of int8 codes, which divide each range evenly."""
        low, high = np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)
        return low + (codes.astype(np.float32) + 128.0) * ((high - low) / 255.0)


def width(space: Space) -> int:
    """Numbers (for binary: bytes) of a vector as it is stored."""
    return space.dimensions // 8 if space.precision == "binary" else space.dimensions


def as_floats(space: Space) -> Space:
    """The space of the query for vectors that are stored in less precision: the same but for that."""
    return replace(space, precision="float32", ranges="")


def check_vectors(vectors: Vectors, space: Space, rows: int) -> Vectors:
    """The vectors as they are stored. Raises InputInvalid, naming the first that is of no use."""
    wanted = (rows, width(space))
    if vectors.shape != wanted:
        raise InputInvalid(
            f"The vectors have the shape {list(vectors.shape)}, where {list(wanted)} is needed.", param="vectors"
        )
    if space.precision in ("float32", "float16"):
        found = np.ascontiguousarray(vectors, _TYPES[space.precision])
        lengths = np.linalg.norm(found.astype(np.float32), axis=1)
        bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
        if bad.size:
            raise InputInvalid(
                f"Vector {bad[0]} is zero or not finite, so it is close to nothing; embed its text again.",
                param="vectors",
            )
        return found
    if vectors.dtype != _TYPES[space.precision]:
        raise InputInvalid(f"Vectors of {space.precision} are {_TYPES[space.precision].__name__}.", param="vectors")
    return np.ascontiguousarray(vectors)


def floats_of(vectors: Vectors, space: Space, ranges: Calibration | None) -> NDArray[np.float32]:
    """Stored vectors as numbers again; bits count as -1 and 1."""
    if space.precision == "binary":
        return np.unpackbits(vectors, axis=1)[:, : space.dimensions].astype(np.float32) * 2.0 - 1.0
    if space.precision == "int8":
        if ranges is None:
            raise InputInvalid("The collection does not know what its int8 vectors were calibrated with.")
        return ranges.floats(vectors)
    return vectors.astype(np.float32)


def signs(floats: NDArray[np.float32]) -> NDArray[np.uint8]:
    """One bit for each number, packed: whether it is positive."""
    return np.packbits(floats > 0, axis=-1)


def similarities(query: NDArray[np.float32], floats: NDArray[np.float32]) -> NDArray[np.float32]:
    """The cosine of the angle to each row."""
    lengths = np.linalg.norm(floats, axis=1) * np.linalg.norm(query)
    found: NDArray[np.float32] = (floats @ query) / np.maximum(lengths, 1e-12)
    return found


class Best:
    """The best of many, seen block by block."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._ids: list[str] = []
        self._scores = np.zeros(0, np.float32)

    def see(self, ids: Sequence[str], scores: NDArray[np.float32]) -> None:
        every = np.concatenate([self._scores, scores])
        names = [*self._ids, *ids]
        some = np.argpartition(-every, self._most)[: self._most] if len(every) > self._most else np.arange(len(every))
        best = some[np.argsort(-every[some], kind="stable")]
        self._ids, self._scores = [names[n] for n in best], every[best]

    @property
    def found(self) -> dict[str, float]:
        return dict(zip(self._ids, map(float, self._scores), strict=True))


def fuse(*rankings: Iterable[str]) -> dict[str, float]:
    """One score by id out of several rankings, the best first: reciprocal rank fusion, which needs no common scale."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, id in enumerate(ranking, 1):
            scores[id] = scores.get(id, 0.0) + 1.0 / (_FUSION + rank)
    return dict(sorted(scores.items(), key=lambda one: -one[1]))
