"""The figures of a day as rows, as a page with plots, and as what must hold of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from load import report
from load.simulation.figures import Figures
from load.simulation.fleet import Fleet, Plan

HOURS_HEAD = (
    "hour", "sessions", "refused", "asked", "up", "reserved", "busy", "partial, ms", "final, ms", "moved",
)  # fmt: skip


def hours_rows(figures: Figures) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for number, hour in enumerate(figures.hours):
        told = hour.row()
        rows.append((
            str(number), f"{told['offered']:,}", f"{100 * told['refused']:.2f} %", f"{told['asked']:.2f}",
            f"{told['up']:.0f}", f"{100 * told['reserved']:.1f} %", f"{100 * told['busy']:.1f} %",
            report.pair(told["partial"]), report.pair(told["final"]), f"{told['moved']:,}",
        ))  # fmt: skip
    return rows


def promises(plan: Plan, figures: Figures, fleet: Fleet) -> list[str]:
    """Those that were broken."""
    ended = figures.finals + figures.failed
    unhealed = sum(machine.backend.open_states for machine in fleet.machines)
    held = sum(machine.used for machine in fleet.machines) + sum(map(fleet.ledger.reserved, fleet.machine_of))
    checks = {
        f"{figures.utterances} utterances, {ended} ends": ended == figures.utterances,
        f"{figures.twice} utterances ended twice": not figures.twice,
        f"{figures.admitted} sessions admitted, {figures.left} left by themselves": figures.admitted == figures.left,
        f"{figures.most_reserved:.3f} of a machine reserved": figures.most_reserved <= plan.limit + 1e-6,
        f"{unhealed} states of models left": not unhealed,
        f"{held:g} still reserved when everybody had left": held < 1e-6,
    }
    return [what for what, held in checks.items() if not held]


def day_page(path: Path, plan: Plan, figures: Figures, took: float) -> None:
    """Plots over the day."""
    rows = [hour.row() for hour in figures.hours]

    def over(what: str, scale: float, part: str | None = None) -> list[tuple[float, float]]:
        values = [(float(n), row[what] if part is None else row[what][part]) for n, row in enumerate(rows)]
        return [(n, scale * value) for n, value in values if value is not None]

    plots = {
        "Use of the machines, percent": {"reserved": over("reserved", 100), "busy with steps": over("busy", 100),
                                         "sessions refused": over("refused", 100)},
        "Sessions that come in an hour": {"sessions": over("offered", 1)},
        "Partials: due → made, ms": {"p50": over("partial", 1, "p50"), "p95": over("partial", 1, "p95")},
        "Finals: utterance over → made, ms": {"p50": over("final", 1, "p50"), "p95": over("final", 1, "p95")},
        "Sessions moved by deaths": {"moved": over("moved", 1)},
    }  # fmt: skip
    sections = [(title, report.lines(series, "hour", title)) for title, series in plots.items()]
    sections.append(("Hour by hour", report.html_table(HOURS_HEAD, hours_rows(figures))))
    sections.append(("Altogether", report.html_table(("what", ""), _altogether(figures.summary()))))
    page_note = (
        f"{plan.machines} machines for {plan.streams} streams each, {plan.gateways} gateways; an hour is "
        f"{plan.hour:g} virtual s, people talk on {plan.observed or plan.machines} machines; choice {plan.policy}, "
        f"looks every {plan.age:g} s, seed {plan.seed}. {plan.table.source}. Made in {took:.0f} s."
    )
    report.page(path, "A day of a fleet", page_note, sections)


def _altogether(summary: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), str(value)) for name, value in summary.items()]
