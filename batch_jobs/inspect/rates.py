"""Speaking rates that nobody has: too many letters in the time, words of no length, text that compresses too well."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Sequence

from batch_jobs.inspect import thresholds as limits
from batch_jobs.inspect.units import Unit
from batch_jobs.inspect.voice import runs
from speech.events import Word


def too_fast(units: Sequence[Unit]) -> list[tuple[int, int, float]]:
    """(first, last, letters a second) of units that no speaker could say in their time."""
    size = limits.RATE_WORDS
    flags = [False] * len(units)
    worst: dict[int, float] = {}
    for first in range(len(units) - size + 1):
        window = units[first : first + size]
        seconds = max(window[-1].end - window[0].start, 0.02)
        unspaced = sum(unit.unspaced for unit in window) > size // 2
        rate = (size if unspaced else sum(unit.letters for unit in window)) / seconds
        if rate > (limits.UNSPACED_A_SECOND if unspaced else limits.LETTERS_A_SECOND):
            for n in range(first, first + size):
                flags[n] = True
                worst[n] = max(worst.get(n, 0.0), rate)
    return [(a, b, max(worst[n] for n in range(a, b))) for a, b in runs(flags)]


def instant(words: Sequence[Word]) -> list[tuple[int, int, float]]:
    """(first, last, share) of words most of which have no length."""
    size = limits.RATE_WORDS
    zero = [word.end - word.start < limits.INSTANT for word in words]
    flags = [False] * len(words)
    for first in range(len(words) - size + 1):
        if sum(zero[first : first + size]) >= limits.INSTANT_SHARE * size:
            flags[first : first + size] = [True] * size
    return [(a, b, sum(zero[a:b]) / (b - a)) for a, b in runs(flags)]


def compressible(units: Sequence[Unit]) -> list[tuple[int, int, float]]:
    """(first, last, ratio) of stretches of COMPRESSION_WINDOW seconds that say little anew."""
    starts = [unit.start for unit in units]
    out: list[tuple[int, int, float]] = []
    first = 0
    while first < len(units):
        last = bisect_left(starts, starts[first] + limits.COMPRESSION_WINDOW, lo=first)
        last = max(last, first + 1)
        ratio = compression([unit.key for unit in units[first:last]])
        if ratio > limits.COMPRESSION:
            out.append((first, last, ratio))
            first = last
        else:
            first = max(first + 1, bisect_left(starts, starts[first] + limits.COMPRESSION_WINDOW / 3, lo=first))
    return out


def compression(keys: Sequence[str]) -> float:
    """Whisper's ratio. A letter counts as one byte in every script, so that the limit means the same in all of them."""
    raw = bytes(ord(c) & 0xFF for c in " ".join(keys))
    return len(raw) / len(zlib.compress(raw)) if raw else 0.0
