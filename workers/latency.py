"""What a step will take: t = a + k * cost, learnt for each (backend, bucket) from the steps that ran.

The trap this avoids: a model fitted on one tiny warm-up step takes its fixed cost for cost per unit, predicts seconds
for a real one, has everything refused, and so never sees a step that would teach it better. Hence both terms are
fitted and forgotten together, the first observations fade fastest, the slope stays flat until costs have differed,
and a prediction nobody has confirmed for a while shrinks.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Hashable
from pathlib import Path

log = logging.getLogger(__name__)

KEEP = 0.97
"""Weight that old observations keep at each new one: a memory of some 33 steps."""
RIDGE = 1e-3
"""Variance of the cost, relative to its squared mean, below which the slope is not believed."""
OUTLIER = 4.0
"""A step slower than this many times its prediction (a pause of the host) counts as only so slow."""
FRESH = 60.0
"""Seconds for which a prediction is as good as new."""
HALF_LIFE = 300.0
"""Seconds in which a prediction that is no longer fresh halves,"""
OPTIMISM = 0.25
"""down to this fraction of what was learnt."""
MAX_FITS = 1024
"""Buckets remembered; the one not seen for longest makes room."""

VERSION = 1


class Curve:
    """Predicted seconds as a function of cost, at one moment.

    Beyond `reach`, twice the largest cost ever run, nothing is known: time is assumed to grow in proportion.
    """

    __slots__ = ("a", "k", "reach")

    def __init__(self, a: float, k: float, reach: float) -> None:
        self.a = a
        self.k = k
        self.reach = reach

    def at(self, cost: float) -> float:
        seconds = self.a + self.k * cost
        return seconds if cost <= self.reach else seconds * cost / self.reach


NOTHING_KNOWN = Curve(0.0, 0.0, math.inf)


class Fit:
    """Weighted least squares with forgetting over (cost, seconds)."""

    __slots__ = ("seen", "weight", "cost", "time", "cost2", "cross", "largest", "at", "a", "k")

    def __init__(self) -> None:
        self.seen = 0
        self.weight = self.cost = self.time = self.cost2 = self.cross = 0.0
        self.largest = 0.0
        self.at: float | None = None
        self.a = self.k = 0.0

    def observe(self, cost: float, seconds: float, now: float) -> None:
        if self.seen >= 8:
            seconds = min(seconds, OUTLIER * self.curve(now).at(cost) + 1e-4)
        keep = min(KEEP, self.seen / (self.seen + 2))
        self.seen += 1
        self.weight = self.weight * keep + 1.0
        self.cost = self.cost * keep + cost
        self.time = self.time * keep + seconds
        self.cost2 = self.cost2 * keep + cost * cost
        self.cross = self.cross * keep + cost * seconds
        self.largest = max(self.largest, cost)
        self.at = now
        self._solve()

    def _solve(self) -> None:
        mean_cost, mean_time = self.cost / self.weight, self.time / self.weight
        variance = self.cost2 / self.weight - mean_cost * mean_cost
        covariance = self.cross / self.weight - mean_cost * mean_time
        spread = variance + RIDGE * mean_cost * mean_cost
        self.k = max(0.0, covariance / spread) if spread > 0 else 0.0
        self.a = mean_time - self.k * mean_cost
        if self.a < 0:  # a step never takes less than nothing: fit through the origin
            self.a, self.k = 0.0, self.cross / self.cost2

    def curve(self, now: float) -> Curve:
        if self.at is None:  # read from a file: its age counts from here
            self.at = now
        stale = now - self.at - FRESH
        trust = 1.0 if stale <= 0 else max(OPTIMISM, 0.5 ** (stale / HALF_LIFE))
        return Curve(self.a * trust, self.k * trust, 2 * self.largest or math.inf)


class LatencyModel:
    """The table of fits. A bucket not seen yet borrows from the other buckets of its backend."""

    def __init__(self) -> None:
        self._fits: dict[tuple[str, Hashable], Fit] = {}
        self._pooled: dict[str, Fit] = {}
        self._saved: dict[tuple[str, str], Fit] = {}

    def observe(self, name: str, bucket: Hashable, cost: float, seconds: float, now: float) -> None:
        """A step of backend `name` with total `cost` took `seconds`."""
        fit = self._find(name, bucket)
        if fit is None:
            if len(self._fits) >= MAX_FITS:
                del self._fits[min(self._fits, key=lambda key: self._fits[key].at or -math.inf)]
            fit = self._fits[name, bucket] = Fit()
        fit.observe(cost, seconds, now)
        self._pooled.setdefault(name, Fit()).observe(cost, seconds, now)

    def curve(self, name: str, bucket: Hashable, now: float) -> Curve | None:
        """Seconds by cost for one bucket, or None when this backend has never run."""
        fit = self._find(name, bucket) or self._pooled.get(name)
        return fit.curve(now) if fit is not None else None

    def predict(self, name: str, bucket: Hashable, cost: float, now: float) -> float:
        """Seconds a step will take; 0.0, the most hopeful answer, for a backend that has never run."""
        return (self.curve(name, bucket, now) or NOTHING_KNOWN).at(cost)

    def _find(self, name: str, bucket: Hashable) -> Fit | None:
        fit = self._fits.get((name, bucket))
        if fit is None and self._saved:
            fit = self._saved.pop((name, repr(bucket)), None)
            if fit is not None:
                self._fits[name, bucket] = fit
        return fit

    def save(self, path: Path) -> None:
        """Write the table as JSON, whole or not at all. Buckets are told apart by their repr."""
        named = [(name, repr(bucket), fit) for (name, bucket), fit in list(self._fits.items())]
        named += [(name, bucket, fit) for (name, bucket), fit in list(self._saved.items())]
        rows = [
            {"backend": name, "bucket": bucket, "a": fit.a, "k": fit.k, "largest": fit.largest}
            for name, bucket, fit in named
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + ".new")
        draft.write_text(json.dumps({"version": VERSION, "steps": rows}, indent=1))
        os.replace(draft, path)

    @classmethod
    def load(cls, path: Path) -> LatencyModel:
        """Read what `save` wrote. A file that is missing or unreadable is an empty table: the loop learns anew."""
        model = cls()
        try:
            table = json.loads(path.read_text())
            if table["version"] != VERSION:
                raise ValueError(f"version {table['version']}, not {VERSION}")
            for row in table["steps"][:MAX_FITS]:
                terms = float(row["a"]), float(row["k"]), float(row["largest"])
                model._saved[str(row["backend"]), str(row["bucket"])] = _recalled(*terms)
                model._pooled.setdefault(str(row["backend"]), _recalled(*terms))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("latency table %s is not usable (%s): starting without", path, error)
            return cls()
        return model


def _recalled(a: float, k: float, largest: float) -> Fit:
    """A fit that predicts a + k * cost and yields to new observations within a few steps."""
    if not (math.isfinite(a + k + largest) and a >= 0 and k >= 0 and largest >= 0):
        raise ValueError("terms must be finite and not negative")
    fit = Fit()
    for cost in (largest / 2, largest):
        fit.observe(cost, a + k * cost, 0.0)
    fit.at, fit.a, fit.k = None, a, k
    return fit
