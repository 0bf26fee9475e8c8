"""The bars, as thresholds.toml has them."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Measure:
    """What one may lose: see thresholds.toml. None: not judged by it."""

    why: str
    loss: float | None = None
    bound: float | None = None
    worst: float | None = None
    judges: bool = True
    live: float | None = None


@dataclass(frozen=True, slots=True)
class TrialBars:
    items: int
    most_items: int
    confidence: float
    resamples: int
    worst_share: float


@dataclass(frozen=True, slots=True)
class SpeedBars:
    rounds: int
    most_rounds: int
    items: int
    least: float
    slowest: float
    same_cost: float


@dataclass(frozen=True, slots=True)
class LiveBars:
    share: float
    most_waiting: int
    slack: float
    alarm: float


@dataclass(frozen=True, slots=True)
class Rule:
    """Of two options together."""

    options: frozenset[str]
    rule: Literal["test", "refuse"]
    why: str


@dataclass(frozen=True, slots=True)
class Thresholds:
    """`digest` names the file's contents, so that evidence says by which bars it was judged."""

    trial: TrialBars
    speed: SpeedBars
    live: LiveBars
    measures: Mapping[str, Mapping[str, Measure]]
    together: tuple[Rule, ...]
    digest: str

    def of(self, modality: str) -> Mapping[str, Measure]:
        """Raises KeyError for a modality that nobody has set bars for."""
        return self.measures[modality]

    def rule(self, first: str, second: str) -> Rule:
        """What holds for two options; refused when nothing is written down."""
        wanted = frozenset((first, second))
        for rule in self.together:
            if rule.options == wanted:
                return rule
        return Rule(wanted, "refuse", "nobody has looked at these two together yet")

    def with_trial(self, **changed: Any) -> Thresholds:
        """Other numbers of items, for whoever has the time."""
        return replace(self, trial=replace(self.trial, **changed))


@cache
def thresholds(path: Path | None = None) -> Thresholds:
    """Those of the package, or of a file. Raises ValueError when a measure has no reason."""
    text = (path or files("workers.gate").joinpath("thresholds.toml")).read_text("utf-8")
    table = tomllib.loads(text)
    measures = {
        modality: {name: Measure(**bars) for name, bars in found.items()}
        for modality, found in table["measures"].items()
    }
    for modality, found in measures.items():
        for name, measure in found.items():
            if not measure.why or (measure.judges and (measure.loss is None) == (measure.worst is None)):
                raise ValueError(f"measures.{modality}.{name}: give a reason, and loss or worst")
            if measure.loss is not None and measure.bound is None:
                raise ValueError(f"measures.{modality}.{name}: loss goes with bound")
    return Thresholds(
        TrialBars(**table["trial"]),
        SpeedBars(**table["speed"]),
        LiveBars(**table["live"]),
        measures,
        tuple(Rule(frozenset(rule["options"]), rule["rule"], rule["why"]) for rule in table["together"]),
        hashlib.sha256(text.encode()).hexdigest()[:12],
    )
