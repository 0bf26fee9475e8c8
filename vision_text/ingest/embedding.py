"""Between collections and what makes vectors: documents in bulk, queries at once, always in the collection's space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vision_text.embeddings.embedder import Embedder
from vision_text.embeddings.layout import DOCUMENT, QUESTION
from vision_text.embeddings.quantise import Ranges
from vision_text.embeddings.settings import EmbeddingSettings
from vision_text.embeddings.space import Space, check_same
from vision_text.ingest.pipeline import Made
from vision_text.store.scoring import Calibration, as_floats
from workers.errors import InputInvalid
from workers.task import Lane

AHEAD = 2
"""Batches at once: while one runs the next is tokenised."""


class LocalEmbeds:
    """Documents through the embedder of this process, behind everything that somebody waits for."""

    ahead = AHEAD

    def __init__(self, embedder: Embedder, space: Space) -> None:
        """`space` is the collection's. Raises InputInvalid and SpaceMismatch when the embedder cannot make it."""
        self._embedder, self.space = embedder, space
        self._asked = asked_for(embedder, space, DOCUMENT)

    async def embed(self, texts: Sequence[str]) -> Made:
        found = await self._embedder.embed(texts, **self._asked, lane=Lane.BULK)
        check_same(self.space, found.space, "store vectors")
        errors = {n: error.message.partition(": ")[2] or error.message for n, error in found.errors.items()}
        return Made(found.vectors, sum(found.tokens), errors)


async def query_vector(embedder: Embedder, stored: Space, text: str) -> tuple[NDArray[np.float32], Space]:
    """A question's vector for a collection of that space, not rounded as stored ones are.

    Raises InputInvalid when the model is not loaded, SpaceMismatch when what is loaded is another, and what `embed`
    raises.
    """
    wide = as_floats(stored)
    asked = asked_for(embedder, wide, QUESTION)
    found = await embedder.embed([text], **asked, truncate=True)
    if found.errors:
        raise found.errors[0]
    return found.vectors[0], found.space


def asked_for(embedder: Embedder, space: Space, prompts: Sequence[str]) -> dict[str, Any]:
    """What to ask an embedder for, to get vectors of a space; the first of the prompts that leads there."""
    asked: dict[str, Any] = {"model": space.model, "dimensions": space.dimensions, "precision": space.precision}
    for prompt in (*prompts, "", space.prompt):
        if embedder.space(**asked, prompt=prompt) == space:
            return {**asked, "prompt": prompt}
    check_same(space, embedder.space(**asked), f"use the model {space.model!r} that is loaded here")
    raise InputInvalid(f"{space.model} does not make vectors of this space.", param="model")


def document_space(
    embedder: Embedder, model: str | None = None, dimensions: int | None = None, precision: str = "float32"
) -> Space:
    """The space for a new collection. Raises InputInvalid."""
    plain = embedder.space(model, dimensions=dimensions, precision=precision)
    for prompt in DOCUMENT:
        found = embedder.space(model, dimensions=dimensions, precision=precision, prompt=prompt)
        if found.prompt != prompt:  # the model knows it
            return found
    return plain


def calibration(space: Space, settings: EmbeddingSettings | None = None) -> Calibration | None:
    """What an embedder of these settings makes int8 with; None for other precisions. Raises InputInvalid when that is
    something else than the space says."""
    if space.precision != "int8":
        return None
    path = next(
        (
            path
            for name, path in (settings or EmbeddingSettings()).ranges.items()
            if name.rpartition("/")[2] == space.model
        ),
        None,
    )
    ranges = Ranges.read(path) if path is not None else Ranges()
    if ranges.hash(space.dimensions, normalised=space.normalised) != space.ranges:
        raise InputInvalid(
            f"The model {space.model} makes int8 with other ranges than are known here.", param="precision"
        )
    low, high = ranges.of(space.dimensions, normalised=space.normalised)
    return Calibration(tuple(map(float, low)), tuple(map(float, high)))
