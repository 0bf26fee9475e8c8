"""How far long work is: bars in a terminal, a line now and then elsewhere. All of it goes to stderr."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from batch_jobs.job import Job, State
from gateway.cli.console import Plain, err

LINE_SECONDS = 10.0
"""Between two lines where there is no terminal."""
NAME_LENGTH = 24
"""Characters of a file's name beside its bar."""
EMPTY: dict[str, Any] = {"share": "", "at": "", "speed": "", "left": ""}
SETTLING_SECONDS = 2.0
"""Of work, before a speed means anything."""


@dataclass(slots=True)
class _Part:
    """One file. Seconds of audio; `found` was there already when it was first seen."""

    length: float | None
    done: float = 0.0
    found: float = 0.0
    begun: float | None = None
    ended: bool = False


class Tally:
    """Sums over files, some of them not begun. Seconds of audio, seconds of the clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._parts: dict[str, _Part] = {}

    def expect(self, key: str, length: float | None) -> None:
        """A file that is to come, with its length as far as it is known."""
        part = self._parts.setdefault(key, _Part(length))
        if part.length is None:
            part.length = length

    def update(self, key: str, job: Job) -> None:
        """A file's job as it is now."""
        part = self._parts.setdefault(key, _Part(None))
        if part.begun is None:
            part.begun, part.found = self._clock(), job.settled
        part.done = job.settled
        part.length = length_of(job) or part.length
        if job.state in (State.DONE, State.PARTIAL):
            part.done = part.length = job.decoded

    def end(self, key: str) -> None:
        """Nothing more comes of this file: what it still lacks is no longer waited for."""
        part = self._parts.setdefault(key, _Part(None))
        part.ended, part.length = True, part.done

    @property
    def files(self) -> int:
        return len(self._parts)

    @property
    def files_ended(self) -> int:
        return sum(part.ended for part in self._parts.values())

    def done(self, key: str | None = None) -> float:
        """Audio that is settled, of a file or of all."""
        return sum(part.done for part in self._of(key))

    def total(self, key: str | None = None) -> float | None:
        """Audio of a file or of all. Files of unknown length count with the mean of the others; None: none is known."""
        parts = self._of(key)
        known = [part.length for part in parts if part.length is not None]
        if not known:
            return None
        return max(sum(known) * len(parts) / len(known), self.done(key))

    def speed(self, key: str | None = None) -> float | None:
        """Audio a second of the clock since the first of these files was begun; None while it means nothing."""
        parts = [part for part in self._of(key) if part.begun is not None]
        if not parts:
            return None
        elapsed = self._clock() - min(part.begun for part in parts if part.begun is not None)
        made = sum(part.done - part.found for part in parts)
        return made / elapsed if elapsed >= SETTLING_SECONDS and made > 0 else None

    def left(self, key: str | None = None) -> float | None:
        """Seconds of the clock until the end at this speed."""
        total, speed = self.total(key), self.speed(key)
        return (total - self.done(key)) / speed if total is not None and speed else None

    def _of(self, key: str | None) -> list[_Part]:
        return list(self._parts.values()) if key is None else [self._parts[key]]


def length_of(job: Job) -> float | None:
    """Seconds of audio that a job has, as far as it is known."""
    return job.decoded if job.split else max(job.decoded, job.expected) if job.expected else None


def stage(job: Job) -> str:
    """What a job is doing, in a word or two."""
    if job.state is State.REPAIRING and job.repairs:
        return f"repairing {job.repairs_done}/{job.repairs}"
    if job.state is State.RUNNING and not job.chunks:
        return "reading"
    return job.state.value


class Board(Protocol):
    """Where progress is shown; a context manager. `key` names a file towards the tally."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, message: str | Text) -> None:
        """A line that stays."""

    def loading(self, what: str | None) -> None:
        """What has to be there first; None: it is."""

    def show(self, key: str, name: str, job: Job) -> None:
        """A file that is being worked on."""

    def hide(self, key: str) -> None:
        """A file that is no longer."""

    def refresh(self) -> None:
        """The tally has changed."""


def board(tally: Tally, *, quiet: bool = False) -> Board:
    """Bars when stderr is a terminal, else lines; with `quiet` only what is said."""
    if not quiet and err.is_terminal:
        return Bars(tally)
    return Lines(tally, LINE_SECONDS if not quiet else float("inf"))


class Bars:
    """A bar for each file that is being worked on, and under them one for all when there are several."""

    def __init__(self, tally: Tally, console: Console | None = None) -> None:
        self._tally = tally
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
            TextColumn("{task.fields[share]}", markup=False, justify="right", table_column=Column(no_wrap=True)),
            *(
                TextColumn(f"{{task.fields[{name}]}}", markup=False, justify="right", style="dim",
                           table_column=Column(no_wrap=True))
                for name in ("at", "speed", "left")
            ),
            console=console or Plain(stderr=True, highlight=False),
            transient=True,
            refresh_per_second=8,
            expand=True,
        )  # fmt: skip
        self._tasks: dict[str, TaskID] = {}
        self._whole: TaskID | None = None
        self._loading: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def say(self, message: str | Text) -> None:
        self._progress.console.print(message, soft_wrap=True, markup=False)

    def loading(self, what: str | None) -> None:
        if self._loading is not None:
            self._progress.remove_task(self._loading)
            self._loading = None
        if what is not None:
            self._loading = self._progress.add_task(what, total=None, **EMPTY)

    def show(self, key: str, name: str, job: Job) -> None:
        if key not in self._tasks:
            self._tasks[key] = self._progress.add_task(_shortened(name), total=None, **EMPTY)
            self._keep_whole_last()
        transcribing = job.state is State.RUNNING and job.chunks
        self._draw(self._tasks[key], key, None if transcribing else stage(job))

    def hide(self, key: str) -> None:
        if key in self._tasks:
            self._progress.remove_task(self._tasks.pop(key))

    def refresh(self) -> None:
        tally = self._tally
        if tally.files < 2:
            return
        if self._whole is None:
            self._whole = self._progress.add_task("", total=None, **EMPTY)
        self._progress.update(self._whole, description=f"{tally.files_ended} of {tally.files} files")
        self._draw(self._whole, None)

    def _keep_whole_last(self) -> None:
        if self._whole is not None:
            self._progress.remove_task(self._whole)
            self._whole = None
            self.refresh()

    def _draw(self, task: TaskID, key: str | None, stage: str | None = None) -> None:
        """A file's bar, or that of all; `stage` stands in the place of the time that is left."""
        total, done = self._tally.total(key), self._tally.done(key)
        at, speed, left = _figures(self._tally, key)
        share = f"{done / total:.0%}" if total else ""
        self._progress.update(task, total=total, completed=done, share=share, at=at, speed=speed, left=stage or left)


class Lines:
    """A line for what is said, and one now and then for how far everything is."""

    def __init__(self, tally: Tally, every: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._tally, self._every, self._clock = tally, every, clock
        self._next = clock() + every

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def say(self, message: str | Text) -> None:
        err.print(message, markup=False)

    def loading(self, what: str | None) -> None:
        pass

    def show(self, key: str, name: str, job: Job) -> None:
        pass

    def hide(self, key: str) -> None:
        pass

    def refresh(self) -> None:
        if self._clock() < self._next:
            return
        self._next = self._clock() + self._every
        tally = self._tally
        total, done = tally.total(), tally.done()
        if not total:  # nothing has begun
            return
        files = f"{tally.files_ended} of {tally.files} files, " if tally.files > 1 else ""
        self.say(f"{files}{figures_of(tally)} ({done / total:.0%})")


def figures_of(tally: Tally, key: str | None = None) -> str:
    """ "12:30 / 1:00:00  8.2 × real time  5:40 left", as far as it is known."""
    at, speed, left = _figures(tally, key)
    return "  ".join((at, *([f"{speed} real time"] if speed else []), *([left] if left else [])))


def _figures(tally: Tally, key: str | None) -> tuple[str, str, str]:
    """Where it is, at what speed, what is left; "" for what is not known."""
    total, speed, left = tally.total(key), tally.speed(key), tally.left(key)
    return (
        f"{clock_time(tally.done(key))} / {clock_time(total) if total is not None else '?'}",
        f"{speed:.1f} ×" if speed is not None else "",
        f"{clock_time(left)} left" if left is not None else "",
    )


def _shortened(name: str) -> str:
    """The end of a long name, which tells files apart."""
    return name if len(name) <= NAME_LENGTH else f"…{name[1 - NAME_LENGTH :]}"


def clock_time(seconds: float) -> str:
    """M:SS, or H:MM:SS from an hour on."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
