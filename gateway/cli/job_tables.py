"""Jobs as people and scripts see them: tables, rows of JSON, bars."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from gateway.cli.console import Plain, err, one_line, out

if TYPE_CHECKING:
    from batch_jobs.job import Job
    from batch_jobs.jobs import Jobs
    from batch_jobs.queue.task import Dead

POLL_SECONDS = 0.3
WIDE = 1000
"""Columns of a table that no terminal shows: nothing is folded or cut."""
STYLES = {"done": "green", "partial": "yellow", "failed": "red", "cancelled": "dim"}


def job_row(job: Job) -> dict[str, Any]:
    """All fields of a job, and its progress from 0 to 1."""
    from batch_jobs.wire import dump

    return {**json.loads(dump(job)), "progress": round(job.progress, 4)}


def show_jobs(jobs: Sequence[Job]) -> None:
    """A line each."""
    from gateway.cli.progress import clock_time, length_of, stage

    rows = []
    for job in jobs:
        length = length_of(job)
        rows.append(
            (
                job.id,
                Text(stage(job), style=STYLES.get(job.state, "")),
                f"{job.progress:.0%}",
                clock_time(length) if length is not None else "?",
                _ago(job.created),
                one_line(job.name),
            )
        )
    _table(("JOB", "STATE", "DONE", "LENGTH", "SUBMITTED", "NAME"), rows)


def show_job(job: Job, as_json: bool) -> None:
    """Everything about one."""
    from gateway.cli.progress import clock_time, length_of, stage

    if as_json:
        typer.echo(json.dumps(job_row(job), ensure_ascii=False))
        return
    options, length = job.options, length_of(job)
    asked = {
        "model": options.model,
        "language": options.language or "detected",
        "channels": options.channels.value,
        "priority": options.priority.value,
        "repair": (options.repair_model or "yes") if options.repair else "no",
    }
    lines: list[tuple[str, str | Text]] = [
        ("job", job.id),
        ("name", one_line(job.name)),
        ("state", Text(stage(job), style=STYLES.get(job.state, ""))),
        ("progress", f"{job.progress:.0%} of {clock_time(length) if length is not None else '?'}"),
        ("asked", ", ".join(f"{name} {value}" for name, value in asked.items())),
        ("submitted", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.created))),
        ("speech", f"{clock_time(job.speech)} found"),
        (
            "pieces",
            f"{job.chunks_done} of {job.chunks} done" + (f", {job.chunks_failed} failed" * bool(job.chunks_failed)),
        ),
        ("repairs", f"{job.repairs_done} of {job.repairs}"),
    ]
    if job.waiting:
        lines.append(("delayed", job.waiting))
    if job.ended is not None:
        lines.append(("ended", outcome(job)))
    if job.timings:
        lines.append(("work", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in sorted(job.timings.items()))))
    lines += [("warning", warning) for warning in job.warnings]
    for name, value in lines:
        out.print(Text.assemble((f"{name:<11}", "bold"), value))


def outcome(job: Job) -> str:
    """What became of a job: "done, 1:00:00 of audio in 7:10, 8.4 × real time", or why it failed."""
    from gateway.cli.progress import clock_time

    if job.error:
        return f"{job.state.value}: {job.error}"
    took = (job.ended or job.created) - (job.started or job.created)
    speed = f", {job.decoded / took:.1f} × real time" if took > 0 and job.decoded else ""
    return f"{job.state.value}, {clock_time(job.decoded)} of audio in {clock_time(took)}{speed}"


def show_dead(found: Sequence[Dead], as_json: bool) -> None:
    """A line for each task that was given up."""
    if as_json:
        for one in found:
            row = {"job": one.job, "task": one.task, "kind": one.kind.value, "reason": one.reason,
                   "deliveries": one.deliveries, "at": one.at}  # fmt: skip
            typer.echo(json.dumps(row, ensure_ascii=False))
    elif found:
        rows = [(one.job, one.task, one.kind.value, str(one.deliveries), _ago(one.at), one.reason) for one in found]
        _table(("JOB", "PIECE", "KIND", "TRIED", "WHEN", "REASON"), rows)
    else:
        err.print("Nothing was given up.", style="dim")


def each(ids: Sequence[str], act: Callable[[str], bool], done: str, undone: str, as_json: bool) -> None:
    """Do something with each job; ends the command with 1 when one of them was not there or not in that state."""
    from workers.errors import ServingError

    failed = False
    for one in ids:
        try:
            reason = None if act(one) else undone
        except ServingError as error:
            reason = error.message
        failed = failed or reason is not None
        if as_json:
            typer.echo(json.dumps({"id": one, "ok": reason is None} | ({"error": reason} if reason else {})))
        elif reason is None:
            typer.echo(f"{one}\t{done}")
        if reason is not None and not as_json:
            err.print(Text.assemble(("error: ", "bold red"), f"{one}: {reason}"))
    if failed:
        raise typer.Exit(1)


def open_jobs(jobs: Jobs) -> list[str]:
    """Ids of the jobs that have not ended, oldest first."""
    from batch_jobs.job import State

    found = [job for state in State if not state.ended for job in jobs.list(state=state, limit=10_000)]
    return list(dict.fromkeys(job.id for job in sorted(found, key=lambda job: job.created)))


def watch(jobs: Jobs, ids: Sequence[str], as_json: bool) -> int:
    """Follow jobs to their ends: bars or lines on stderr, or each change as a JSON line on stdout. 0, 3 or 130."""
    from batch_jobs.job import State
    from gateway.cli.progress import Tally, board
    from workers.errors import ServingError

    tally = Tally()
    display = board(tally, quiet=as_json)
    left, seen, code = list(ids), dict[str, str](), 0
    for one in ids:
        tally.expect(one, None)
    try:
        with display:
            while left:
                for one in list(left):
                    try:
                        job = jobs.get(one)
                    except ServingError:  # somebody has deleted it meanwhile
                        display.say(f"{one}: it was removed")
                        left.remove(one)
                        code = 3
                        continue
                    tally.update(one, job)
                    if as_json:
                        _if_changed(job, seen)
                    if not job.state.ended:
                        if job.state is not State.QUEUED:
                            display.show(one, job.name, job)
                        continue
                    left.remove(one)
                    tally.end(one)
                    display.hide(one)
                    code = code if job.state is State.DONE else 3
                    if not as_json:
                        display.say(_end(job))
                display.refresh()
                if left:
                    time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        return 130
    return code


def _if_changed(job: Job, seen: dict[str, str]) -> None:
    row = json.dumps(job_row(job), ensure_ascii=False)
    if seen.get(job.id) != row:
        seen[job.id] = row
        typer.echo(row)


def _end(job: Job) -> Text:
    return Text.assemble(f"{job.id}  {one_line(job.name)}: ", (outcome(job), STYLES.get(job.state, "")))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """On a terminal within its width; elsewhere a line a row, whole."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, head in enumerate(heads):
        last = number == len(heads) - 1
        table.add_column(head, no_wrap=not last or not out.is_terminal, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    console = out if out.is_terminal else Plain(width=WIDE, highlight=False)
    console.print(table)


def _ago(at: float) -> str:
    seconds = max(0.0, time.time() - at)
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
