"""The trial of settings: does it do anything, is it good, is it faster, would doing less be as good, does it leak."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workers.gate.effect import effect
from workers.gate.evidence import Evidence, Measured, Verdict
from workers.gate.rounds import Interleaved, timed
from workers.gate.statistics import finite, paired, worst
from workers.gate.subject import Floats, Probing, Settings, Subject, canonical, label
from workers.gate.thresholds import Measure, Thresholds, thresholds

log = logging.getLogger(__name__)

Scores = Mapping[str, Floats]
_CONTROLS = 4
"""Tries to find the plain way to a cost."""


class TooFewItems(ValueError):
    """A trial of so few items proves nothing."""


class Gate:
    """The trials of one subject with one seed. What the reference makes is made once."""

    def __init__(
        self,
        subject: Subject,
        *,
        bars: Thresholds | None = None,
        seed: int = 0,
        tell: Callable[[str], None] = lambda line: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.subject, self.bars, self.seed = subject, bars or thresholds(), seed
        if self.bars.trial.items < 200:
            raise TooFewItems(f"a trial has 200 items at least, not {self.bars.trial.items}")
        self._tell, self._now = tell, now
        self.identity = dict(subject.identity())
        """As it was when the model had been loaded: files may change while the trial goes on."""
        self._measures = self.bars.of(subject.modality)
        self._items: list[Any] = list(subject.items(self.bars.trial.items, seed))
        self._reference: list[Any] = []
        self.outputs: dict[str, list[Any]] = {}
        """What the trials' settings made of the first items, by label; those of the reference under "reference"."""

    @property
    def items(self) -> Sequence[Any]:
        return self._items

    def judge(self, settings: Settings, *, harmful: bool = False, gains: str = "seconds") -> Evidence:
        """The whole trial. Never raises for what the subject does: a failure is a verdict."""
        self._tell(f"{label(settings)}: on trial")
        record = Evidence(
            canonical(settings), Verdict.FAILED, (), self.identity, self.bars.digest, self.seed,
            len(self._items), self._now(), harmful=harmful, gains=gains,
        )  # fmt: skip
        try:
            judged = self._judge(record, settings)
        except Exception as error:
            log.warning("%s of %s failed on trial", record.label, self.subject.name, exc_info=True)
            judged = replace(record, reasons=(f"it could not be run: {type(error).__name__}: {error}"[:500],))
        self._tell(f"{judged.label}: {judged.verdict}{', ' + judged.reasons[0] if judged.reasons else ''}")
        return judged

    def _judge(self, record: Evidence, settings: Settings) -> Evidence:
        rounds = timed(self.subject, [{}, settings], self._items, self.bars, self.seed)
        reference, candidate = rounds.laps
        shown = effect(reference.effect, candidate.effect)
        if not shown.shown and isinstance(self.subject, Probing):
            item = self._items[0]
            shown = effect(self.subject.probe({}, item), self.subject.probe(settings, item))
        speed = rounds.ratio(candidate, seed=self.seed)
        record = replace(record, effect=dict(shown.changed), speed=speed.as_dict(), bytes=rounds.bytes_ratio(candidate))
        if not shown.shown:
            reason = "the same modules ran as often as without it: it does nothing"
            return replace(record, verdict=Verdict.NO_EFFECT, reasons=(reason,))
        made: list[Any] = []
        while True:
            self._extend(made, settings)
            scores, plain = self._scores(made), self._scores(self._reference)
            measures, bad, open_ = self._measured(scores, plain)
            record = replace(record, items=len(made), measures=measures)
            if bad or not open_ or len(made) >= self.bars.trial.most_items:
                break
            wanted = min(2 * len(made), self.bars.trial.most_items)
            self._tell(f"{record.label}: {'; '.join(open_)}; on to {wanted} items")
            self._items = list(self.subject.items(wanted, self.seed))
        self.outputs[record.label], self.outputs["reference"] = made[:32], self._reference[:32]
        if bad:
            return replace(record, verdict=Verdict.HARMFUL, reasons=tuple(bad))
        if open_:
            return replace(record, verdict=Verdict.UNDECIDED, reasons=tuple(open_))
        if slow := self._slow(record):
            return replace(record, verdict=Verdict.NOT_FASTER, reasons=(slow,))
        record, beaten = self._control(record, settings, made, scores, rounds.per_item(candidate))
        if beaten:
            return replace(record, verdict=Verdict.BEATEN, reasons=(beaten,))
        leaks = self.subject.isolation(settings)
        if leaks:
            return replace(record, verdict=Verdict.LEAKS, isolation=tuple(leaks), reasons=tuple(leaks))
        return replace(record, verdict=Verdict.PASSED, reasons=())

    def _extend(self, made: list[Any], settings: Settings) -> None:
        """Outputs for the items that have none yet, of the reference as well."""
        for outputs, how in ((self._reference, {}), (made, settings)):
            if len(outputs) < len(self._items):
                outputs.extend(self.subject.run(how, self._items[len(outputs) :]).outputs)

    def _scores(self, made: Sequence[Any]) -> Scores:
        count = min(len(made), len(self._items))
        found = self.subject.score(self._reference[:count], made[:count], self._items[:count])
        unknown = set(found) - set(self._measures)
        if unknown:
            raise ValueError(f"thresholds.toml has no bar for {', '.join(sorted(unknown))} of {self.subject.modality}")
        return {name: np.asarray(values, np.float64) for name, values in found.items()}

    def _measured(self, scores: Scores, plain: Scores) -> tuple[dict[str, Measured], list[str], list[str]]:
        """By measure; what is wrong; what cannot be told yet."""
        measures: dict[str, Measured] = {}
        bad: list[str] = []
        undecided: list[str] = []
        trial = self.bars.trial
        for name, values in scores.items():
            reference = plain[name][: len(values)]
            test = paired(reference, values, confidence=trial.confidence, resamples=trial.resamples, seed=self.seed)
            cleaned = finite(values)
            low = worst(values, trial.worst_share)
            measures[name] = Measured(
                float(finite(reference).mean()), float(cleaned.mean()), low, test.as_dict(),
                deviation=float(cleaned.std()),
            )  # fmt: skip
            bar = self._measures[name]
            if not bar.judges:
                continue
            if not np.isfinite(values).all():
                bad.append(f"{name}: {int((~np.isfinite(values)).sum())} items have no value")
            elif bar.worst is not None and low < bar.worst:
                bad.append(f"{name}: the worst twentieth has {low:.3f}, at least {bar.worst:g} is needed")
            elif bar.loss is not None and bar.bound is not None:
                if test.least > bar.loss or (test.loss > bar.loss and len(values) >= trial.most_items):
                    bad.append(f"{name}: loses {test.loss:.4f} in the mean, at most {bar.loss:g} may be lost")
                elif test.loss > bar.loss or test.most > bar.bound:
                    undecided.append(
                        f"{name}: loses {test.loss:.4f}, it may be {test.most:.4f} (bars {bar.loss:g}, {bar.bound:g})"
                    )
        return measures, bad, undecided

    def _slow(self, record: Evidence) -> str:
        """Why it is not worth it; "" when it is."""
        bars, speed = self.bars.speed, record.speed
        assert speed is not None
        spread = f"{speed['median']:.2f}x ({speed['low']:.2f} to {speed['high']:.2f} over {speed['rounds']} rounds)"
        if record.gains == "bytes":
            if record.bytes is None or record.bytes < bars.least:
                return f"it holds no less: {record.bytes if record.bytes is not None else 1.0:.2f}x"
            slow = speed["median"] * bars.slowest < 1
            return f"{spread}, at most {bars.slowest:g} times slower may it be" if slow else ""
        return "" if speed["least"] >= bars.least else f"{spread}, surely {bars.least:g}x is needed"

    def _control(
        self, record: Evidence, settings: Settings, made: Sequence[Any], scores: Scores, cost: float
    ) -> tuple[Evidence, str]:
        """The record with the control in it, and how it wins; "" when it does not, or there is none. `cost` of the
        option, seconds for an item."""
        if record.gains != "seconds":
            return record, ""
        found = self._same_cost(settings, cost)
        if found is None:
            return record, ""
        control, rounds = found
        _, candidate, plain = rounds.laps
        cheaper = rounds.ratio(plain, candidate, self.seed).median * self.bars.speed.same_cost >= 1
        output: list[Any] = []
        output.extend(self.subject.run(control, self._items[: len(made)]).outputs)
        theirs = self._scores(output)
        theirs_measured, bad, _ = self._measured(theirs, self._scores(self._reference[: len(made)]))
        self.outputs[f"{record.label} control"] = output[:32]
        measures = {
            name: replace(one, control=theirs_measured[name].candidate, control_worst=theirs_measured[name].worst)
            for name, one in record.measures.items()
        }
        speed = rounds.ratio(plain, seed=self.seed).median
        record = replace(record, measures=measures, control=canonical(control), control_speed=speed)
        if bad or not cheaper or self._better(scores, theirs):
            return record, ""
        return record, f"{label(control)} costs the same ({speed:.2f}x) and is no worse in any measure"

    def _same_cost(self, settings: Settings, wanted: float) -> tuple[Settings, Interleaved] | None:
        """The plain way to the candidate's measured cost, measured in turns with it; None: there is none."""
        best: tuple[Settings, Interleaved] | None = None
        for _ in range(_CONTROLS):
            control = self.subject.control(wanted)
            if control is None or set(canonical(control)) == set(canonical(settings)) or not canonical(control):
                return best
            if best is not None and canonical(control) == canonical(best[0]):
                return best
            rounds = Interleaved(self.subject, [{}, settings, control], self._items, self.bars)
            rounds.more(self.bars.speed.rounds)
            best = control, rounds
            dearer = 1 / rounds.ratio(rounds.laps[2], rounds.laps[1], self.seed).median
            if 2 - self.bars.speed.same_cost <= dearer <= self.bars.speed.same_cost:
                return best
            wanted /= dearer
        return best

    def _better(self, ours: Scores, theirs: Scores) -> bool:
        """Whether the option is surely better than the control in anything that judges."""
        trial = self.bars.trial
        for name, values in ours.items():
            bar: Measure = self._measures[name]
            if not bar.judges:
                continue
            count = min(len(values), len(theirs[name]))
            test = paired(
                values[:count], theirs[name][:count], confidence=trial.confidence, resamples=trial.resamples,
                seed=self.seed,
            )  # fmt: skip
            if test.least > 0 and test.p < 1 - trial.confidence:
                return True
        return False
