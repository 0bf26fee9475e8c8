"""Whether a repetition in the text is one in the audio: does the sound come again where the words say it does?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from batch_jobs.inspect import thresholds as limits
from batch_jobs.inspect.loops import Loop
from batch_jobs.inspect.units import Unit
from batch_jobs.inspect.voice import Voice
from speech.asr import SAMPLE_RATE, Samples
from speech.whisper.features import HOP, N_FFT, MelFilter

Audio = Callable[[float, float], Samples]
"""Samples of [start, end) seconds of a channel; shorter where the file ends."""

_BANDS = 20
_FRAME = 2 * HOP / SAMPLE_RATE
_SHIFT = 0.3
"""Seconds around the expected place in which a word is searched, less in a quick repetition (half of its lag)."""
_SHORTEST = 0.3
"""Seconds of sound that are compared at least: less is alike by chance."""
_BEAT = 20.0
"""Seconds in which a period is looked for."""
_TURNS, _WORDS = 16, 8
"""Repetitions that are compared at most, spread over the loop, and words of each."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """`alike`: share of the repetitions whose sound comes again. `voiced`: share of the words on voice.

    `room`: letters that the voice has room for, over the letters of the text. `count`: times that the text says it over
    the times that the sound comes again, where the sound has a period of its own; else 1.
    """

    alike: float
    voiced: float
    room: float
    count: float = 1.0

    @property
    def true(self) -> bool:
        return (
            self.alike >= limits.ALIKE_SHARE
            and self.voiced >= limits.VOICED
            and self.room >= 1.0
            and self.count <= limits.COUNT
        )


def evidence(loop: Loop, units: Sequence[Unit], voice: Voice, audio: Audio | None) -> Evidence:
    """What the audio says of a loop. Without audio only the voice speaks, and no likeness is proven."""
    said = units[loop.first : loop.last]
    voiced = float(np.mean([voice.seconds(u.start - 0.1, u.end + 0.1) > 0.0 for u in said]))
    room = voice.seconds(said[0].start - limits.NEAR, said[-1].end + limits.NEAR) / max(time_needed(said), 1e-3)
    alike, count = 0.0, 1.0
    # The comparison costs most, and nothing hangs on it where there is no voice.
    if audio is not None and voiced >= limits.VOICED and room >= 1.0:
        alike = _alike(loop, units, audio)
        count = _count(loop, units, audio) if alike >= limits.ALIKE_SHARE else 1.0
    return Evidence(alike, voiced, room, count)


def time_needed(units: Sequence[Unit]) -> float:
    """Seconds that the fastest speaker needs for the units."""
    return sum(
        1.0 / limits.UNSPACED_A_SECOND if u.unspaced else u.letters / limits.LETTERS_A_SECOND_OF_VOICE for u in units
    )


def _alike(loop: Loop, units: Sequence[Unit], audio: Audio) -> float:
    turns = loop.turns()
    pairs = list(pairwise(turns))
    likeness = [again(units[a:b], units[c:d], audio) for (a, b), (c, d) in _spread(pairs, _TURNS)]
    return float(np.mean([value >= limits.ALIKE for value in likeness]))


def _count(loop: Loop, units: Sequence[Unit], audio: Audio) -> float:
    """Times said over times heard. Only a sound that comes again in a strict beat has a count of its own."""
    turns = loop.turns()
    start, end = units[turns[0][0]].start, min(units[turns[-1][1] - 1].end, units[turns[0][0]].start + _BEAT)
    said = sum(units[a].start < end for a, _ in turns)
    sound = bands(audio(start, end))
    sound = sound - sound.mean(axis=1, keepdims=True) if sound.shape[1] else sound
    frames = sound.shape[1]
    strength = [_correlation(sound[:, lag:], sound[:, :-lag]) for lag in range(1, frames // 3)]
    for n in range(5, len(strength) - 1):
        if strength[n] >= limits.BEAT and strength[n] >= max(strength[n - 1], strength[n + 1]):
            return float(said * (n + 1) / frames)
    return 1.0


def _correlation(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return float(np.sum(one * other) / np.sqrt(max(float(np.sum(one * one) * np.sum(other * other)), 1e-9)))


def again(first: Sequence[Unit], second: Sequence[Unit], audio: Audio) -> float:
    """How alike the words of one turn sound to those of the next, each near the time that it is said to have there.

    Word by word, since nobody says a sentence twice in the same time.
    """
    start = max(min(u.start for u in first) - 0.5, 0.0)
    sound = bands(audio(start, max(u.end for u in second) + 0.5))
    if not sound.shape[1]:
        return 0.0
    sound = sound - sound.mean(axis=1, keepdims=True)
    found, weights = [], []
    for one, other in _spread(list(zip(first, second, strict=True)), _WORDS):
        lag = other.start - one.start
        spare = max(_SHORTEST - (one.end - one.start), 0.1) / 2
        a, b = (round((at - start) / _FRAME) for at in (one.start - spare, one.end + spare))
        # Never so far that the sound would be found in itself.
        shift = round(min(_SHIFT, lag / 2) / _FRAME)
        template, at = sound[:, max(a, 0) : b], max(a, 0) + round(lag / _FRAME)
        place = sound[:, max(at - shift, 0) : at + template.shape[1] + shift]
        weights.append(one.end - one.start + 0.1)
        found.append(_best(template, place) if shift > 1 else 0.0)
    return float(np.average(found, weights=weights))


def _best(template: NDArray[np.float32], place: NDArray[np.float32]) -> float:
    """The highest correlation of the template with any part of the place, both (bands, frames)."""
    if template.shape[1] < 5 or place.shape[1] < template.shape[1]:
        return 0.0
    views = np.lib.stride_tricks.sliding_window_view(place, template.shape[1], axis=1)
    dots = np.einsum("bsf,bf->s", views, template)
    norms = np.sqrt(np.einsum("bsf,bsf->s", views, views) * np.sum(template * template))
    return float(np.max(dots / np.maximum(norms, 1e-9)))


T = TypeVar("T")


def _spread(items: Sequence[T], most: int) -> Sequence[T]:
    """At most so many of the items, evenly spread."""
    if len(items) <= most:
        return items
    return [items[n] for n in np.linspace(0, len(items) - 1, most).astype(int)]


def bands(samples: Samples) -> NDArray[np.float32]:
    """(bands, frames of 20 ms) of log power, nothing more than 50 dB under the loudest."""
    if len(samples) < N_FFT + 2 * HOP:
        return np.zeros((_BANDS, 0), np.float32)
    with torch.inference_mode():
        log = _filter().log_power(torch.from_numpy(np.ascontiguousarray(samples))).numpy()
    log = log[:, : log.shape[1] // 2 * 2]
    log = log.reshape(_BANDS, -1, log.shape[1] // 2, 2).mean(axis=(1, 3))
    return np.asarray(np.maximum(log, log.max() - 5.0), np.float32)


@cache
def _filter() -> MelFilter:
    return MelFilter(80)
