"""Pictures on a device: a task is one picture or clip, a step one tile or pair of frames of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vision_text.vlm.family import Unit
from vision_text.vlm.loading import Loaded, Weights
from vision_text.vlm.prefix import Bounded
from workers.backend import Demand, Done, Limits, More, Spec, StepResult
from workers.errors import BackendFailed


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """What the language model gets of a picture: (tokens, width), on the host."""

    tokens: Tensor

    @property
    def bytes(self) -> int:
        return self.tokens.nbytes


class FeatureCache:
    """By the content of pixels and all that decides how they are looked at. Safe from all threads."""

    def __init__(self, limit: int) -> None:
        self._kept: Bounded[Features] = Bounded(limit)
        self._lock = threading.Lock()

    def get(self, key: bytes) -> Tensor | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found.tokens

    def keep(self, key: bytes, tokens: Tensor) -> None:
        with self._lock:
            self._kept.keep(key, Features(tokens))

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._kept.held = 0


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """A picture or clip as the processor made it."""

    units: tuple[Unit, ...]
    tokens: int


@dataclass(slots=True)
class State:
    look: Look
    made: list[Tensor] = field(default_factory=list)


class EncoderBackend:
    """Each unit is encoded by itself, so that what comes of it does not depend on others."""

    def __init__(self, weights: Weights, name: str, counters: Counter[str]) -> None:
        self.spec = Spec("vision-encoder", name, weights.found.revision)
        self.limits = Limits(items=1)
        self.counters = counters
        self._weights: Weights = weights
        self._loaded: Loaded | None = None
        self._device = torch.device("cpu")

    def load(self, device: str) -> None:
        if self._loaded is None:
            self._loaded = self._weights.on(device)
            self._device = torch.device(device)
            every = sum(one.nbytes for one in self._loaded.vision.parameters())
            self.limits = Limits(items=1, resident_bytes=max(0, every - self._loaded.core.bytes))

    def check(self) -> None:
        if self._loaded is None:
            raise BackendFailed(f"{self.spec.model} is not loaded")

    def open(self, payload: Look) -> State:
        return State(payload)

    def demand(self, state: State) -> Demand:
        return Demand("encode", state.look.tokens / len(state.look.units), opening=True)

    def step(self, states: Sequence[State]) -> list[StepResult]:
        return [self._step(state) for state in states]

    def _step(self, state: State) -> StepResult:
        assert self._loaded is not None
        unit = state.look.units[len(state.made)]
        with torch.inference_mode():
            there = {name: value.to(self._device) for name, value in unit.items()}
            made = self._weights.family.encode(self._loaded.vision, there).float().cpu()
        self.counters["encoded_units"] += 1
        self.counters["encoded_tokens"] += len(made)
        if not bool(torch.isfinite(made).all()):
            return BackendFailed("the encoder made numbers of this picture that are not finite")
        state.made.append(made)
        if len(state.made) < len(state.look.units):
            return More()
        tokens = torch.cat(state.made)
        if len(tokens) != state.look.tokens:
            return BackendFailed(f"the encoder made {len(tokens)} tokens where {state.look.tokens} were planned")
        return Done(tokens)

    def discard(self, state: State) -> None:
        state.made.clear()

    def close(self) -> None:
        self._loaded = None
