"""The page of a run: one file with its table and plots, which loads nothing from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from load import report
from load.harness.results import MIB, Step, named, rows
from load.harness.trial import Objective, Outcome
from load.report import BOTTOM, COLOURS, HEIGHT, LEFT, WIDTH
from load.scoring import quantiles

_DOTS = 4000
"""Marks of a timeline; of more units every second, third, … is drawn, and all that are late."""
_STRIP = 60


def write(path: Path, kind: str, steps: Sequence[Step], objective: Objective, note: str, missed: Sequence[str]) -> None:
    """Write it."""
    head = ("clients", *(str(step.clients) for step in steps))
    sections = [("Figures", report.html_table(head, rows(steps, objective)) + _verdict(missed, steps))]
    sections.append((f"{objective.latency} against clients (ms)", _curves(steps, objective)))
    for step in steps:
        out = step.outcome
        sections.append((f"{named(step.clients)}: every unit of the run", timeline(out, objective)))
        if out.watched is not None and out.watched.sights:
            sections.append((f"{named(step.clients)}: service and machine", _course(out)))
        if out.track is not None:
            sections.append((f"{named(step.clients)}: one stream", report.timeline(out.track)))
    report.page(path, f"speechlane load {kind}", note, sections)


def _verdict(missed: Sequence[str], steps: Sequence[Step]) -> str:
    limits = [f"{named(step.clients)}: {limit}" for step in steps for limit in step.outcome.limits]
    found = [f"<p><b>missed</b> {escape(one)}</p>" for one in missed]
    found += [f"<p><b>the client is the limit</b> {escape(one)}</p>" for one in limits]
    return "".join(found) or "<p>Everything held; the clients were fast enough.</p>"


def _curves(steps: Sequence[Step], objective: Objective) -> str:
    names = dict.fromkeys(name for step in steps for name in step.outcome.latencies)
    first = sorted(names, key=lambda name: name != objective.latency)[:2]
    series: dict[str, list[tuple[float, float]]] = {}
    for name in first:
        for level in ("p50", "p95", "p99"):
            found = [(float(step.clients), quantiles(step.outcome.latencies.get(name, []))[level]) for step in steps]
            series[f"{name}, {level}"] = [(x, float(y)) for x, y in found if y is not None]
    return report.lines({name: points for name, points in series.items() if points}, "clients", "milliseconds")


def timeline(out: Outcome, objective: Objective) -> str:
    """A mark for every unit: when it was due, and how long it took; the line is the objective."""
    ended = [unit for unit in out.units if unit.ended is not None]
    lost = [unit for unit in out.units if unit.ended is None]
    if not out.units:
        return "<p>Nothing ended.</p>"
    every = math.ceil(len(ended) / _DOTS)
    shown = [unit for n, unit in enumerate(ended) if unit.late or n % every == 0]
    end = max(max(unit.due, unit.ended or 0.0) for unit in out.units) or 1.0
    most = 1.1 * max([objective.seconds, *((unit.ended or 0.0) - unit.due for unit in ended)])
    most = math.ceil(20 * most) / 20
    width, height = WIDTH - LEFT - 10, HEIGHT - BOTTOM - 10
    parts = []
    for n in range(6):
        y = 10 + height - height * n / 5
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{1000 * most * n / 5:.0f}</text>')
        x = LEFT + width * n / 5
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 22}" text-anchor="middle">{end * n / 5:.0f}</text>')
    bar = 10 + height - objective.seconds / most * height
    parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{bar:.1f}" y2="{bar:.1f}" stroke="{COLOURS[4]}" '
                 'stroke-dasharray="6 4"/>')  # fmt: skip
    for unit in shown:
        took = (unit.ended or 0.0) - unit.due
        x, y = LEFT + max(0.0, unit.due) / end * width, 10 + height - max(0.0, took) / most * height
        said = escape(f"client {unit.client}, {unit.due:.1f} s: {1000 * took:.0f} ms {unit.said}")
        colour = COLOURS[4] if unit.late else COLOURS[0]
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{said}</title></circle>')
    for unit in lost[:_DOTS]:
        x = LEFT + max(0.0, unit.due) / end * width
        said = escape(f"client {unit.client}, {unit.due:.1f} s: never ended {unit.said}")
        parts.append(f'<text x="{x:.1f}" y="20" style="fill:{COLOURS[4]}">×<title>{said}</title></text>')
    parts.append(f'<text x="{WIDTH - 10}" y="{HEIGHT - 6}" text-anchor="end">seconds of the run; ms upwards; point at '
                 "a mark to read it</text>")  # fmt: skip
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="timeline of a run">{"".join(parts)}</svg>'


def _course(out: Outcome) -> str:
    """Strips over time: the fullest device, the machine, sessions, memory."""
    assert out.watched is not None
    sights = out.watched.sights
    strips = {
        "fullest device, %": [100 * one.utilisation for one in sights],
        "processors busy, %": [100 * one.cpu for one in sights],
        "sessions": [float(one.sessions) for one in sights],
        "memory of the service, MiB": [one.memory / MIB for one in sights],
    }
    end, parts = max(sights[-1].at, 1.0), []
    for row, (name, values) in enumerate(strips.items()):
        base, most = (row + 1) * _STRIP, max(max(values), 1.0)
        points = " ".join(
            f"{LEFT + one.at / end * (WIDTH - LEFT - 10):.1f},{base - value / most * (_STRIP - 22):.1f}"
            for one, value in zip(sights, values, strict=True)
        )
        colour = COLOURS[row]
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 10}" y1="{base}" y2="{base}"/>')
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{LEFT}" y="{base - _STRIP + 18}" style="fill:{colour}">{name}</text>')
        parts.append(f'<text x="{LEFT - 6}" y="{base - _STRIP + 30}" text-anchor="end">{most:.0f}</text>')
    tall = len(strips) * _STRIP + 8
    return f'<svg viewBox="0 0 {WIDTH} {tall}" role="img" aria-label="service over time">{"".join(parts)}</svg>'
