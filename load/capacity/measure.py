"""The largest number of clients that meet a goal at a running service, by a search whose steps are real runs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from load.capacity.goal import Goal, Verdict
from load.capacity.search import Phase, Search
from load.harness.progress import Shown
from load.harness.trial import Outcome, Trial
from load.overload import emptied
from load.scoring import quantiles
from load.service import Running
from workers.capacity import OPEN

ALONE = "alone"
ROUND = 90.0
"""Seconds in which one client says every recording of the repository once, which others are compared with."""
_SLACK = 1.15
"""By which a run is longer than it should have to be."""


@dataclass(frozen=True, slots=True)
class Plan:
    """From `start` clients to `most`, `seconds` for a step. What is found is held for as long as showing it takes, at
    least `hold` and at most `longest` seconds."""

    start: int = 1
    most: int = 256
    seconds: float = 60.0
    hold: float = 120.0
    longest: float = 1800.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """So many clients for so long, and what came of it. `busy`: the utilisation of the fullest device, at most."""

    phase: str
    clients: int
    seconds: float
    outcome: Outcome
    verdict: Verdict
    busy: float

    def row(self, latency: str) -> tuple[str, ...]:
        """For a table under `HEAD`; milliseconds of the goal's latency."""
        figures = quantiles(self.outcome.latencies.get(latency, []))
        took = "-" if figures["p50"] is None else f"{figures['p50']:.0f} / {figures['p95']:.0f}"
        errors = self.outcome.errors
        bars = self.verdict.seen
        return (
            f"{self.phase} {self.clients}", f"{self.seconds:.0f} s", str(self.outcome.ended), took,
            ", ".join(f"{one.bad} ≤ {100 * one.most:.1f} %" for one in bars),
            f"{sum(errors) / len(errors):.1f} %" if errors else "-", str(self.outcome.refused),
            f"{100 * self.busy:.0f} %", "client late" if self.outcome.client_limited else "",
            "passed" if self.verdict.passed else "failed",
        )  # fmt: skip

    def told(self) -> dict[str, Any]:
        """For JSON."""
        outcome = self.outcome
        return {
            "phase": self.phase, "clients": self.clients, "seconds": round(self.seconds, 1),
            "admitted": outcome.admitted, "refused": outcome.refused, "ended": outcome.ended,
            "passed": self.verdict.passed, "missed": list(self.verdict.missed),
            "bars": [
                {"name": one.bar.name, "bad": one.bad, "of": one.of, "allowed": one.bar.allowed,
                 "at_most": one.most, "confidence": one.confidence}
                for one in self.verdict.seen
            ],
            "milliseconds": {name: quantiles(values) for name, values in outcome.latencies.items()},
            "word_error_rates": [round(one, 2) for one in outcome.errors],
            "busy": self.busy, "limits": outcome.limits, "problems": outcome.problems,
        }  # fmt: skip


HEAD = ("clients", "for", "units", "p50 / p95 ms", "bad, share at most", "words", "refused", "busy", "", "")


@dataclass(slots=True)
class Found:
    """`count` clients, 0 while there is no number; then `why` says why not. `held`: the run that showed it. `alone`:
    word error rates of one client alone."""

    count: int = 0
    why: str = ""
    runs: list[Run] = field(default_factory=list)
    held: Run | None = None
    alone: Sequence[float] = ()


class Measuring:
    """Runs of `trial` at `running` that are judged by `goal` and told on `out`. `alone`: word error rates
    of one client alone; the run `ALONE` finds them."""

    def __init__(
        self, trial: Trial, running: Running, goal: Goal, seed: int, out: Console, alone: Sequence[float] = ()
    ) -> None:
        self._trial, self._running, self._goal, self._out = trial, running, goal, out
        self._seed = seed
        self.runs: list[Run] = []
        self.alone = alone

    def run(self, phase: str, clients: int, seconds: float, *, refusals: int = 0) -> Run:
        """One run, every one with another seed, at a service that nobody else is at. Raises SystemExit when it is."""
        seed = self._seed + len(self.runs)
        with Shown(self._out, f"{phase} {clients}", round(seconds), self._trial.objective) as shown:
            self._trial.begun = shown.begun
            outcome = asyncio.run(self._one(clients, seconds, seed))
        strict = phase not in (Phase.TRY, Phase.AGAIN, ALONE)
        verdict = self._goal.judge(outcome, self.alone, refusals=refusals, strict=strict)
        if phase == ALONE:
            self.alone = outcome.errors
        done = Run(phase, clients, seconds, outcome, verdict, _busy(outcome))
        self.runs.append(done)
        said = "; ".join(map(str, verdict.seen))
        why = f", {'; '.join(verdict.missed)}" if verdict.missed else ""
        self._out.print(
            f"{phase} {clients}: {'passed' if verdict.passed else 'failed'} ({said}){why}",
            highlight=False,
            markup=False,
        )
        return done

    async def _one(self, clients: int, seconds: float, seed: int) -> Outcome:
        await emptied(self._running)
        return await self._trial.run(self._running, clients, seconds, seed)

    def seconds_to_show(self, clients: int) -> tuple[float, float]:
        """How long so many clients must run to show that the goal is met: at best, and as they are likely to do.

        They are likely to do as the most that passed and were not more. inf: that would not do.
        """
        below = [run for run in reversed(self.runs) if run.verdict.passed and run.clients <= clients]
        like = max(below, key=lambda run: run.clients) if below else None
        run = like or self.runs[-1]
        pace = run.outcome.ended / (run.clients * run.seconds) * clients
        best = self._goal.units_needed(run.outcome, at_best=True)
        likely = self._goal.units_needed(run.outcome) if like is not None else best
        return _seconds(best, pace), _seconds(likely, pace)


def _seconds(units: int | None, pace: float) -> float:
    return _SLACK * units / pace if units is not None and pace > 0 else math.inf


def measure(trial: Trial, running: Running, goal: Goal, plan: Plan, out: Console) -> Found:
    """Search at a service that admits everybody."""
    measuring = Measuring(trial, running, goal, plan.seed, out)
    found = Found(runs=measuring.runs)
    if running.capacity() < OPEN:
        found.why = "the service admits by its own number: start it with --admission everybody to measure it"
        return found
    search = Search(plan.start, plan.most)
    if goal.word_errors is not None:
        done = measuring.run(ALONE, 1, max(plan.seconds, ROUND))
        if done.verdict.passed and plan.start == 1 < plan.most:
            search = Search(2, plan.most, passed=1)
    while (step := search.next) is not None:
        if step.phase is Phase.HOLD:
            found.held, found.why = _hold(measuring, step.count, goal, plan, out)
            if not found.why:
                search.tell(found.held is not None)
        else:
            done = measuring.run(step.phase, step.count, plan.seconds)
            found.why = _useless(done)
            search.tell(done.verdict.passed, sure=done.verdict.sure)
        if found.why:
            found.why += f"; {search.passed} passed before"
            return found
    found.count, found.alone = search.found, measuring.alone
    if not found.count:
        missed = "; ".join(measuring.runs[-1].verdict.missed) or "it could not be shown"
        found.why = f"{f'{search.passed} passed, and' if search.passed else 'not even one client passed;'} {missed}"
    return found


def _hold(measuring: Measuring, count: int, goal: Goal, plan: Plan, out: Console) -> tuple[Run | None, str]:
    """(the run in which it was shown that so many are well, why the search has to end)."""
    best, likely = measuring.seconds_to_show(count)
    if best > plan.longest:
        return None, (
            f"to show with {100 * goal.confidence:g} % confidence that {count} are well takes {best:.0f} s at best, "
            f"and --longest is {plan.longest:g}"
        )
    if likely > plan.longest:
        long = f"takes {likely:.0f} s" if math.isfinite(likely) else "is too close to the objective"
        out.print(f"{Phase.HOLD} {count}: {long} to be shown, --longest is {plan.longest:g}", highlight=False)
        return None, ""
    done = measuring.run(Phase.HOLD, count, max(plan.hold, likely))
    if done.verdict.passed and done.verdict.confidence < goal.confidence:
        out.print(f"which is shown with {100 * done.verdict.confidence:.0f} % confidence only", highlight=False)
        return None, ""
    return (done, "") if done.verdict.passed else (None, _useless(done))


def _useless(run: Run) -> str:
    """Why a run says nothing of the service; empty when it does."""
    outcome, clients = run.outcome, run.clients
    if outcome.refused:
        return f"the service refused {outcome.refused} of {clients} clients: see its --max-sessions and other limits"
    if run.verdict.passed or not run.verdict.limited:
        return ""
    return (
        f"with {clients} these clients are the limit, not the service ({'; '.join(outcome.limits)}): run them on "
        "another machine, or give the service processors of its own with --cpus"
    )


def _busy(outcome: Outcome) -> float:
    sights = outcome.watched.sights if outcome.watched is not None else []
    return min(1.0, max((one.utilisation for one in sights), default=1.0))
