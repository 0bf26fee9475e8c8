"""What settings cost, measured in turns: in every round all of them, one right after the other, in another order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workers.gate.statistics import Ratio, ratio
from workers.gate.subject import Floats, Run, Settings, Subject
from workers.gate.thresholds import Thresholds


@dataclass(slots=True)
class Lap:
    """One of the settings over all rounds: seconds and bytes held of each round's items together."""

    settings: Settings
    seconds: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    effect: Counter[str] = field(default_factory=Counter)

    def add(self, run: Run) -> None:
        self.seconds.append(float(np.sum(run.seconds)))
        if run.held is not None:
            self.held.append(float(np.sum(run.held)))
        self.effect.update(run.effect)


class Interleaved:
    """Rounds of some settings over the same items, the first of them the reference. `more` goes on."""

    def __init__(self, subject: Subject, settings: Sequence[Settings], items: Sequence[Any], bars: Thresholds) -> None:
        self._subject, self._items, self._bars = subject, items, bars
        self.laps = [Lap(one) for one in settings]
        self.done = 0

    def more(self, rounds: int) -> None:
        """The order changes from round to round, so that none of them always follows the same one."""
        for _ in range(rounds):
            size = self._bars.speed.items
            at = (self.done * size) % max(1, len(self._items) - size + 1)
            items = self._items[at : at + size]
            order = np.roll(np.arange(len(self.laps)), -(self.done // 2 % len(self.laps)))
            for n in order if self.done % 2 == 0 else order[::-1]:
                lap = self.laps[int(n)]
                lap.add(self._subject.run(lap.settings, items))
            self.done += 1

    def per_item(self, lap: Lap) -> float:
        """Seconds, in the median of the rounds."""
        return float(np.median(lap.seconds)) / self._bars.speed.items

    def ratio(self, lap: Lap, base: Lap | None = None, seed: int = 0) -> Ratio:
        """How many times cheaper than the reference, or than another."""
        first = np.asarray((base or self.laps[0]).seconds)
        return self._ratio(first, np.asarray(lap.seconds), seed)

    def _ratio(self, reference: Floats, candidate: Floats, seed: int) -> Ratio:
        trial = self._bars.trial
        return ratio(reference, candidate, confidence=trial.confidence, resamples=trial.resamples, seed=seed)

    def bytes_ratio(self, lap: Lap) -> float | None:
        """How many times less is held; None where that is not told."""
        first = self.laps[0].held
        return sum(first) / max(1.0, sum(lap.held)) if first and lap.held else None


def timed(
    subject: Subject, settings: Sequence[Settings], items: Sequence[Any], bars: Thresholds, seed: int
) -> Interleaved:
    """Rounds until the bounds of the last one's ratio lie on one side of the bar, or there have been enough.

    The first call of each is thrown away: it loads, compiles and warms.
    """
    for one in settings:
        subject.run(one, items[:1])
    found = Interleaved(subject, settings, items, bars)
    found.more(bars.speed.rounds)
    while found.done < bars.speed.most_rounds:
        speed = found.ratio(found.laps[-1], seed=seed)
        if speed.least >= bars.speed.least or speed.most < bars.speed.least:
            break
        found.more(bars.speed.rounds)
    return found
