"""One run of so many clients and what came of it: what kinds of clients have in common, and who searches for a number.

A kind of client is a class with `run`; it holds its own settings, such as the objective that its work must meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from load.harness.watch import Watched
from load.service import Running


@dataclass(frozen=True, slots=True)
class Objective:
    """At most `seconds` for the latency called `latency`: one that every unit of work has once."""

    latency: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of work of one client: a recording heard, a text spoken, a turn, a request, a job.

    Seconds from the beginning of the run. `due`: when its latency begins to count; `ended`: when what was asked for had
    come, None when it never did. `late`: it missed the objective.
    """

    client: int
    due: float
    ended: float | None
    late: bool
    said: str = ""


@dataclass(slots=True)
class Outcome:
    """What came of one run. A client is offered to the service; it is admitted, or refused, or it fails (`problems`).

    `ended`: units of work that came to their end; `late`: those of them that missed the objective. `latencies`: seconds
    by name, one value for each time that it was seen. `problems`: promises that were broken, answers that are wrong,
    clients that failed; of each at most `MOST`, then only `counts["problems"]` rises. `limits`: how the clients
    themselves were too slow for the figures to be those of the service.
    """

    offered: int
    admitted: int = 0
    refused: int = 0
    ended: int = 0
    late: int = 0
    latencies: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    errors: list[float] = field(default_factory=list)
    """Word error rate of each client in percent, where words can be compared."""
    problems: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    watched: Watched | None = None
    track: dict[str, Any] | None = None
    """One stream of live transcription from its first sample to its last word, for a plot."""

    @property
    def client_limited(self) -> bool:
        """These clients were too slow; `limits` says how."""
        return bool(self.limits)

    def took(self, latency: str, seconds: float) -> None:
        """One more value of a latency."""
        self.latencies.setdefault(latency, []).append(seconds)

    def count(self, name: str, more: int = 1) -> None:
        """So many more of something that is told beside the latencies."""
        self.counts[name] = self.counts.get(name, 0) + more

    def end(self, unit: Unit) -> None:
        """A unit of work is over, whichever way."""
        self.units.append(unit)
        if unit.ended is not None:
            self.ended += 1
            self.late += unit.late

    def wrong(self, problem: str) -> None:
        """Something that must not be."""
        self.count("problems")
        if len(self.problems) < MOST:
            self.problems.append(problem)


MOST = 50
"""Problems of a run that are kept in words; a service that fails every request has thousands."""


class Begun(Protocol):
    """Is given an outcome, to look at while it is filled."""

    def __call__(self, out: Outcome) -> None: ...


def unseen(out: Outcome) -> None:
    """Nobody looks."""


class Trial(Protocol):
    """A kind of client with its settings; `begun` is told when clients begin to come."""

    begun: Begun

    @property
    def kind(self) -> str:
        """asr, tts, voice, embed, jobs."""

    @property
    def objective(self) -> Objective:
        """What each unit of work must meet."""

    @property
    def own(self) -> str:
        """The latency in which nothing but these clients takes time when the service answers at once."""

    async def run(self, running: Running, clients: int, seconds: float, seed: int) -> Outcome:
        """`clients` at the service for `seconds`, with everything random from `seed`; returns when all have ended.

        What goes wrong, with the service or the connection, is in the outcome.
        """


def changed(trial: Trial, **fields: Any) -> Trial:
    """The same kind of client with other settings; those that it does not have are left out."""
    own: Any = trial
    made: Trial = replace(own, **{name: value for name, value in fields.items() if hasattr(trial, name)})
    return made
