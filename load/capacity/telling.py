"""A measurement as JSON, and as a page with plots."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from load import report
from load.capacity.measure import HEAD
from load.capacity.session import Session
from load.scoring import quantiles


def table(session: Session) -> Table:
    """The runs, for a terminal."""
    latency = session.trial.objective.latency
    return report.table(f"{latency}; busy is the fullest device", HEAD, [run.row(latency) for run in session.runs])


def told(session: Session, note: str, missed: list[str]) -> dict[str, Any]:
    """Everything."""
    found = session.found
    return {
        "machine": note, "kind": session.target.kind, "objective": session.goal.objective,
        "clients": found.count if found is not None else None, "missed": missed,
        "promises": [asdict(one) for one in session.promises],
        "runs": [run.told() for run in session.runs],
    }  # fmt: skip


def write_page(path: Path, session: Session, note: str) -> None:
    """The runs, latency against clients, and the share of bad ones against clients."""
    latency = session.trial.objective.latency
    runs = sorted(session.runs, key=lambda run: run.clients)
    curves = {
        level: [
            (float(run.clients), value)
            for run in runs
            if (value := quantiles(run.outcome.latencies.get(latency, []))[level]) is not None
        ]
        for level in ("p50", "p95")
    }
    shares = {
        seen.bar.name: [(float(run.clients), 100 * one.bad / one.of) for run in runs if (one := run.verdict.seen[n]).of]
        for n, seen in enumerate(runs[0].verdict.seen)
    } if runs else {}  # fmt: skip
    count = session.found.count if session.found is not None else 0
    sections = [
        (session.goal.objective, f"<p>{count} clients</p>" if count else ""),
        ("Runs", report.html_table(HEAD, [run.row(latency) for run in session.runs])),
        (f"{latency} against clients (ms)", report.lines(curves, "clients", "milliseconds")),
        ("Bad ones against clients (%)", report.lines(shares, "clients", "percent")),
    ]
    report.page(path, f"Capacity: {session.target.kind}", note, sections)
