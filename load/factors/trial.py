"""Engines in turns over the same utterances: what each costs beside the served one, and what it does to the words."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jiwer
import numpy as np
from whisper_normalizer.english import EnglishTextNormalizer

from load.factors.factor import Factor
from load.factors.live import PARTS, Engine, Played, play
from speech.asr import SAMPLE_RATE, Samples

WORTH = 0.95
"""Share of the served cost that a factor may surely take at most to be worth its code."""
LOSS = 0.3
"""Points of word error rate that may be lost."""
_RESAMPLES = 1000
_normal = EnglishTextNormalizer()


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A recording (mono float32, 16 kHz), and what is said in it."""

    samples: Samples
    text: str


@dataclass(slots=True)
class Row:
    """One engine over all lines. `cost` by line, of all rounds, CPU seconds."""

    cost: list[float] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    texts: list[str] = field(default_factory=list)

    def add(self, number: int, played: Played) -> None:
        if number == len(self.cost):
            self.cost.append(0.0)
            self.texts.append(_normal(played.text).strip())
        self.cost[number] += played.seconds
        for part, seconds in played.spent.items():
            self.parts[part] += seconds


def measure(
    engines: Mapping[str, Engine], lines: Sequence[Line], rounds: int, seed: int, done: Callable[[], None]
) -> dict[str, Row]:
    """Every line through every engine, in an order that changes from line to line."""
    rows = {name: Row() for name in engines}
    chance = random.Random(seed)
    for engine in engines.values():
        play(engine, lines[0].samples)  # what is loaded or compiled at the first use is not its cost
    for _ in range(rounds):
        for number, line in enumerate(lines):
            for name in chance.sample(list(engines), len(engines)):
                rows[name].add(number, play(engines[name], line.samples))
            done()
    return rows


@dataclass(frozen=True, slots=True)
class Found:
    """A factor beside the served engine. `ratio`: its cost over that, with the bounds of a bootstrap over the lines
    (5 and 95 %); `errors`: word error rates in percent, the served engine's first; `same`: share of equal texts.
    """

    factor: Factor
    ratio: float
    low: float
    high: float
    errors: tuple[float, float]
    same: float
    parts: Mapping[str, float]

    @property
    def loss(self) -> float:
        """Points of word error rate that it costs; negative where it mends some."""
        return self.errors[1] - self.errors[0]

    @property
    def verdict(self) -> tuple[bool, str]:
        """Whether it is worth having, and why not."""
        if self.same < 1 and self.loss > LOSS:
            return False, f"{self.loss:.2f} points more wrong words"
        if self.factor.better:
            return self.loss < -LOSS, "" if self.loss < -LOSS else "does not mend enough words"
        return self.high < WORTH, "" if self.high < WORTH else f"not surely below {WORTH:g} of the cost"


def compared(factor: Factor, served: Row, tried: Row, lines: Sequence[Line], seed: int = 0) -> Found:
    """`served` is the engine as it serves. Of a factor that it has already, `tried` is the engine without it."""
    before, after = (tried, served) if factor.served else (served, tried)
    first, second = np.array(before.cost), np.array(after.cost)
    chance = np.random.default_rng(seed)
    picks = chance.integers(0, len(first), (_RESAMPLES, len(first)))
    ratios = second[picks].sum(1) / first[picks].sum(1)
    low, high = (float(one) for one in np.quantile(ratios, (0.05, 0.95)))
    spoken = [_normal(line.text) for line in lines]
    wrong = 100 * jiwer.wer(spoken, before.texts), 100 * jiwer.wer(spoken, after.texts)
    same = float(np.mean([a == b for a, b in zip(before.texts, after.texts, strict=True)]))
    parts = {name: after.parts[name] / before.parts[name] for name in PARTS if before.parts[name]}
    return Found(factor, float(second.sum() / first.sum()), low, high, wrong, same, parts)


def told(found: Found) -> dict[str, Any]:
    """Fit for JSON."""
    on, why = found.verdict
    return {
        "name": found.factor.name, "side": found.factor.side, "what": found.factor.what, "served": found.factor.served,
        "cost": found.ratio, "cost_low": found.low, "cost_high": found.high, "parts": dict(found.parts),
        "word_error_rate": found.errors[1], "word_error_rate_without": found.errors[0], "same_texts": found.same,
        "on": on, "why": why,
    }  # fmt: skip


def audio(lines: Sequence[Line]) -> float:
    """Seconds of all of them."""
    return sum(len(line.samples) for line in lines) / SAMPLE_RATE
