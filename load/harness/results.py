"""What is told of a run: rows of a table, JSON, and what did not hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from load.harness.calibration import Cost
from load.harness.trial import Objective, Outcome
from load.harness.tts import BUFFERED, UNDERRUNS, UTTERANCES
from load.scoring import quantiles

MIB = 2**20
_TOLD = (UNDERRUNS, UTTERANCES, BUFFERED)


@dataclass(frozen=True, slots=True)
class Step:
    """One run of so many clients. `cost`: their own, None when it was not measured."""

    clients: int
    seed: int
    outcome: Outcome
    cost: Cost | None = None


def named(clients: int) -> str:
    """So many of them."""
    return "1 client" if clients == 1 else f"{clients} clients"


def levels(seconds: Sequence[float]) -> str:
    """p50 / p95 / p99 in milliseconds."""
    found = quantiles(seconds)
    return "-" if not found["count"] else " / ".join(_short(found[level]) for level in ("p50", "p95", "p99"))


def _short(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.0f}" if figure >= 10 else f"{figure:.1f}"


def rows(steps: Sequence[Step], objective: Objective) -> list[tuple[str, ...]]:
    """Lines of a table with a column for each step: what was seen, then how it was at the service and the clients."""
    outs = [step.outcome for step in steps]
    own = next((step.cost.name for step in steps if step.cost), "")

    def line(name: str, cells: Sequence[str]) -> tuple[str, ...]:
        return (name, *cells)

    found = [
        line("admitted, refused", [f"{one.admitted} of {one.offered}, {one.refused}" for one in outs]),
        line("ended, late", [f"{one.ended}, {one.late}" for one in outs]),
    ]
    names = dict.fromkeys(name for one in outs for name in one.latencies)
    for name in sorted(names, key=lambda name: name != objective.latency):
        bar = f" (bar {1000 * objective.seconds:.0f})" if name == objective.latency else ""
        found.append(line(name + bar, [levels(one.latencies.get(name, [])) for one in outs]))
    if any(one.counts.get(UTTERANCES) for one in outs):
        shown = [f"{one.counts.get(UNDERRUNS, 0)} of {one.counts.get(UTTERANCES, 0)}" for one in outs]
        found.append(line("underruns", shown))
        found.append(line("the same, 100 ms buffered", [str(one.counts.get(BUFFERED, 0)) for one in outs]))
    if any(one.errors for one in outs):
        found.append(line("word errors, mean / worst client", [_errors(one) for one in outs]))
    for name in dict.fromkeys(name for one in outs for name in one.counts if name not in (*_TOLD, "problems")):
        found.append(line(name, [str(one.counts.get(name, 0)) for one in outs]))
    found += [
        line("problems", [str(one.counts.get("problems", 0)) for one in outs]),
        line("service: event loop lag p50 / p99", [_loop(one) for one in outs]),
        line("service: device busy, memory", [_service(one) for one in outs]),
        line("client: event loop lag p50 / p99", [_client(one) for one in outs]),
        line("client: processor, memory", [_own(one) for one in outs]),
        line(f"client alone: {own} p95", [f"{1000 * step.cost.latency:.1f}" if step.cost else "-" for step in steps]),
        line("the client is the limit", ["YES" if one.client_limited else "no" for one in outs]),
    ]
    return found


def _errors(out: Outcome) -> str:
    return f"{sum(out.errors) / len(out.errors):.1f} / {max(out.errors):.1f} %" if out.errors else "-"


def _loop(out: Outcome) -> str:
    if out.watched is None or (late := out.watched.loop_lag(0.99)) is None:
        return "-"
    return f"{1000 * (out.watched.loop_lag(0.5) or 0.0):.1f} / {1000 * late:.1f}"


def _service(out: Outcome) -> str:
    if out.watched is None or not out.watched.sights:
        return "-"
    busy = float(np.mean([one.utilisation for one in out.watched.sights]))
    return f"{100 * busy:.0f} %, {out.watched.memory / MIB:.0f} MiB"


def _client(out: Outcome) -> str:
    if out.watched is None:
        return "-"
    return f"{1000 * out.watched.client_lag(0.5):.1f} / {1000 * out.watched.client_lag(0.99):.1f}"


def _own(out: Outcome) -> str:
    if out.watched is None:
        return "-"
    memory = max((one.own_memory for one in out.watched.sights), default=0)
    return f"{100 * out.watched.own_cpu:.0f} %, {memory / MIB:.0f} MiB"


def told(step: Step) -> dict[str, Any]:
    """A step for JSON: latencies in milliseconds, shares from 0 to 1, memory in bytes."""
    out, watched = step.outcome, step.outcome.watched
    found: dict[str, Any] = {
        "clients": step.clients,
        "seed": step.seed,
        "offered": out.offered,
        "admitted": out.admitted,
        "refused": out.refused,
        "ended": out.ended,
        "late": out.late,
        "milliseconds": {name: quantiles(seconds) for name, seconds in out.latencies.items()},
        "counts": out.counts,
        "word_error_rates": [round(error, 2) for error in out.errors],
        "problems": out.problems,
        "client_limited": out.client_limited,
        "limits": out.limits,
        "calibration": step.cost.told() if step.cost else None,
        "units": [asdict(unit) for unit in out.units],
    }
    if watched is not None:
        found["service"] = {
            "loop_lag_p50": watched.loop_lag(0.5),
            "loop_lag_p99": watched.loop_lag(0.99),
            "memory": watched.memory,
        }
        found["client"] = {
            "loop_lag_p50": watched.client_lag(0.5),
            "loop_lag_p99": watched.client_lag(0.99),
            "cpu": watched.own_cpu,
        }
        found["sights"] = [asdict(sight) for sight in watched.sights]
    return found


def missed(steps: Sequence[Step], objective: Objective, must_hold: bool) -> list[str]:
    """What did not hold. `must_hold`: the objective has to be met at p95, and nobody may be refused."""
    found = []
    for step in steps:
        out, name = step.outcome, named(step.clients)
        found += [f"{name}: {problem}" for problem in out.problems]
        if (more := out.counts.get("problems", 0) - len(out.problems)) > 0:
            found.append(f"{name}: {more} more problems")
        if not out.ended:
            found.append(f"{name}: nothing was measured")
        if not must_hold:
            continue
        if out.refused:
            found.append(f"{name}: {out.refused} were refused")
        p95 = quantiles(out.latencies.get(objective.latency, []))["p95"]
        if p95 is not None and p95 > 1000 * objective.seconds:
            found.append(f"{name}: {objective.latency} is {p95:.0f} ms (p95); {1000 * objective.seconds:.0f} was asked")
    return found
