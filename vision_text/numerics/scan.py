"""Which steps and which blocks bear a lower precision: measured on the model, one cell of the table at a time.

What is often said (the first and last steps and the outer blocks need the high precision) is one of the candidates
here, and so is its opposite; each is given as many low cells as the plan that was found, and the table shows all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vision_text.numerics.formats import Format
from vision_text.numerics.plan import PrecisionPlan

Runner = Callable[[PrecisionPlan], npt.NDArray[np.floating[Any]]]
"""Makes the same items under a plan: the same prompts and seeds each time, items along the first axis."""

Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """`damage` (bands, layers): the mean square error against the reference when that cell alone is low. `peak`: the
    range of the values, for decibels."""

    plan: PrecisionPlan
    low: Format
    damage: npt.NDArray[np.float64]
    reference: npt.NDArray[np.floating[Any]]
    peak: float

    def ranked(self) -> list[Cell]:
        """Cells, the most patient first."""
        bands, layers = self.damage.shape
        return sorted(((b, n) for b in range(bands) for n in range(layers)), key=lambda cell: self.damage[cell])

    def decibels(self) -> npt.NDArray[np.float64]:
        """PSNR of each cell lowered alone."""
        return 10 * np.log10(self.peak**2 / np.maximum(self.damage, 1e-20))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan and its PSNR in decibels: the mean error's, and the worst item's."""

    plan: PrecisionPlan
    db: float
    worst_db: float
    low_cells: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the scan decided. `others`: "outer_high", "outer_low" (the opposite) and "all_low", measured for comparison;
    the first two with as many low cells as the plan."""

    best: Candidate
    others: Mapping[str, Candidate]
    runs: int

    def as_dict(self) -> dict[str, object]:
        """For the evidence record."""
        rows = {"scan": self.best, **self.others}
        figures = {
            name: {"db": one.db, "worst_db": one.worst_db, "low_cells": one.low_cells} for name, one in rows.items()
        }
        return {"plan": self.best.plan.as_dict(), "runs": self.runs, "candidates": figures}


def scan(run: Runner, layers: Sequence[str], low: Format, *, bands: int = 4, peak: float = 1.0) -> Sensitivity:
    """Lower each cell alone: bands times layers runs and one of the reference. Takes that many times `run`."""
    plan = PrecisionPlan.uniform("float32", layers, bands)
    reference = run(plan)
    damage = np.zeros((bands, len(layers)))
    for band in range(bands):
        for layer in range(len(layers)):
            damage[band, layer] = _errors(run(plan.with_cells([(band, layer)], low)), reference).mean()
    return Sensitivity(plan, low, damage, reference, peak)


def choose(sensitivity: Sensitivity, run: Runner, *, floor_db: float) -> Chosen:
    """The most cells low with the worst item at `floor_db` or above, as measured with all of them low together: damage
    does not simply add up, so the sum of the single ones decides only the order in which cells are tried."""
    ranked, tried = sensitivity.ranked(), dict[int, Candidate]()

    def measured(count: int) -> Candidate:
        if count not in tried:
            tried[count] = _candidate(sensitivity, run, ranked[:count])
        return tried[count]

    passing, failing = 0, len(ranked) + 1
    while failing - passing > 1:
        middle = (passing + failing) // 2
        if measured(middle).worst_db >= floor_db:
            passing = middle
        else:
            failing = middle
    best = measured(passing)
    others = {"all_low": measured(len(ranked))}
    if 0 < passing < len(ranked):
        # By place alone: ties in the order of the table, and not in that of the scan, which would lend it its findings.
        by_place = sorted(sorted(ranked), key=lambda cell: _outerness(cell, sensitivity.damage.shape))
        others["outer_high"] = _candidate(sensitivity, run, by_place[:passing])
        others["outer_low"] = _candidate(sensitivity, run, by_place[::-1][:passing])
    runs = len(tried) + len(others) - 1 + sensitivity.damage.size + 1
    return Chosen(best, others, runs)


def _candidate(sensitivity: Sensitivity, run: Runner, cells: Sequence[Cell]) -> Candidate:
    plan = sensitivity.plan.with_cells(cells, sensitivity.low)
    errors = _errors(run(plan), sensitivity.reference) if cells else np.zeros(len(sensitivity.reference))
    return Candidate(plan, _db(errors.mean(), sensitivity.peak), _db(errors.max(), sensitivity.peak), len(cells))


def _outerness(cell: Cell, shape: tuple[int, ...]) -> tuple[float, float]:
    """0 in the middle of steps and of layers, 1 at the first and the last of either; then the same of both together."""
    away = [abs(2 * place / (count - 1) - 1) if count > 1 else 0.0 for place, count in zip(cell, shape, strict=True)]
    return max(away), sum(away)


def _errors(made: npt.NDArray[np.floating[Any]], reference: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """The mean square error of each item; infinite where anything is no number."""
    difference = (made.astype(np.float64) - reference.astype(np.float64)).reshape(len(reference), -1)
    errors = (difference**2).mean(1)
    return np.where(np.isfinite(errors), errors, np.inf)


def _db(error: float, peak: float) -> float:
    """At most 200, for what is equal."""
    return round(float(10 * np.log10(peak**2 / max(error, 1e-20 * peak**2))), 3) if np.isfinite(error) else -200.0
