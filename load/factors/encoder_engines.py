"""How factors of the encoder make their engines: the served backend with another encoder, or other settings in it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from load.factors.factor import Base
from speech.whisper.backend import WhisperBackend
from speech.whisper.encoder import Encoder, floors

_served: dict[tuple[str, str], WhisperBackend] = {}


def served(base: Base) -> WhisperBackend:
    """A served engine whose weights and silences all factors of the encoder share: made once, copied shallowly."""
    key = base.name, str(base.precision)
    if key not in _served:
        _served[key] = base.loaded()
    return copy.copy(_served[key])


def with_encoder(base: Base, kind: type[Encoder], precision: str = "") -> WhisperBackend:
    """The served engine with an encoder of this kind; its silence is the served one's where that is as wide."""
    backend = served(base)
    encoder = kind(base.checkpoint, precision or base.precision.encoder, "cpu", base.probes)
    if encoder.kv_dtype == backend._encoder.kv_dtype:
        encoder._frozen = backend._encoder._frozen
    with torch.inference_mode():
        for floor in floors():
            encoder.frozen(floor)
    backend._encoder = encoder
    return backend


class Within:
    """An engine whose every step runs inside a context, which sets something of the process and sets it back."""

    def __init__(self, backend: WhisperBackend, context: Callable[[], AbstractContextManager[None]]) -> None:
        self._backend, self._context = backend, context

    def open(self, payload: Any) -> Any:
        with self._context():
            return self._backend.open(payload)

    def step(self, jobs: Any) -> Any:
        with self._context():
            return self._backend.step(jobs)

    def discard(self, job: Any) -> None:
        self._backend.discard(job)
