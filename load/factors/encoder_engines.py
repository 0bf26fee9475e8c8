"""How factors of the encoder make their engines: the served backend with another encoder, or other settings in it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from load.factors.factor import Base
from speech.whisper.backend import WhisperBackend
from speech.whisper.encoder import Encoder, floors


def with_encoder(base: Base, kind: type[Encoder], precision: str = "") -> WhisperBackend:
    """The served engine with an encoder of this kind; its silences are computed here, not while it is measured."""
    backend = base.loaded()
    encoder = kind(base.checkpoint, precision or base.precision.encoder, "cpu", base.probes)
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
