"""Stretches said again and again in a row: exact periods of any length up to a minute of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from batch_jobs.inspect import thresholds as limits
from batch_jobs.inspect.units import Unit


@dataclass(frozen=True, slots=True)
class Loop:
    """Units [first, last) repeat every `period` units."""

    first: int
    last: int
    period: int

    @property
    def times(self) -> float:
        return (self.last - self.first) / self.period

    def turns(self) -> list[tuple[int, int]]:
        """[first, last) of every whole time that the stretch is said."""
        return [(at, at + self.period) for at in range(self.first, self.last - self.period + 1, self.period)]


def loops(units: Sequence[Unit]) -> list[Loop]:
    """In order, not overlapping, each with its shortest period, from LOOP_TIMES times on."""
    names = {key: n for n, key in enumerate(dict.fromkeys(unit.key for unit in units))}
    ids = np.array([names[unit.key] for unit in units], np.int64)
    taken = np.zeros(len(ids) + 1, bool)
    out: list[Loop] = []
    for period in range(1, min(limits.LONGEST_PERIOD, len(ids) // 2) + 1):
        least = limits.LOOP_TIMES.get(period, limits.LOOP_TIMES_LONG)
        same = np.concatenate([[0], (ids[period:] == ids[:-period]).astype(np.int8), [0]])
        edges = np.flatnonzero(np.diff(same))
        for first, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            last = stop + period
            if last - first < least * period - 1e-9 or taken[first:last].all():
                continue
            # A few units may belong to a loop of a shorter period that was found before.
            if taken[first:last].mean() > 0.5:
                continue
            taken[first:last] = True
            out.append(Loop(first, last, period))
    return sorted(out, key=lambda loop: loop.first)
