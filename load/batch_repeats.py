"""Repetitions that are true: real recordings said again, alike or a little faster, slower and quieter."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import soxr

from batch_jobs.transcript import Segment
from load import batch_sounds as sounds
from load import corpora
from load.batch_cases import MODELS, Case, Sound, clips, kept
from load.batch_models import bare, voice
from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, Samples
from speech.events import Word
from workers.errors import ServingError

_LONGEST = 28.0
_TESTS = Path(__file__).parent.parent / "tests" / "data"


def repeated(seed: int = 0) -> list[Case]:
    """The cases, decoded by the engine as the batch lane does: cut at silences, with its fallback."""
    made = ((sound, kept("engine", sound, partial(decoded, sound))) for sound in _sounds(seed))
    return [Case(sound, segments, n % 2 == 1) for n, (sound, segments) in enumerate(made)]


def ordinary(seed: int = 0) -> list[Case]:
    """Recordings in a row, as they come: a minute each, half of it held out."""
    out: list[Case] = []
    for model in MODELS:
        found = list(corpora.prompts("en", shortest=2.0, longest=9.0))
        random.Random(5 + seed).shuffle(found)
        for n in range(8):
            chosen = found[12 * n : 12 * n + 12]
            pause = 0.35 + 0.1 * (n % 4)
            joined = sounds.joined([sounds.recording(clip.path) for clip in chosen], pause)
            sound = Sound(f"speech {n}", "ordinary", model, joined, " ".join(clip.text for clip in chosen))
            out.append(Case(sound, kept("engine", sound, partial(decoded, sound)), n % 2 == 1))
    return out


def _sounds(seed: int) -> Iterator[Sound]:
    jfk = sounds.recording(_TESTS / "jfk.flac")
    said = (
        "And so, my fellow Americans, ask not what your country can do for you, ask what you can do for your country."
    )
    for model in MODELS:
        yield Sound("jfk × 6", "speech", model, sounds.joined([jfk] * 6, 0.3), " ".join([said] * 6))
        yield from _digits(model, seed)
        yield from _sentences(model, seed)


def _digits(model: str, seed: int) -> Iterator[Sound]:
    """Counted once, counted three times, and one digit three to eight times, each time said a little differently."""
    folder = next(corpora.fetch("en").rglob("en_US_f_Allison")) / "digits"
    digit = {n: sounds.recording(folder / f"{n}.wav") for n in range(1, 10)}
    yield Sound("1 to 9", "digits", model, sounds.joined(list(digit.values()), 0.25), "1 2 3 4 5 6 7 8 9")
    for last, times in ((3, 4), (5, 3)):
        row = [n for _ in range(times) for n in range(1, last + 1)]
        truth = " ".join(map(str, row))
        yield Sound(f"1 to {last} × {times}", "digits", model, sounds.joined([digit[n] for n in row], 0.3), truth)
    for n, times in (((1, 3), (8, 5), (5, 8), (7, 4), (9, 6)), ((2, 7), (3, 4), (4, 6), (6, 3), (1, 8)))[seed > 0]:
        chance = random.Random(f"{n} {times}")
        parts = [varied(digit[n], chance) for _ in range(times)]
        yield Sound(f"{n}, {times} times", "one word", model, sounds.joined(parts, 0.2 + 0.05 * n),
                    " ".join([str(n)] * times))  # fmt: skip


def _sentences(model: str, seed: int) -> Iterator[Sound]:
    for n, (samples, text) in enumerate(clips(model, 10, seed=seed)):
        times, chance = 2 + n % 5, random.Random(n + 100 * seed)
        parts = [varied(samples, chance) if n % 2 else samples for _ in range(times)]
        how = "varied" if n % 2 else "alike"
        yield Sound(f"{text[:24]} × {times}, {how}", "sentences", model, sounds.joined(parts, 0.4 + 0.1 * (n % 4)),
                    " ".join([text] * times))  # fmt: skip


def varied(samples: Samples, chance: random.Random) -> Samples:
    """As nobody says anything twice the same way: up to 8 % faster or slower (and higher or lower), up to 6 dB
    quieter, in some noise."""
    speed = chance.uniform(0.92, 1.08)
    out = soxr.resample(samples, SAMPLE_RATE * speed, SAMPLE_RATE) * 10 ** (-chance.uniform(0, 6) / 20)
    return np.asarray(out + sounds.white(len(out) / SAMPLE_RATE, chance.randrange(1000), 0.002)[: len(out)], np.float32)


def decoded(sound: Sound) -> tuple[Segment, ...]:
    """Segments of a sound as the batch lane makes them: pieces of at most 28 s between silences, with fallback."""
    spans = voice(sound.samples)
    pieces: list[tuple[float, float]] = []
    for start, end in spans:
        if pieces and end - pieces[-1][0] <= _LONGEST:
            pieces[-1] = (pieces[-1][0], end)
        else:
            pieces.append((start, end))
    out: list[Segment] = []
    for start, end in pieces:
        first = max(start - 0.3, 0.0)
        part = sound.samples[int(first * SAMPLE_RATE) : int((end + 0.25) * SAMPLE_RATE)]
        try:
            answer = bare(sound.model)(FinalRequest(part, DecodeOptions("en", timestamps=True)))
        except ServingError as error:
            raise RuntimeError(f"{sound.name} could not be decoded") from error
        if not answer.words:
            continue
        words = tuple(Word(w.text, w.start + first, w.end + first, w.confidence) for w in answer.words)
        out.append(
            Segment(words[0].start, words[-1].end, answer.text, words, language="en", avg_logprob=answer.avg_logprob,
                    no_speech=answer.no_speech, compression_ratio=answer.compression_ratio,
                    temperature=answer.temperature)
        )  # fmt: skip
    return tuple(out)
