"""Tests of pairs, bounds and ratios. numpy alone; every random number from a seed, so a verdict can be had again."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from workers.gate.subject import Floats


@dataclass(frozen=True, slots=True)
class Paired:
    """`loss`: reference less candidate, in the mean, and its one-sided bounds. `worse`, `better`: items that are.
    `p`: how likely so many more are worse than better when both are equally good (exact sign test, which for right
    and wrong answers is McNemar's)."""

    items: int
    loss: float
    least: float
    most: float
    worse: int
    better: int
    p: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def paired(reference: Floats, candidate: Floats, *, confidence: float, resamples: int, seed: int) -> Paired:
    """What the candidate loses, pair by pair. Values that are not finite count as the worst there is."""
    loss = finite(reference) - finite(candidate)
    worse, better = int((loss > 1e-9).sum()), int((loss < -1e-9).sum())
    least, most = bounds(loss, confidence=confidence, resamples=resamples, seed=seed)
    if worse + better and set(np.unique(np.abs(loss))) <= {0.0, 1.0}:
        # Of few that differ the bootstrap makes too narrow bounds; those of Newcombe's kind hold.
        half = _z(confidence) * math.sqrt((worse + better) / len(loss) ** 2 + 1.0 / len(loss) ** 2)
        least, most = min(least, float(loss.mean()) - half), max(most, float(loss.mean()) + half)
    return Paired(len(loss), float(loss.mean()), least, most, worse, better, sign_test(worse, better))


def finite(values: Floats) -> Floats:
    """With 0 for what is no number, and nothing below -1."""
    cleaned: Floats = np.clip(np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=0.0, neginf=-1.0), -1, None)
    return cleaned


def bounds(values: Floats, *, confidence: float, resamples: int, seed: int) -> tuple[float, float]:
    """One-sided bounds of the mean by the bootstrap, each at `confidence`."""
    if np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    rng = np.random.default_rng(seed)
    means = np.concatenate(
        [values[rng.integers(0, len(values), (min(200, resamples - at), len(values)))].mean(1)
         for at in range(0, resamples, 200)]
    )  # fmt: skip
    least, most = np.quantile(means, [1 - confidence, confidence])
    return float(least), float(most)


def sign_test(worse: int, better: int) -> float:
    """One-sided, exact."""
    n = worse + better
    return sum(math.comb(n, k) for k in range(worse, n + 1)) / 2**n if n else 1.0


def worst(values: Floats, share: float) -> float:
    """Mean of the worst `share` of the items, of one at least."""
    ordered = np.sort(finite(values))
    return float(ordered[: max(1, math.ceil(share * len(ordered)))].mean())


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times cheaper than the reference. `least`, `most`: bounds of the median over rounds; `low`, `high`:
    the rounds' own spread, a tenth of them below and above."""

    median: float
    least: float
    most: float
    low: float
    high: float
    rounds: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def ratio(reference: Floats, candidate: Floats, *, confidence: float, resamples: int, seed: int) -> Ratio:
    """Of what rounds cost, the two of a round measured one after the other."""
    ratios = np.asarray(reference, np.float64) / np.maximum(np.asarray(candidate, np.float64), 1e-12)
    rng = np.random.default_rng(seed)
    medians = np.median(ratios[rng.integers(0, len(ratios), (resamples, len(ratios)))], axis=1)
    least, most = np.quantile(medians, [1 - confidence, confidence])
    low, high = np.quantile(ratios, [0.1, 0.9])
    return Ratio(float(np.median(ratios)), float(least), float(most), float(low), float(high), len(ratios))


def _z(confidence: float) -> float:
    """The normal distribution's quantile, by bisection."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 * (1 + math.erf(middle / math.sqrt(2))) < confidence else (low, middle)
    return low
