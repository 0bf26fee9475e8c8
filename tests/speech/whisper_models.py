"""The real tiny.en, loaded once: our engine in float32, and faster-whisper as the reference."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from faster_whisper import WhisperModel, decode_audio

from speech.asr import SAMPLE_RATE, FinalRequest, PartialRequest, Samples
from speech.models import resolve
from speech.whisper import weights
from speech.whisper.backend import WhisperBackend
from speech.whisper.profile import PROVEN_PROBES, Precision
from workers.backend import Done, More

EXACT = Precision()
DATA = Path(__file__).parents[1] / "data"


@cache
def backend(precision: Precision = EXACT, probes: int = PROVEN_PROBES["tiny.en"]) -> WhisperBackend:
    """tiny.en, loaded and warm."""
    torch.set_num_threads(1)
    folder = resolve("tiny.en").directory
    made = WhisperBackend("tiny.en", weights.load(folder), folder, precision, probes)
    made.load("cpu")
    return made


@cache
def reference() -> WhisperModel:
    """faster-whisper's own model from the same files."""
    return WhisperModel(str(resolve("tiny.en").directory), device="cpu", compute_type="float32", cpu_threads=1)


@cache
def recording(name: str) -> Samples:
    """A recording of tests/data at 16 kHz."""
    samples: Samples = decode_audio(str(DATA / name), sampling_rate=SAMPLE_RATE)
    return samples


def run(*requests: FinalRequest | PartialRequest, precision: Precision = EXACT, probes: int | None = None) -> list[Any]:
    """Answers of requests stepped together, as the loop would: those of one kind share a step."""
    engine = backend(precision) if probes is None else backend(precision, probes)
    jobs = [engine.open(request) for request in requests]
    answers: dict[int, Any] = {}
    while len(answers) < len(jobs):
        left = [n for n in range(len(jobs)) if n not in answers]
        bucket = engine.demand(jobs[left[0]]).bucket
        batch = [n for n in left if engine.demand(jobs[n]).bucket == bucket]
        for n, result in zip(batch, engine.step([jobs[n] for n in batch]), strict=True):
            if isinstance(result, Exception):
                answers[n] = result
            elif isinstance(result, Done):
                answers[n] = result.output
            else:
                assert isinstance(result, More)
    for job in jobs:
        engine.discard(job)
    return [answers[n] for n in range(len(jobs))]


def noise(seconds: float, level: float = 0.1, seed: int = 0) -> Samples:
    """White noise of a standard deviation."""
    return (np.random.default_rng(seed).standard_normal(int(seconds * SAMPLE_RATE)) * level).astype(np.float32)
