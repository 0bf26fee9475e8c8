"""What a number of clients must meet to count as carried, and whether one run met it, and how surely."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from load.capacity.binomial import CONFIDENCE, lower_bound, shown, trials_needed, upper_bound
from load.harness.trial import Outcome
from load.harness.tts import FIRST, UNDERRUNS, UTTERANCES
from load.playing import UNDERRUN

LATE = 0.05
"""Share of units that may be late: p95."""
UNDERRUN_SHARE = 0.001
WORD_ERRORS = 1.0
"""Percent of words by which clients together may do worse than one alone, beside what chance explains."""
SILENCES = "silence in the sound"
_LIKELY = 0.8
"""With what is likely: a few bad ones in a short run may be bad luck, and are not held against it."""
_CHANCE = 1.645
"""Standard errors: 95 %, one-sided."""

Counted = tuple[int, int]
"""(bad ones, all of them)."""


@dataclass(frozen=True, slots=True)
class Bar:
    """At most the share `allowed` of what `count` counts may be bad.

    `count` is given an outcome and the seconds that are forgiven, for the clients may be late themselves. `spare`: bad
    ones for which there is room when a run is made long enough to show that the bar is held.
    """

    name: str
    allowed: float
    count: Callable[[Outcome, float], Counted]
    spare: int = 4


@dataclass(frozen=True, slots=True)
class Seen:
    """A bar in one run. `least`: the share that is bad is no smaller, likely; `most`: it is no larger, with the goal's
    confidence; `confidence`: that with which it is no larger than allowed."""

    bar: Bar
    bad: int
    of: int
    least: float
    most: float
    confidence: float
    missed_surely: bool

    def met(self, strict: bool) -> bool:
        """By what was counted, or, when not `strict`, by what may well be."""
        share = self.bad / self.of if strict and self.of else self.least
        return self.of > 0 and share <= self.bar.allowed

    def __str__(self) -> str:
        return f"{self.bad} of {self.of} {self.bar.name}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`missed`: what was not met, in words; nothing: the run passed. `sure`: one of it was missed beyond doubt.
    `limited`: it would have passed if these clients had been in time themselves, so it says nothing of the service.
    """

    seen: tuple[Seen, ...]
    missed: tuple[str, ...]
    sure: bool
    limited: bool

    @property
    def passed(self) -> bool:
        return not self.missed

    @property
    def confidence(self) -> float:
        """With which all bars were shown to be held."""
        return min((one.confidence for one in self.seen), default=0.0) if self.passed else 0.0


@dataclass(frozen=True, slots=True)
class Goal:
    """`within`: seconds of the latency that late units missed; in words it is `objective`. `word_errors`: percent by
    which the words may be worse than those of one client alone; None: they are not looked at."""

    objective: str
    within: float
    bars: tuple[Bar, ...]
    word_errors: float | None = None
    confidence: float = CONFIDENCE

    def judge(
        self, outcome: Outcome, alone: Sequence[float] = (), *, refusals: int = 0, strict: bool = True
    ) -> Verdict:
        """`alone`: word error rates of one client alone. `refusals`: clients that may be refused. `strict`: no more may
        be late than is allowed; else more may, when chance explains it, for in a short run one is a large share."""
        seen = tuple(self._see(bar, outcome, 0.0) for bar in self.bars)
        wrong = [*dict.fromkeys(outcome.problems)][:3]
        if outcome.refused > refusals:
            wrong.append(f"{outcome.refused} of {outcome.offered} clients were refused")
        wrong += self._worse(outcome.errors, alone)
        late = [str(one) for one in seen if not one.met(strict)]
        limited = False
        if late and not wrong and outcome.watched is not None:
            forgiven = outcome.watched.client_lag(0.99)
            limited = outcome.client_limited and all(self._see(bar, outcome, forgiven).met(strict) for bar in self.bars)
        return Verdict(seen, tuple(wrong + late), any(one.missed_surely for one in seen), limited)

    def units_needed(self, outcome: Outcome, *, at_best: bool = False) -> int | None:
        """Units (those that end) a run must have to show it, when they are as bad as those of `outcome`, or `at_best`.

        None: it cannot be shown.
        """
        found = []
        for bar in self.bars:
            bad, of = bar.count(outcome, 0.0)
            if not of:
                return None
            share = 0.0 if at_best else lower_bound(bad, of, _LIKELY)
            trials = trials_needed(bar.allowed, self.confidence, share, 0 if at_best else bar.spare)
            if trials is None:
                return None
            found.append(math.ceil(trials * outcome.ended / of))
        return max(found)

    def _see(self, bar: Bar, outcome: Outcome, forgiven: float) -> Seen:
        bad, of = bar.count(outcome, forgiven)
        return Seen(
            bar,
            bad,
            of,
            least=lower_bound(bad, of, _LIKELY) if of else 0.0,
            most=upper_bound(bad, of, self.confidence),
            confidence=shown(bad, of, bar.allowed),
            missed_surely=of > 0 and lower_bound(bad, of, self.confidence) > bar.allowed,
        )

    def _worse(self, errors: Sequence[float], alone: Sequence[float]) -> list[str]:
        """Words that are worse than those of one client alone by more than chance explains."""
        if self.word_errors is None or not errors or not alone:
            return []
        chance = _CHANCE * stdev(errors) / math.sqrt(len(errors)) if len(errors) > 1 else math.inf
        now, before = fmean(errors), fmean(alone)
        if now - chance <= before + self.word_errors:
            return []
        return [f"{now:.1f} % of the words are wrong, and {before:.1f} % of one client's alone"]


def hearing(
    within: float = 1.0, late: float = LATE, word_errors: float = WORD_ERRORS, confidence: float = CONFIDENCE
) -> Goal:
    """Of streams that speak."""
    objective = (
        f"p{100 * (1 - late):g} of end of speech → final ≤ {within:g} s, no final lost, "
        f"word errors at most {word_errors:g} points over those of one stream alone"
    )
    bar = Bar(f"finals later than {within:g} s", late, lambda out, more: _later(out, within + more))
    return Goal(objective, within, (bar,), word_errors, confidence)


def speaking(
    within: float = 1.0, late: float = LATE, underruns: float = UNDERRUN_SHARE, confidence: float = CONFIDENCE
) -> Goal:
    """Of listeners to a voice."""
    objective = (
        f"at most {100 * underruns:g} % of utterances with an underrun, "
        f"p{100 * (1 - late):g} of first sound ≤ {within:g} s"
    )
    bars = (
        Bar("utterances with an underrun", underruns, _underruns, spare=0),
        Bar(f"first sounds later than {within:g} s", late, lambda out, more: _first(out, within + more)),
    )
    return Goal(objective, within, bars, confidence=confidence)


def _later(outcome: Outcome, within: float) -> Counted:
    ended = [one.ended - one.due for one in outcome.units if one.ended is not None]
    return sum(took > within for took in ended), len(ended)


def _first(outcome: Outcome, within: float) -> Counted:
    took = outcome.latencies.get(FIRST, [])
    return sum(one > within for one in took), len(took)


def _underruns(outcome: Outcome, forgiven: float) -> Counted:
    """A gap that is no longer than what is forgiven may be the client's own."""
    gaps = sum(gap > UNDERRUN + forgiven for gap in outcome.latencies.get(SILENCES, []))
    return min(outcome.counts.get(UNDERRUNS, 0), gaps), outcome.counts.get(UTTERANCES, 0)
