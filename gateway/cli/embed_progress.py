"""How far a source has gone into a collection: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Column

from gateway.cli.console import Plain, err
from gateway.cli.progress import LINE_SECONDS, clock_time
from vision_text.ingest.checkpoint import Counts
from vision_text.ingest.pipeline import Standing


class EmbedBoard:
    """A context manager. All of it goes to stderr."""

    def __init__(self, name: str, *, quiet: bool) -> None:
        self._name, self._quiet = name, quiet
        self._next = time.monotonic() + LINE_SECONDS
        self._task: TaskID | None = None
        self._loading: TaskID | None = None
        self._progress: Progress | None = None
        if not quiet and err.is_terminal:
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
                BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
                TextColumn("{task.fields[share]}", markup=False, justify="right", table_column=Column(no_wrap=True)),
                TextColumn("{task.fields[said]}", markup=False, style="dim", table_column=Column(no_wrap=True)),
                console=Plain(stderr=True, highlight=False),
                transient=True,
                refresh_per_second=8,
                expand=True,
            )

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def say(self, message: str) -> None:
        """A line that stays."""
        (self._progress.console if self._progress is not None else err).print(message, style="dim", markup=False)

    def loading(self, what: str | None) -> None:
        """What has to be done first, or at the end; None: it is."""
        if self._progress is None:
            return
        if self._loading is not None:
            self._progress.remove_task(self._loading)
            self._loading = None
        if what is not None:
            self._loading = self._progress.add_task(what, total=None, share="", said="")

    def show(self, standing: Standing) -> None:
        """It is so far now. Called from threads."""
        said = figures(standing)
        share = f"{min(1.0, standing.done / standing.size):.0%}" if standing.size else ""
        if self._progress is not None:
            if self._task is None:
                self._task = self._progress.add_task(self._name, total=None, share="", said="")
            self._progress.update(self._task, total=standing.size, completed=standing.done, share=share, said=said)
        elif not self._quiet and time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_SECONDS
            err.print(f"{said}{f'  ({share})' if share else ''}", markup=False)


def figures(standing: Standing) -> str:
    """ "12,000 documents  8,100 tokens/s  1:20 left", as far as it is known."""
    parts = [f"{standing.counts.documents:,} documents"]
    if standing.rate >= 1:
        parts.append(f"{standing.rate:,.0f} tokens/s")
    if standing.left is not None:
        parts.append(f"{clock_time(standing.left)} left")
    return "  ".join(parts)


def summary(name: str, counts: Counts) -> str:
    """What became of the documents."""
    parts = [
        f"{number:,} {word}"
        for number, word in (
            (counts.added, "added"),
            (counts.replaced, "replaced"),
            (counts.unchanged, "unchanged"),
            (counts.faulted, "failed"),
        )
        if number
    ]
    return f"{name}: {', '.join(parts) or 'nothing to do'}; {counts.pieces:,} pieces, {counts.tokens:,} tokens."
