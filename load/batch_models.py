"""The models of the batch lane alone: voice activity over a whole sound, and Whisper for one request at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch

from speech.asr import SAMPLE_RATE, FinalRequest, Samples, Transcript
from speech.config import VadConfig
from speech.models import resolve
from speech.vad import WINDOW, WINDOW_SECONDS, Gain, SileroVad, VadRequest, VadState
from speech.whisper import weights
from speech.whisper.backend import WhisperBackend
from speech.whisper.profile import PROVEN_PROBES, Precision
from workers.backend import Done


def voice(samples: Samples) -> list[tuple[float, float]]:
    """Spans of voice in seconds, by the segmenter's own thresholds."""
    config = VadConfig()
    count = len(samples) // WINDOW
    windows = samples[: count * WINDOW].reshape(count, WINDOW)
    backend = _vad()
    state = backend.open(VadRequest(VadState.fresh(Gain()), windows))
    (result,) = backend.step([state])
    while not isinstance(result, Done):
        assert not isinstance(result, Exception), result
        (result,) = backend.step([state])
    spans: list[tuple[float, float]] = []
    start: int | None = None
    for n, chance in enumerate(np.append(result.output.probabilities, 0.0)):
        if start is None and chance >= config.onset:
            start = n
        elif start is not None and chance < config.release:
            if (n - start) * WINDOW_SECONDS >= config.min_speech:
                spans.append((start * WINDOW / SAMPLE_RATE, n * WINDOW / SAMPLE_RATE))
            start = None
    return spans


@cache
def _vad() -> SileroVad:
    backend = SileroVad()
    backend.load("cpu")
    return backend


@cache
def bare(name: str) -> Callable[[FinalRequest], Transcript]:
    """The engine's own Whisper, exact (float32) and on one thread. Raises ServingError."""
    torch.set_num_threads(1)
    folder = resolve(name).directory
    backend = WhisperBackend(name, weights.load(folder), folder, Precision(), PROVEN_PROBES.get(name, 0))
    backend.load("cpu")

    def decode(request: FinalRequest) -> Transcript:
        job = backend.open(request)
        try:
            while True:
                (result,) = backend.step([job])
                if isinstance(result, Exception):
                    raise result
                if isinstance(result, Done):
                    answer: Transcript = result.output
                    return answer
        finally:
            backend.discard(job)

    return decode
