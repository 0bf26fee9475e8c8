"""What a measured stream says: recordings in a row with pauses, and where in it the voice really is."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray
from silero_vad import get_speech_timestamps, load_silero_vad

from load.corpora import Clip

ENDING = 1.5
"""Seconds of silence behind the last recording, in which the service hears that it is over."""
_VOICE_RATE = 16_000


@dataclass(frozen=True, slots=True)
class Line:
    """One recording in a script. All times in seconds from the script's first sample; voice as Silero hears it
    offline, over the whole recording.
    """

    clip: Clip
    start: float
    end: float
    voice_start: float
    voice_end: float


@dataclass(frozen=True, slots=True)
class Script:
    """PCM16 mono samples at `rate` Hz, and what is said in them."""

    samples: NDArray[np.int16]
    rate: int
    lines: tuple[Line, ...]

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def compose(clips: Sequence[Clip], *, rate: int, lead: float = 0.3, pauses: Iterator[float] | None = None) -> Script:
    """`clips` one after another at `rate` Hz: `lead` seconds of silence, a pause behind each, silence at the end."""
    parts = [_silence(lead, rate)]
    lines, at = [], len(parts[0])
    for n, clip in enumerate(clips):
        pcm, (voice_start, voice_end) = _audio(clip.path, rate), _voice(clip.path)
        start, end = at / rate, (at + len(pcm)) / rate
        lines.append(Line(clip, start, end, start + voice_start, start + voice_end))
        last = n == len(clips) - 1
        gap = _silence(ENDING if last else next(pauses) if pauses is not None else 1.5, rate)
        parts += [pcm, gap]
        at += len(pcm) + len(gap)
    return Script(np.concatenate(parts), rate, tuple(lines))


def conversation(clips: Sequence[Clip], seconds: float, seed: int, *, rate: int) -> Script:
    """About `seconds` of recordings in random order, with pauses of 1 to 2 s and a random start."""
    chance = random.Random(seed)
    lead = chance.uniform(0.2, 3.0)
    chosen: list[Clip] = []
    pauses: list[float] = []
    length, before = lead + ENDING, -1
    while before != len(chosen):  # until a whole round of them has none that still fits
        before = len(chosen)
        for clip in chance.sample(list(clips), len(clips)):
            pause = chance.uniform(1.0, 2.0)
            took = len(_audio(clip.path, rate)) / rate + pause
            if length + took <= seconds or not chosen:
                chosen.append(clip)
                pauses.append(pause)
                length += took
    return compose(chosen, rate=rate, lead=lead, pauses=iter(pauses))


def _silence(seconds: float, rate: int) -> NDArray[np.int16]:
    return np.zeros(round(seconds * rate), np.int16)


@cache
def _audio(path: Path, rate: int) -> NDArray[np.int16]:
    """A recording as mono PCM16 at `rate` Hz."""
    samples, own = soundfile.read(path, dtype="float32", always_2d=True)
    mono = samples.mean(axis=1)
    heard = soxr.resample(mono, own, rate) if own != rate else mono
    samples16: NDArray[np.int16] = np.round(np.clip(heard, -1.0, 1.0) * 32_767).astype(np.int16)
    return samples16


@cache
def _voice(path: Path) -> tuple[float, float]:
    """Seconds at which the voice of a recording begins and ends; all of it when Silero hears none."""
    pcm = _audio(path, _VOICE_RATE)
    found = get_speech_timestamps(
        _torch(pcm), _silero(), sampling_rate=_VOICE_RATE, min_silence_duration_ms=100, speech_pad_ms=0
    )
    if not found:
        return 0.0, len(pcm) / _VOICE_RATE
    return found[0]["start"] / _VOICE_RATE, found[-1]["end"] / _VOICE_RATE


def _torch(pcm: NDArray[np.int16]) -> Any:
    import torch

    return torch.from_numpy(pcm.astype(np.float32) / 32_768)


@cache
def _silero() -> Any:
    return load_silero_vad(onnx=True)
