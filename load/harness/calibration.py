"""What the clients themselves cost: the same run against a service that thinks nothing, and what follows from it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np

from load.harness.echo import echo
from load.harness.trial import Begun, Outcome, Trial, changed, unseen
from load.harness.tts import UNDERRUNS
from load.scoring import quantiles
from load.service import Running

FLOOR = 0.010
"""Seconds of their own that are always allowed."""
SHARE = 0.1
"""Of a latency that may be theirs."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of `clients` at a service that answers at once: `latency`, p95 seconds, is an upper bound of what they add, since
    that service reads frames too; `cpu` in processors.
    """

    clients: int
    name: str
    latency: float
    lag: float
    cpu: float
    limits: tuple[str, ...]
    latencies: dict[str, dict[str, float | int | None]]

    def told(self) -> dict[str, Any]:
        """For JSON: milliseconds and shares."""
        return {
            "clients": self.clients,
            "measured_by": self.name,
            "own_p95": round(1000 * self.latency, 2),
            "client_loop_lag_p99": round(1000 * self.lag, 2),
            "client_cpu": round(self.cpu, 3),
            "limits": list(self.limits),
            "milliseconds": self.latencies,
        }


def calibrate(trial: Trial, clients: int, seconds: float = 10.0, seed: int = 0) -> Cost:
    """Measure what so many clients of this kind cost; starts a process and ends it. Not from an event loop."""
    with echo() as running:
        return asyncio.run(cost(trial, running, clients, seconds, seed))


async def cost(trial: Trial, running: Running, clients: int, seconds: float, seed: int, begun: Begun = unseen) -> Cost:
    """The same against such a service that runs already."""
    # No words are compared: those of the echo are none.
    out = await changed(trial, begun=begun, most_errors=None).run(running, clients, seconds, seed)
    limits, watched = list(out.limits), out.watched
    own = out.latencies.get(trial.own, [])
    if not own or out.problems:
        said = out.problems[0] if out.problems else "nothing came"
        limits.append(f"{clients} clients did not even get along with a service that answers at once: {said}")
    if out.counts.get(UNDERRUNS):
        limits.append(f"{out.counts[UNDERRUNS]} underruns with a service that is never late")
    return Cost(
        clients,
        trial.own,
        float(np.quantile(own, 0.95)) if own else float("inf"),
        watched.client_lag(0.99) if watched else 0.0,
        watched.own_cpu if watched else 0.0,
        tuple(limits),
        {name: quantiles(found) for name, found in out.latencies.items()},
    )


def blame(out: Outcome, found: Cost, own: str) -> None:
    """Note in the outcome of a run when its figures are rather those of the clients."""
    out.limits += [f"alone: {one}" for one in found.limits]
    took = out.latencies.get(own)
    if not took:
        return
    measured = float(np.quantile(took, 0.95))
    if found.latency > max(FLOOR, SHARE * measured):
        out.limits.append(
            f"{1000 * found.latency:.0f} of the {1000 * measured:.0f} ms of {own} (p95) are the clients' own"
        )
