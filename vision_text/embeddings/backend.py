"""Texts on a device: the backend that the step loop calls.

A task is a *piece*: a few texts of a request with about as many tokens as fill the device's units and its cache. A step
runs as many layers of it as keep the step short, so that whoever is more urgent waits for a layer of a bulk piece and
not for the piece. On a GPU a step is the whole model.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from vision_text.embeddings.layout import Layout
from vision_text.embeddings.onnx import OnnxEncoder
from vision_text.embeddings.packed import PackedEncoder, Spans, can_pack
from vision_text.embeddings.pooling import Pooling
from vision_text.embeddings.tokens import Ids
from vision_text.embeddings.whole import WholeEncoder
from vision_text.models import ModelUnusable
from workers.backend import Demand, Done, Limits, More, Spec, StepResult
from workers.errors import BackendFailed, ServingError

log = logging.getLogger(__name__)

STEP = {"cpu": 256, "cuda": 262_144}
"""Tokens times layers in a step, about: some 5 ms of small models on two cores."""
PIECE = {"cpu": 256, "cuda": 16_384}
"""Tokens of a piece, about."""

Vectors = npt.NDArray[np.float32]


class Encoder(Protocol):
    """Tokens to vectors of tokens, in `layers` parts."""

    layers: int
    width: int
    vocabulary: int
    most_tokens: int

    def begin(self, texts: Sequence[Ids]) -> tuple[Tensor, Spans]: ...

    def run(self, x: Tensor, spans: Spans, first: int, count: int) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Texts of ascending lengths. `skipped`: tokens of each that pooling leaves out. `apart`: in steps without others,
    because somebody more urgent must not wait for them."""

    texts: tuple[Ids, ...]
    skipped: tuple[int, ...]
    apart: bool = False


@dataclass(slots=True)
class State:
    """A piece on its way: the first `layer` layers are done."""

    piece: Piece
    tokens: int
    layer: int = 0
    x: Tensor | None = None
    spans: Spans = field(default_factory=lambda: Spans([]))


class TextBackend:
    """One model of texts. Its output for a piece is a list: a vector of each text, or the error of that text."""

    def __init__(self, name: str, revision: str, layout: Layout, arithmetic: str, engine: str = "torch") -> None:
        self.spec = Spec("embedding", name, revision, arithmetic if engine == "torch" else engine)
        self.limits = Limits(items=64, cost=PIECE["cpu"], resident_bytes=_bytes(layout.transformer))
        self._layout, self._dtype, self._engine = layout, getattr(torch, arithmetic), engine
        self._step = STEP["cpu"]
        self._encoder: Encoder | None = None
        self._pooling: Pooling | None = None

    @property
    def encoder(self) -> Encoder:
        """The model; loaded."""
        assert self._encoder is not None
        return self._encoder

    @property
    def pooling(self) -> Pooling:
        """What follows it; loaded."""
        assert self._pooling is not None
        return self._pooling

    def use(self, device: str) -> None:
        """Before `add`: how large pieces and steps are there."""
        kind = device.partition(":")[0]
        self._step = STEP.get(kind, STEP["cuda"])
        self.limits = Limits(64, PIECE.get(kind, PIECE["cuda"]), self.limits.resident_bytes)

    def load(self, device: str) -> None:
        if self._encoder is None:
            encoder = _load(self._layout, self._dtype, self._engine, device)
            self._pooling = Pooling(self._layout, encoder.width, device)
            self._encoder = encoder
            self._warm()

    def _warm(self) -> None:
        longest = min(self._layout.most_tokens or 512, self.encoder.most_tokens)
        for length in sorted({1, 3, 16, min(64, longest), min(int(self.limits.cost), longest)}):
            ids = np.full(length, min(1, self.encoder.vocabulary - 1), np.int64)
            state = State(Piece((ids,), (0,)), length)
            self._advance([state], self.encoder.layers)
            self._vectors(state)

    def vector(self, ids: Ids) -> Vectors:
        """Of a single text, now and on this thread: for comparing two ways of computing, not for serving."""
        state = self.open(Piece((ids,), (0,)))
        self._advance([state], self.encoder.layers)
        with torch.inference_mode():
            assert state.x is not None
            found: Vectors = self.pooling(state.x, state.spans, (0,))[0].float().cpu().numpy()
        return found

    def check(self) -> None:
        if self._encoder is None:
            raise BackendFailed(f"{self.spec.model} is not loaded")

    def open(self, payload: Piece) -> State:
        return State(payload, sum(map(len, payload.texts)))

    def demand(self, state: State) -> Demand:
        """The bucket says which layers, so that the cost is in tokens."""
        count = self._span(state)
        return Demand((state.layer, count, state.piece.apart), state.tokens)

    def _span(self, state: State) -> int:
        """As many layers as keep the step short; the same number for pieces of about one size."""
        left = self.encoder.layers - state.layer
        count = max(1, self._step // max(1, state.tokens))
        return left if count >= left else 1 << (count.bit_length() - 1)

    def step(self, states: Sequence[State]) -> list[StepResult]:
        self._advance(states, self._span(states[0]))
        if states[0].layer < self.encoder.layers:
            return [More() for _ in states]
        return [Done(self._vectors(state)) for state in states]

    def _advance(self, states: Sequence[State], count: int) -> None:
        with torch.inference_mode():
            for state in states:
                if state.x is None:
                    state.x, state.spans = self.encoder.begin(state.piece.texts)
            spans = [state.spans for state in states]
            x = torch.cat([state.x for state in states]) if len(states) > 1 else states[0].x  # type: ignore[misc]
            x = self.encoder.run(x, Spans.together(spans), states[0].layer, count)  # type: ignore[arg-type]
            for state, part in zip(states, x.split([one.rows for one in spans]), strict=True):
                state.x = part
                state.layer += count

    def _vectors(self, state: State) -> list[Vectors | ServingError]:
        assert state.x is not None
        with torch.inference_mode():
            made = self.pooling(state.x, state.spans, state.piece.skipped).float().cpu().numpy()
        state.x = None
        return [checked(vector) for vector in made]

    def discard(self, state: State) -> None:
        state.x = None

    def close(self) -> None:
        self._encoder = self._pooling = None


def checked(vector: Vectors) -> Vectors | ServingError:
    """The vector, or what is wrong with it."""
    if not np.isfinite(vector).all():
        return BackendFailed("the model's vector of this input holds what is no number")
    if not vector.any():
        return BackendFailed("the model's vector of this input is zero, which has no direction to compare")
    return vector


def _load(layout: Layout, dtype: torch.dtype, engine: str, device: str) -> Encoder:
    if engine == "onnx":
        return OnnxEncoder(layout, device)
    if not can_pack(layout.config):
        return WholeEncoder(layout.transformer, dtype, device)
    from safetensors.torch import load_file

    weights: dict[str, Any] = {}
    for path in sorted(layout.transformer.glob("*.safetensors")):
        weights |= load_file(path)
    try:
        return PackedEncoder(layout.config, weights, dtype, device)
    except KeyError as error:
        raise ModelUnusable(f"{layout.transformer}: its weights hold no {error}") from error


def _bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.safetensors"))
