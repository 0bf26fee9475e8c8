"""Figures for people: tables on the terminal and one HTML page with plots that loads nothing from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

WIDTH, HEIGHT, LEFT, BOTTOM = 720, 300, 60, 40
COLOURS = ("#2f6fde", "#d9722e", "#2a9d62", "#9a4fc9", "#c23b5a", "#7a7a2a")
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --faint: #8a93a0; --ground: #fff; --line: #e3e6ea; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --faint: #8f99a8; --ground: #14181e; --line: #2b323c; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
       max-width: 780px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } p.note { color: var(--faint); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
table { font-size: 13px; } td { white-space: nowrap; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 12px; }
svg .axis { stroke: var(--line); }
"""

Rows = Sequence[Sequence[str]]


def console() -> Console:
    """Wide enough for the tables, also into a file."""
    found = Console()
    return found if found.is_terminal else Console(width=130)


def table(title: str, head: Sequence[str], rows: Rows) -> Table:
    """The first column is text, the others are numbers."""
    out = Table(title=title, title_justify="left")
    for n, name in enumerate(head):
        out.add_column(name, justify="left" if n == 0 else "right")
    for row in rows:
        out.add_row(*row)
    return out


def pair(figures: Mapping[str, Any]) -> str:
    """p50 / p95 in milliseconds."""
    return "-" if figures["p50"] is None else f"{figures['p50']:.0f} / {figures['p95']:.0f}"


def html_table(head: Sequence[str], rows: Rows) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def lines(series: Mapping[str, Sequence[tuple[float, float]]], across: str, up: str) -> str:
    """One line for each series of (x, y) points, both axes from zero."""
    points = [point for one in series.values() for point in one]
    if not points:
        return ""
    most_x, most_y = max(x for x, _ in points) or 1, max(y for _, y in points) * 1.1 or 1
    most_y = math.ceil(most_y / 100) * 100
    width, height = WIDTH - LEFT - 10, HEIGHT - BOTTOM - 10

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + x / most_x * width, 10 + height - y / most_y * height

    parts = []
    for n in range(6):
        _, y = place(0, most_y * n / 5)
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{most_y * n / 5:.0f}</text>')
    for x in sorted({x for x, _ in points}):
        at, _ = place(x, 0)
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - 22}" text-anchor="middle">{x:g}</text>')
    for n, (name, one) in enumerate(series.items()):
        colour = COLOURS[n % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in one))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
                  for x, y in (place(*point) for point in one)]  # fmt: skip
        parts.append(f'<text x="{LEFT + 12}" y="{24 + 16 * n}" style="fill:{colour}">{escape(name)}</text>')
    parts.append(f'<text x="{WIDTH - 10}" y="{HEIGHT - 6}" text-anchor="end">{escape(across)}</text>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(up)}">{"".join(parts)}</svg>'


def timeline(track: Mapping[str, Any]) -> str:
    """One stream: when somebody spoke, when each partial came and how far it had heard, when the finals came."""
    seconds = max([track["seconds"], *(one["final_at"] for one in track["utterances"])])
    scale = (WIDTH - 20) / seconds
    parts = []
    for row, name in ((0, "voice"), (1, "partials"), (2, "finals")):
        parts.append(f'<text x="10" y="{22 + 46 * row}" style="fill:var(--faint)">{name}</text>')
        parts.append(f'<line class="axis" x1="10" x2="{WIDTH - 10}" y1="{44 + 46 * row}" y2="{44 + 46 * row}"/>')
    for line in track["lines"]:
        x, width = 10 + line["start"] * scale, (line["end"] - line["start"]) * scale
        parts.append(_box(x, 28, width, COLOURS[2], line["text"]))
    for one in track["utterances"]:
        for guess in one["partials"]:
            said = f"{guess['at']:.2f} s, heard to {guess['audio_end']:.2f} s: {guess['stable']} |{guess['unstable']}"
            parts.append(_box(10 + guess["at"] * scale, 74, 2, COLOURS[0 if guess["stable"] else 1], said))
        said = f"{one['final_at']:.2f} s, {1000 * (one['final_at'] - one['end']):.0f} ms after its audio: {one['text']}"
        parts.append(_box(10 + one["final_at"] * scale, 120, 3, COLOURS[3], said))
    parts.append(f'<text x="{WIDTH - 10}" y="156" text-anchor="end">{seconds:.0f} s; point at a mark to read it</text>')
    return f'<svg viewBox="0 0 {WIDTH} 160" role="img" aria-label="timeline of a stream">{"".join(parts)}</svg>'


def _box(x: float, y: float, width: float, colour: str, said: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{max(width, 1):.1f}" height="16" rx="1.5" fill="{colour}">'
        f"<title>{escape(said)}</title></rect>"
    )


def page(path: Path, title: str, note: str, sections: Sequence[tuple[str, str]]) -> None:
    """Write the page: (heading, HTML) sections."""
    body = "".join(f"<h2>{escape(heading)}</h2>{content}" for heading, content in sections)
    path.write_text(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f'<p class="note">{escape(note)}</p>{body}</body></html>',
        encoding="utf-8",
    )


def verdict(out: Console, missed: Sequence[str]) -> int:
    """Say what was missed; the exit status."""
    for one in missed:
        out.print(f"[bold red]missed[/] {one}", highlight=False)
    if not missed:
        out.print("[bold green]all bars held[/]")
    return 1 if missed else 0
