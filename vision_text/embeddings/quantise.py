"""Vectors as they were made to vectors as they were asked for: cut, normalised again, and in fewer bits."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vision_text.embeddings.space import Precision, Space
from vision_text.models import ModelUnusable
from workers.errors import InputInvalid

Floats = npt.NDArray[np.float32]

DTYPES: dict[Precision, type[np.generic]] = {
    "float32": np.float32,
    "float16": np.float16,
    "int8": np.int8,
    "binary": np.uint8,
}
SIGMAS = 4.0
"""Without a calibration, numbers of a vector of length 1 are taken to lie within so many times their mean size."""


class Ranges:
    """What int8 spans, by dimensions: (2, dimensions), least and most. None were measured unless a file says so."""

    def __init__(self, measured: dict[int, Floats] | None = None) -> None:
        self._measured = measured or {}

    @classmethod
    def read(cls, path: Path) -> Ranges:
        """A .npz of arrays named by their dimensions, as `save` writes it. Raises ModelUnusable."""
        try:
            with np.load(path, allow_pickle=False) as found:
                measured = {int(name): np.asarray(found[name], np.float32) for name in found.files}
        except (OSError, ValueError) as error:
            raise ModelUnusable(f"the ranges in {path} cannot be read: {error}") from error
        if any(ranges.shape != (2, n) or not (ranges[0] < ranges[1]).all() for n, ranges in measured.items()):
            raise ModelUnusable(f"the ranges in {path} are not (2, dimensions) of least and most")
        return cls(measured)

    def save(self, path: Path) -> None:
        np.savez(path, **{str(n): ranges for n, ranges in self._measured.items()})  # type: ignore[arg-type]

    @classmethod
    def measure(cls, vectors: Floats) -> Ranges:
        """From vectors of many texts like those to come, (texts, dimensions) in float32."""
        least, most = vectors.min(0), vectors.max(0)
        return cls({vectors.shape[1]: np.stack([least, np.maximum(most, least + 1e-6)])})

    def of(self, dimensions: int, *, normalised: bool) -> Floats:
        """Raises InputInvalid where nothing is known."""
        if dimensions in self._measured:
            return self._measured[dimensions]
        if not normalised:
            raise InputInvalid(
                f"int8 of {dimensions} dimensions needs ranges for this model, whose vectors have no common length",
                param="precision",
            )
        edge = np.full(dimensions, SIGMAS / dimensions**0.5, np.float32)
        return np.stack([-edge, edge])

    def hash(self, dimensions: int, *, normalised: bool) -> str:
        """Short name of the ranges."""
        return hashlib.sha256(self.of(dimensions, normalised=normalised).astype("<f4").tobytes()).hexdigest()[:12]


def shaped(vectors: Floats, space: Space, ranges: Ranges) -> npt.NDArray[Any]:
    """(n, whatever the model makes) in float32 to the dimensions and precision of the space.

    A row of zeros, which stands for an error, stays one.
    """
    if vectors.shape[1] != space.dimensions:
        vectors = vectors[:, : space.dimensions]
        if space.normalised:
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)
    return quantised(vectors, space, ranges)


def quantised(vectors: Floats, space: Space, ranges: Ranges) -> npt.NDArray[Any]:
    """(n, dimensions) in the precision of the space; binary has eight dimensions to a byte, the first one highest."""
    match space.precision:
        case "float32":
            return np.ascontiguousarray(vectors, np.float32)
        case "float16":
            return vectors.astype(np.float16)
        case "int8":
            least, most = ranges.of(space.dimensions, normalised=space.normalised)
            scaled: Floats = (vectors - least) * (255 / (most - least)) - 128
            return np.clip(np.rint(scaled), -128, 127).astype(np.int8)
        case "binary":
            return np.packbits(vectors > 0, axis=1)
