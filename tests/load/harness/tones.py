"""Recordings and a model that understand each other: every word is a tone, so that each one that is lost, doubled or
wrong shows, and no weights are needed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from speech.asr import SAMPLE_RATE, FinalRequest, Hypothesis, PartialRequest, Samples, Transcript
from speech.events import Word
from tests.load.fixed_service import FixedAsr
from workers.backend import Done, StepResult

WORDS = ("red", "green", "blue", "white", "black", "brown", "pink", "yellow")
PITCHES = {word: 500.0 + 200.0 * n for n, word in enumerate(WORDS)}
LENGTH, GAP = 0.24, 0.06
LONG = "white black brown pink yellow red green blue pink white"
SAID = ("red green blue", LONG, "yellow red", "blue pink white green")
_FRAME = SAMPLE_RATE // 100
_LOUD, _SHORTEST = 0.05, 8


def sound(text: str) -> Samples:
    """A recording of these words."""
    at = np.arange(round(LENGTH * SAMPLE_RATE)) / SAMPLE_RATE
    gap = np.zeros(round(GAP * SAMPLE_RATE))
    parts = [np.concatenate((0.3 * np.sin(2 * np.pi * PITCHES[word] * at), gap)) for word in text.split()]
    return np.concatenate(parts).astype(np.float32)


def record(folder: Path) -> Path:
    """A folder of recordings, with what is said in them."""
    rows = ["file\ttext"]
    for number, text in enumerate(SAID):
        soundfile.write(folder / f"{number}.wav", sound(text), SAMPLE_RATE)
        rows.append(f"{number}.wav\t{text}")
    (folder / "references.tsv").write_text("\n".join(rows), "utf-8")
    return folder


def hear(samples: Samples) -> list[tuple[str, float, float]]:
    """The words in it, and where they begin and end in seconds."""
    frames = samples[: len(samples) // _FRAME * _FRAME].reshape(-1, _FRAME)
    loud = np.concatenate(([False], np.abs(frames).mean(axis=1) > _LOUD, [False]))
    edges = np.flatnonzero(np.diff(loud.astype(int)))
    found = []
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        if last - first >= _SHORTEST:
            tone = samples[first * _FRAME : last * _FRAME]
            pitch = np.fft.rfftfreq(len(tone), 1 / SAMPLE_RATE)[np.abs(np.fft.rfft(tone)).argmax()]
            word = min(PITCHES, key=lambda word: abs(PITCHES[word] - pitch))
            found.append((f" {word}", first / 100, last / 100))
    return found


class Tones(FixedAsr):
    """Hears tones, in steps of a fixed length."""

    def step(self, states: Sequence[Any]) -> list[StepResult]:
        time.sleep(self._seconds)
        return [Done(_partial(one) if isinstance(one, PartialRequest) else _final(one)) for one in states]


def _partial(request: PartialRequest) -> Hypothesis:
    words = [word for word, _, _ in hear(request.utterance.samples[: request.end])]
    first = len(request.stable)
    return Hypothesis(tuple(range(first, len(words))), tuple((word, 1) for word in words[first:]))


def _final(request: FinalRequest) -> Transcript:
    words = tuple(Word(word, start, end, 0.9) for word, start, end in hear(request.samples))
    text, seconds = "".join(word.text for word in words).strip(), len(request.samples) / SAMPLE_RATE
    return Transcript(text, words, (), "en", 1.0, -0.1, 0.0, 1.0, 0.0, seconds)
