"""The ways in which a span is tried again, and how its audio is cut for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from batch_jobs.inspect import thresholds as limits
from batch_jobs.inspect.voice import Span, Voice
from speech.asr import SAMPLE_RATE, Samples
from speech.pieces import quietest

_MARGIN = 0.25
"""Seconds kept around voice: consonants at the rim are quiet."""
_PADDING = 0.3
"""Seconds of silence put before and behind a piece that was cut close."""
_JOIN = 0.5
"""Pauses shorter than this never divide a piece."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to decode a span. `pieces`: seconds of the longest piece, None for all in one."""

    name: str
    close: bool = True
    """Cut close around the voice and padded with silence; else the whole span as it is."""
    pieces: float | None = None
    timestamps: bool = False
    temperature: float = 0.0
    other: bool = False
    detect: bool = False
    """Find the language anew where the client named none; else it is that of the speech around."""


_CLOSE = Way("cut close around the voice")
_OTHER = Way("another model", other=True, detect=True)
_OTHER_WHOLE = Way("another model, the whole span", close=False, other=True, detect=True)
_WHOLE = Way("the whole span, with timestamps", close=False, timestamps=True, detect=True)
_SHORT = Way("in pieces of 6 s", pieces=6.0)
_SHORTER = Way("in pieces of 4 s", pieces=4.0)
_WARM = Way("cut close, at temperature 0.4", temperature=0.4)


def ways(*, looped: bool, other: bool) -> list[Way]:
    """In the order in which they are tried: what costs least and helps most first. What does not fit into the number
    of decodes is left out, and what comes behind it still tried."""
    order = [_CLOSE, _SHORT, _SHORTER, _WHOLE, _WARM] if looped else [_CLOSE, _WHOLE, _SHORT, _WARM]
    return [order[0], _OTHER, _OTHER_WHOLE, *order[1:]] if other else order


def pieces(way: Way, span: Span, voice: Voice, samples: Samples) -> list[tuple[float, Samples]]:
    """(where its first sample lies on the file's clock, samples) of each decode. `samples` are those of `span`; without
    any there is nothing to decode."""
    start = span[0]
    if not len(samples):
        return []
    if not way.close:
        return [(start, samples)]
    cuts = _close(span, voice)
    if way.pieces is not None:
        cuts = [part for a, b in cuts for part in _halved(a, b, way.pieces, voice, span, samples)]
    else:
        cuts = [(cuts[0][0], cuts[-1][1])] if cuts else []
    pad = np.zeros(round(_PADDING * SAMPLE_RATE), np.float32)
    out = []
    for a, b in cuts:
        part = samples[round((a - start) * SAMPLE_RATE) : round((b - start) * SAMPLE_RATE)]
        out.append((a - _PADDING, np.concatenate([pad, part, pad])))
    return out


def _close(span: Span, voice: Voice) -> list[Span]:
    """The voice of the span with margins, pauses under _JOIN filled. All of it where no voice is heard."""
    start, end = span
    out: list[Span] = []
    for a, b in voice.within(start, end):
        a, b = max(a - _MARGIN, start), min(b + _MARGIN, end)
        if out and a - out[-1][1] < _JOIN:
            out[-1] = (out[-1][0], b)
        else:
            out.append((a, b))
    return out or [span]


def _halved(a: float, b: float, most: float, voice: Voice, span: Span, samples: Samples) -> list[Span]:
    """[a, b) in even parts of at most about `most` seconds, each cut at the quietest place near."""
    count = round((b - a) / most) if b - a > 1.3 * most else 1
    edges = [a]
    for n in range(1, count):
        near, reach = a + (b - a) * n / count, (b - a) / count / 4
        silences: Sequence[Span] = voice.silences(near - reach, near + reach, 0.0)
        widest = max(silences, key=lambda s: s[1] - s[0], default=(0.0, 0.0))
        if widest[1] - widest[0] > limits.QUIET / 2:
            edges.append((widest[0] + widest[1]) / 2)
        else:
            first = round((near - reach - span[0]) * SAMPLE_RATE)
            last = round((near + reach - span[0]) * SAMPLE_RATE)
            edges.append(span[0] + quietest(samples, max(first, 0), last) / SAMPLE_RATE)
    edges.append(b)
    return list(pairwise(edges))
