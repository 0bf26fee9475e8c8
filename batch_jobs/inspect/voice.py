"""Words beside voice: words where nobody is heard, voice that got no words, and how much voice a stretch has."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from batch_jobs.inspect import thresholds as limits
from speech.events import Word

Span = tuple[float, float]


class Voice:
    """Spans of voice of one channel, in seconds."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans: list[Span] = merged(spans)
        self._starts = [start for start, _ in self.spans]
        self._ends = [end for _, end in self.spans]
        self._before = [0.0, *accumulate(end - start for start, end in self.spans)]

    def seconds(self, start: float, end: float) -> float:
        """Seconds of voice in [start, end)."""
        return max(self._until(end) - self._until(start), 0.0)

    def _until(self, at: float) -> float:
        n = bisect_right(self._starts, at)
        return self._before[n] - max(self._ends[n - 1] - at, 0.0) if n else 0.0

    def within(self, start: float, end: float) -> list[Span]:
        """The voice in [start, end), cut to it."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        return [(max(a, start), min(b, end)) for a, b in self.spans[first:last]]

    def silences(self, start: float, end: float, least: float) -> list[Span]:
        """Stretches of [start, end) without voice, of `least` seconds and more."""
        edges = [start, *(at for span in self.within(start, end) for at in span), end]
        return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= least]


def merged(spans: Iterable[Span]) -> list[Span]:
    """In order, overlaps joined."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        elif end > start:
            out.append((start, end))
    return out


def unheard(words: Sequence[Word], voice: Voice) -> list[tuple[int, int]]:
    """[first, last) of words in a row that lie apart from all voice."""
    apart = [voice.seconds(word.start - limits.NEAR, word.end + limits.NEAR) <= 0.0 for word in words]
    return [run for run in runs(apart) if run[1] - run[0] >= limits.SILENT_WORDS]


def covered(words: Iterable[Word]) -> list[Span]:
    """What words cover: themselves, and the pauses of at most PAUSE between them or beside them (half of it)."""
    half = limits.PAUSE / 2
    return merged((word.start - half, word.end + half) for word in words)


def wordless(words: Iterable[Word], voice: Voice) -> list[Span]:
    """Voice of WORDLESS and more that no word covers."""
    return [(a, b) for a, b in uncovered(words, voice) if voice.seconds(a, b) >= limits.WORDLESS]


def uncovered(words: Iterable[Word], voice: Voice) -> list[Span]:
    """The spans of voice that no word covers, however short, those of one gap between words together."""
    if not voice.spans:
        return []
    out: list[Span] = []
    at, end = voice.spans[0][0], voice.spans[-1][1]
    for first, last in [*covered(words), (end, end)]:
        inside = voice.within(at, min(first, end)) if first > at else []
        if inside:
            out.append((inside[0][0], inside[-1][1]))
        at = max(at, last)
    return out


def runs(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """[first, last) of each row of true flags."""
    out, first = [], None
    for n, flag in enumerate([*flags, False]):
        if flag and first is None:
            first = n
        elif not flag and first is not None:
            out.append((first, n))
            first = None
    return out
