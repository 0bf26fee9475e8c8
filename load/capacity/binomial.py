"""What so many bad ones among so many tell of the share that is bad: the exact bounds of Clopper and Pearson."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
_HALVINGS = 60
_MOST_TRIALS = 100_000


def upper_bound(events: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """The largest share under which so few events are not yet unlikely; one-sided."""
    if events >= trials:
        return 1.0
    low, high = events / trials, 1.0
    for _ in range(_HALVINGS):
        share = (low + high) / 2
        if at_most(events, trials, share) > 1 - confidence:
            low = share
        else:
            high = share
    return high


def lower_bound(events: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """The smallest share under which so many events are not yet unlikely; one-sided."""
    return 1.0 - upper_bound(trials - events, trials, confidence)


def shown(events: int, trials: int, allowed: float) -> float:
    """The confidence with which it is shown that no larger share than `allowed` is bad; 0.0 when nothing is."""
    return 1.0 - at_most(events, trials, allowed) if trials else 0.0


def trials_needed(allowed: float, confidence: float, share: float = 0.0, spare: int = 0) -> int | None:
    """How many trials show it when that `share` of them is bad, or `spare` of them are if that is more.

    None when a hundred thousand would not do.
    """
    if share >= allowed:
        return None

    def enough(trials: int) -> bool:
        return shown(max(spare, math.ceil(share * trials)), trials, allowed) >= confidence

    most = max(1, math.ceil(math.log(1 - confidence) / math.log(1 - allowed)))
    least = most - 1
    while not enough(most):
        least, most = most, 2 * most
        if most > _MOST_TRIALS:
            return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most


def at_most(events: int, trials: int, share: float) -> float:
    """Probability of at most so many events, each with this probability."""
    if events >= trials or share <= 0:
        return 1.0
    if share >= 1:
        return 0.0
    logs, k = _log_factorials(trials), np.arange(events + 1)
    ways = logs[trials] - logs[k] - logs[trials - k]
    return min(1.0, float(np.exp(ways + k * math.log(share) + (trials - k) * math.log1p(-share)).sum()))


@lru_cache(16)
def _log_factorials(most: int) -> NDArray[np.float64]:
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, most + 1)))))
