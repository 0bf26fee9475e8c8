"""A kind of clients at a service in one number after another: measure, tell, judge."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shlex
import time
from collections.abc import Sequence

from rich.console import Console

from load import report
from load.harness import page
from load.harness.calibration import Cost, blame, cost
from load.harness.echo import echo
from load.harness.options import Asked
from load.harness.progress import Shown
from load.harness.results import Step, missed, named, rows, told
from load.harness.trial import Trial, changed
from load.service import Running, machine, service

CALIBRATION = 8.0
"""Seconds."""
LOADING = 300.0
_SHOWN = 20


def measure(trial: Trial, asked: Asked, flags: Sequence[str]) -> int:
    """All of it, with `flags` for a service that is started; the exit status."""
    out, note = report.console(), machine()
    out.print(note, highlight=False, style="dim")
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    apart(asked.cpus)
    steps: list[Step] = []
    try:
        costs = calibrated(trial, asked, out) if asked.calibrate else {}
        with service(asked.url, [*flags, *shlex.split(asked.flags)], asked.cpus, asked.key) as running:
            ready(running)
            for clients in asked.clients:
                steps.append(_step(trial, running, asked, clients, costs.get(clients), out))
    except KeyboardInterrupt:
        out.print("interrupted; what was measured until then:", style="bold")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    if not steps:
        return 1
    wrong = missed(steps, trial.objective, asked.objective is not None)
    title = f"{trial.kind}, {asked.seconds:g} s each, {asked.arrivals.value}; milliseconds are p50 / p95 / p99"
    out.print(report.table(title, ("clients", *(str(step.clients) for step in steps)), rows(steps, trial.objective)))
    for step in steps:
        for limit in step.outcome.limits:
            out.print(f"[bold yellow]the client is the limit[/] {named(step.clients)}: {limit}", highlight=False)
    late = sum(step.outcome.late for step in steps)
    if late and asked.objective is None:
        told_late = f"{late} were later than {trial.objective.seconds:g} s, which --objective makes a condition"
        out.print(told_late, highlight=False, style="dim")
    write(trial, asked, steps, note, wrong)
    status = report.verdict(out, wrong[:_SHOWN])
    if len(wrong) > _SHOWN:
        out.print(f"and {len(wrong) - _SHOWN} more", highlight=False)
    return status


def calibrated(trial: Trial, asked: Asked, out: Console) -> dict[int, Cost]:
    """What each number of clients costs by itself."""
    found = {}
    with echo(asked.cpus) as running:
        for clients in asked.clients:
            seconds = min(CALIBRATION, asked.seconds)
            with Shown(out, f"calibration, {named(clients)}", seconds, trial.objective) as shown:
                found[clients] = asyncio.run(cost(trial, running, clients, seconds, asked.seed, shown.begun))
    return found


def _step(trial: Trial, running: Running, asked: Asked, clients: int, found: Cost | None, out: Console) -> Step:
    with Shown(out, f"{trial.kind}, {named(clients)}", asked.seconds, trial.objective) as shown:
        outcome = asyncio.run(changed(trial, begun=shown.begun).run(running, clients, asked.seconds, asked.seed))
    if found is not None:
        blame(outcome, found, trial.own)
    return Step(clients, asked.seed, outcome, found)


def ready(running: Running) -> None:
    """Wait until embeddings, which load behind the others, are there. Raises SystemExit when nobody answers."""
    until = time.monotonic() + LOADING
    while True:
        try:
            state = running.state()
        except OSError as error:
            raise SystemExit(f"no service answers at {running.url}: {error}") from error
        except ValueError:  # one that does not tell
            return
        if state.get("embeddings") != "loading" or time.monotonic() > until:
            return
        time.sleep(0.2)


def apart(cpus: Sequence[int]) -> None:
    """Leave the service's processors to it."""
    if cpus and hasattr(os, "sched_setaffinity") and (others := os.sched_getaffinity(0) - set(cpus)):
        os.sched_setaffinity(0, others)


def write(trial: Trial, asked: Asked, steps: Sequence[Step], note: str, wrong: Sequence[str]) -> None:
    """The files that were asked for."""
    if asked.json is not None:
        body = {
            "kind": trial.kind,
            "machine": note,
            "seconds": asked.seconds,
            "arrivals": asked.arrivals.value,
            "objective": {"latency": trial.objective.latency, "seconds": trial.objective.seconds},
            "steps": [told(step) for step in steps],
            "missed": list(wrong),
        }
        asked.json.write_text(json.dumps(body, indent=1, ensure_ascii=False), encoding="utf-8")
    if asked.html is not None:
        page.write(asked.html, trial.kind, steps, trial.objective, note, wrong)
