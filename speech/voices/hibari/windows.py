"""How a segment is cut into windows, and where its sound begins."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from speech.tts import SegmentText, Sound, TimedToken
from speech.voices.hibari.decoder import DELAY, DecoderCarry
from speech.voices.hibari.plan import FRAME_RATE, SegmentPlan
from speech.voices.hibari.wave import HOP, LAG, RATE, WaveCarry

FRAMES = 40
"""Frames of sound in a window: half a second."""
FIRST_FRAMES = 20
"""Frames of sound in a stream's very first window, behind the silence before it."""
_FEW = 8
"""First windows are multiples of this, so that those of several streams can share a batch."""

AUDIBLE = 10 ** (-50 / 20)
"""Level (root mean square, full scale 1) that counts as sound: -50 dB,"""
_SPAN = RATE // 200
"""measured over 5 ms."""
HEAD_SILENCE = 0.03
"""Seconds of silence that stay before the first sound of a stream."""
LONGEST_SILENCE = 2.5
"""Seconds after which no sound is expected any more: then nothing is trimmed."""
_LOUD = -4.0
"""Predicted loudness near which sound begins; only the length of the first window depends on it."""


@dataclass(frozen=True, slots=True)
class Carry:
    """What a window hands to the next."""

    decoder: DecoderCarry
    wave: WaveCarry


@dataclass(frozen=True, slots=True)
class Window:
    """Sound of frames `start` to `stop`. Frames `first` to `last` become spectra for it, and the decoder is given
    `count` frames from `entering` on."""

    start: int
    stop: int
    first: int
    last: int
    entering: int
    count: int


def boundaries(plan: SegmentPlan, first: bool) -> tuple[int, ...]:
    """Frames at which windows begin, and the segment's end."""
    opening = FRAMES
    if first:
        loud = np.flatnonzero(plan.loudness > _LOUD)
        onset = int(loud[0]) if len(loud) else 0
        opening = -(-(onset + FIRST_FRAMES) // _FEW) * _FEW
    # The last window takes LAG frames more rather than leave so few to one that would have nothing to decode.
    return (0, *range(opening, plan.frames - LAG, FRAMES), plan.frames)


def window(bounds: tuple[int, ...], number: int) -> Window:
    """Window `number` of a segment cut at `bounds`."""
    frames, start, stop = bounds[-1], bounds[number], bounds[number + 1]
    first = 0 if number == 0 else min(frames, start + LAG)
    last = min(frames, stop + LAG)
    if number == 0:
        return Window(start, stop, first, last, 0, last + DELAY)
    return Window(start, stop, first, last, first + DELAY, last - first)


def nominal(bounds: tuple[int, ...], number: int) -> int:
    """Frames that go into the decoder for a window that is not cut short by the segment's end."""
    return bounds[1] + LAG + DELAY if number == 0 else FRAMES


def head_silence(samples: Sound) -> int | None:
    """Samples to leave out of a stream's first sound, to 5 ms; None when there is no sound in it."""
    spans = samples[: len(samples) // _SPAN * _SPAN].reshape(-1, _SPAN)
    loud = np.flatnonzero(np.sqrt(np.mean(spans * spans, axis=1)) > AUDIBLE)
    return max(0, int(loud[0]) * _SPAN - round(HEAD_SILENCE * RATE)) if len(loud) else None


def token_times(segment: SegmentText, plan: SegmentPlan, trimmed: int) -> tuple[TimedToken, ...]:
    """When each token that has phonemes sounds, in order, when `trimmed` samples are left out at the start."""
    ends = np.cumsum(plan.durations)
    begun: dict[int, tuple[int, int]] = {}
    for symbol, token in enumerate(segment.phonemes.sources):
        if token >= 0:
            start = begun[token][0] if token in begun else int(ends[symbol] - plan.durations[symbol])
            begun[token] = start, int(ends[symbol])
    offset = trimmed / RATE
    return tuple(
        TimedToken(token, max(0.0, start / FRAME_RATE - offset), max(0.0, stop / FRAME_RATE - offset))
        for token, (start, stop) in sorted(begun.items())
    )


def samples_between(bounds: tuple[int, ...]) -> list[int]:
    """Samples of each window of a segment cut at `bounds`."""
    return [(stop - start) * HOP for start, stop in pairwise(bounds)]
