"""One run of so many clients and what came of it: what kinds of clients have in common, and who searches for a number.

A kind of client is a class with `run`; it holds its own settings, such as the objective that its utterances must meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from load.service import Running

if TYPE_CHECKING:
    from load.harness.watch import Watched


@dataclass(frozen=True, slots=True)
class Objective:
    """At most `seconds` for the latency called `latency`: one that every unit of work has once."""

    latency: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of work of one client on the timeline of a run: an utterance, a text spoken, a turn, a request, a job.

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
    by name, one value for each time that it was seen. `shares`: numbers between 0 and 1 by name, one for each client or
    unit, such as the word error rate of a stream. `problems`: promises of the protocol that were broken, answers that
    are wrong, clients that failed. `client_limited`: these clients themselves were too slow for the figures to be those
    of the service; `limits` says how.
    """

    offered: int
    admitted: int = 0
    refused: int = 0
    ended: int = 0
    late: int = 0
    latencies: dict[str, list[float]] = field(default_factory=dict)
    shares: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    watched: Watched | None = None

    @property
    def client_limited(self) -> bool:
        return bool(self.limits)

    def took(self, latency: str, seconds: float) -> None:
        """One more value of a latency."""
        self.latencies.setdefault(latency, []).append(seconds)

    def share(self, name: str, value: float) -> None:
        """One more value of a share."""
        self.shares.setdefault(name, []).append(value)

    def count(self, name: str, more: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + more

    def end(self, unit: Unit) -> None:
        """A unit of work is over, whichever way."""
        self.units.append(unit)
        if unit.ended is not None:
            self.ended += 1
            self.late += unit.late


class Trial(Protocol):
    """A kind of client with its settings."""

    @property
    def kind(self) -> str:
        """asr, tts, voice, embed, jobs."""

    @property
    def objective(self) -> Objective:
        """What each unit of work must meet."""

    async def run(self, running: Running, clients: int, seconds: float, seed: int) -> Outcome:
        """`clients` at the service for `seconds`, with everything random from `seed`; returns when all have ended.

        What the service does wrong is in the outcome; raises only when nothing can be measured (OSError: no service).
        """
