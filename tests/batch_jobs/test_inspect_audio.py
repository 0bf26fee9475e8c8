"""The rules of inspection that listen: words beside voice, and repetitions proven or refuted by their sound."""

from __future__ import annotations

import random

import numpy as np
import pytest
import soxr

from batch_jobs.inspect import loops, sound
from batch_jobs.inspect.inspection import inspect
from batch_jobs.inspect.units import units
from batch_jobs.inspect.voice import Voice, unheard, wordless
from batch_jobs.transcript import Segment
from speech.asr import SAMPLE_RATE, Samples
from speech.events import Word
from tests.speech.sounds import not_speech, recording, silence

SENTENCE = "austen-0930.wav"
SAID = "he might even have been made amiable himself"


def test_seconds_of_voice() -> None:
    voice = Voice([(5.0, 6.0), (1.0, 2.0), (1.5, 3.0)])
    assert voice.spans == [(1.0, 3.0), (5.0, 6.0)]
    assert voice.seconds(0.0, 10.0) == 3.0
    assert voice.seconds(2.0, 5.5) == 1.5
    assert voice.seconds(3.0, 5.0) == 0.0
    assert voice.within(2.5, 5.5) == [(2.5, 3.0), (5.0, 5.5)]
    assert voice.silences(0.0, 10.0, 1.5) == [(3.0, 5.0), (6.0, 10.0)]


def test_words_apart_from_all_voice() -> None:
    voice = Voice([(1.0, 2.0), (5.0, 6.0)])
    words = [
        Word(" a", 1.1, 1.4, 0.9),
        Word(" b", 2.1, 2.25, 0.9),
        Word(" c", 3.0, 3.5, 0.9),
        Word(" d", 3.5, 4.0, 0.9),
    ]
    assert unheard(words, voice) == [(2, 4)]
    assert unheard(words, Voice([])) == [(0, 4)]


def test_voice_without_words() -> None:
    words = [Word(" a", 1.0, 1.5, 0.9), Word(" b", 2.4, 3.0, 0.9)]
    assert wordless(words, Voice([(1.0, 3.2)])) == []
    assert wordless(words, Voice([(1.0, 5.5)])) == [(3.5, 5.5)]
    assert wordless([], Voice([(1.0, 1.6), (2.0, 2.6)])) == [(1.0, 2.6)]
    assert wordless([], Voice([(1.0, 1.6)])) == []


def said_again(
    times: int, pause: float, *, vary: bool = False
) -> tuple[Samples, list[Word], list[tuple[float, float]]]:
    """A sentence said so often, a truthful transcript of it, and its voice. Varied: never twice at one speed."""
    chance, sentence = random.Random(times), recording(SENTENCE)
    parts, words, voice = [silence(pause)], list[Word](), list[tuple[float, float]]()
    at = pause
    for _ in range(times):
        speed = chance.uniform(0.93, 1.07) if vary else 1.0
        part = soxr.resample(sentence, SAMPLE_RATE * speed, SAMPLE_RATE).astype(np.float32)
        length = len(part) / SAMPLE_RATE
        voice.append((at, at + length))
        each = length / len(SAID.split())
        words += [Word(f" {w}", at + n * each, at + (n + 1) * each, 0.9) for n, w in enumerate(SAID.split())]
        parts += [part, silence(pause)]
        at += length + pause
    return np.concatenate(parts), words, voice


def judged(samples: Samples, words: list[Word], voice: list[tuple[float, float]]) -> list[str]:
    def audio(channel: int, start: float, end: float) -> Samples:
        return samples[round(start * SAMPLE_RATE) : round(end * SAMPLE_RATE)]

    text = "".join(word.text for word in words).strip()
    segment = Segment(words[0].start, words[-1].end, text, tuple(words), language="en", avg_logprob=-0.3)
    return [s.rule for s in inspect([segment], {0: voice}, audio)]


@pytest.mark.parametrize(("times", "vary"), [(2, False), (4, False), (6, True), (3, True)])
def test_a_sentence_that_is_really_said_again_is_not_suspicious(times: int, vary: bool) -> None:
    assert judged(*said_again(times, 0.5, vary=vary)) == []


def test_a_loop_over_other_speech_is_found() -> None:
    _, words, _ = said_again(3, 0.3)
    other = np.concatenate([recording(f"austen-{n}.wav") for n in ("0870", "0890", "0920")])
    end = words[-1].end + 0.3
    assert "loop" in judged(other[: round(end * SAMPLE_RATE)], words, [(0.0, end)])


@pytest.mark.parametrize("kind", ["white noise", "music", "hum"])
def test_a_loop_where_nobody_speaks_is_found(kind: str) -> None:
    _, words, _ = said_again(3, 0.3)
    assert {"loop", "no voice"} <= set(judged(not_speech(kind, words[-1].end + 1.0), words, []))


def test_more_words_than_the_voice_has_room_for() -> None:
    samples, words, voice = said_again(3, 0.5)
    hurried = [Word(w.text, w.start / 4, w.end / 4, 0.9) for w in words * 1] + [
        Word(w.text, w.start / 4 + words[-1].end / 4, w.end / 4 + words[-1].end / 4, 0.9) for w in words
    ]
    assert "loop" in judged(samples, hurried, [(a / 2, b / 2) for a, b in voice[:1]])


def test_a_beat_counts_how_often_a_word_is_said() -> None:
    """A scrap of speech fifteen times; the text says it thirty times, twice on every beat."""
    scrap = recording("jfk.flac")[int(4.0 * SAMPLE_RATE) : int(4.9 * SAMPLE_RATE)]
    samples = np.tile(scrap, 15)
    voice = Voice([(0.0, 13.5)])

    def audio(start: float, end: float) -> Samples:
        return samples[round(start * SAMPLE_RATE) : round(end * SAMPLE_RATE)]

    for times, true in ((15, True), (30, False)):
        step = 13.5 / times
        said = units([Word(" not", n * step, (n + 1) * step, 0.9) for n in range(times)])
        (loop,) = loops.loops(said)
        assert sound.evidence(loop, said, voice, audio).true == true
