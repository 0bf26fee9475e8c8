"""What is shown while a run goes on: a line that changes on a terminal, and nothing that costs the clients much."""

from __future__ import annotations

import time
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.text import Text

from load.harness.trial import Objective, Outcome

EVERY = 2.0
"""Times a second that it is drawn."""
_LATEST = 500


class Shown:
    """A context in which `begun` is given the outcome that is being filled."""

    def __init__(self, console: Console, what: str, seconds: float, objective: Objective) -> None:
        self._console, self._what, self._seconds, self._objective = console, what, seconds, objective
        self._out: Outcome | None = None
        self._since = 0.0
        self._live = Live(get_renderable=self._line, console=console, refresh_per_second=EVERY, transient=True)

    def begun(self, out: Outcome) -> None:
        """The clients begin to come."""
        self._out, self._since = out, time.monotonic()

    def __enter__(self) -> Shown:
        if self._console.is_terminal:
            self._live.start()
        else:
            self._console.print(f"{self._what}, {self._seconds:g} s", highlight=False, style="dim")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def _line(self) -> Text:
        out = self._out
        if out is None:
            return Text(f"{self._what}: getting ready", style="dim")
        passed = time.monotonic() - self._since
        share = min(1.0, passed / self._seconds)
        bar = ("━" * round(20 * share)).ljust(20, "╌")
        parts = [f"{self._what} {bar} {passed:3.0f}/{self._seconds:g} s", f"{out.ended} ended, {out.late} late"]
        if out.counts.get("finals"):
            parts.append(f"{out.counts['finals']} finals")
        if latest := out.latencies.get(self._objective.latency, [])[-_LATEST:]:
            parts.append(f"{self._objective.latency} p95 {1000 * float(np.quantile(latest, 0.95)):.0f} ms")
        if out.refused:
            parts.append(f"{out.refused} refused")
        if problems := out.counts.get("problems"):
            parts.append(f"{problems} PROBLEMS")
        return Text(" · ".join(parts), overflow="ellipsis", no_wrap=True)
