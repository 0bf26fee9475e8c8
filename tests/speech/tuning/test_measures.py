"""What a voice and what is heard are judged by."""

from __future__ import annotations

import numpy as np
import pytest

from speech.tuning.asr import errors
from speech.tuning.tts import VoiceSubject, likeness
from workers.gate.effect import effect
from workers.gate.thresholds import thresholds


@pytest.mark.parametrize(
    ("said", "heard", "rate"),
    [
        ("He was not.", "he was not", 0.0),
        ("one two three four", "one three four", 0.25),
        ("one two", "one two three four", 1.0),
        ("one", "", 1.0),
        ("", "", 0.0),
    ],
)
def test_word_errors(said: str, heard: str, rate: float) -> None:
    assert errors(said, heard) == pytest.approx(rate)


def test_the_voice_on_trial() -> None:
    subject = VoiceSubject()
    items = subject.items(1, 5)
    reference = subject.run({}, items)
    bars = thresholds().of("tts")
    least = bars["likeness"].worst
    assert least is not None
    small = subject.run({"precision": "int8"}, items)
    assert effect(reference.effect, small.effect).shown
    good = subject.score(reference.outputs, small.outputs, items)
    assert set(good) == set(bars) and good["likeness"].min() > least
    coarse = subject.run({"coarse": 3}, items)
    assert subject.score(reference.outputs, coarse.outputs, items)["likeness"].max() < least
    fast = subject.run({"pace": 1.5}, items)
    assert subject.score(reference.outputs, fast.outputs, items)["timing"].max() < 0.9
    noise = np.random.default_rng(0).standard_normal(len(reference.outputs[0])).astype(np.float32)
    assert likeness(reference.outputs[0], noise * 0.1) < least
    assert not effect(reference.effect, subject.run({}, items).effect).shown
