"""`speechlane jobs`: hand recordings to workers, look at them, watch them, take them back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gateway.cli import job_tables as tables
from gateway.cli import lane_options as asked
from gateway.cli.console import err, fail, one_line
from gateway.cli.job_access import with_jobs
from gateway.cli.recordings import STDIN, find, skipped

if TYPE_CHECKING:
    from batch_jobs.job import JobOptions
    from batch_jobs.jobs import Jobs

HELP = """Recordings for workers: hand them in, look at them, watch them, take them back.

By default the queue is our own, in the batch directory, and the work is done by `speechlane worker` or by a running
`speechlane serve` on this machine. For workers on other machines name a queue and a spool that all of them reach, by
--redis-url and --spool-url or, better for what is secret, SPEECHLANE_REDIS_URL and SPEECHLANE_SPOOL_URL.

Examples:

  speechlane jobs submit talk.mp3 calls/ --language en

  speechlane jobs watch

  speechlane jobs show JOB --format srt > talk.srt
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SUBMIT = """Hand recordings in: files, folders (every recording in them), or - for standard input.

Prints the id of each job, a tab and the file's name.

Examples:

  speechlane jobs submit talk.mp3

  speechlane jobs submit calls/ --channels each --priority low

  speechlane jobs submit talk.mp3 --watch
"""
LIST = """The jobs, newest first.

Examples:

  speechlane jobs list

  speechlane jobs list --state failed --json | jq -r .id
"""
SHOW = """A job: what was asked, how far it is, what went wrong; with --format its transcript.

Examples:

  speechlane jobs show JOB

  speechlane jobs show JOB --format srt > talk.srt
"""
WATCH = """Watch jobs until they have ended: those named, or all that have not. Ctrl-C ends the watching, not the jobs.

Exits with 0 when all were done, 3 when some failed, were cancelled or have holes.

Examples:

  speechlane jobs watch

  speechlane jobs watch JOB --json
"""
CANCEL = """Stop jobs. Pieces in hand end within seconds; the jobs stay in the list.

Examples:

  speechlane jobs cancel JOB
"""
RETRY = """Try the pieces again that were given up in an ended job; what was transcribed stays.

Examples:

  speechlane jobs retry JOB
"""
DEAD = """Pieces that no worker could do, and why: of one job or of all.

Examples:

  speechlane jobs dead

  speechlane jobs dead JOB --json
"""
PURGE = """Remove jobs that ended some time ago, with their files.

Examples:

  speechlane jobs purge --older-than 12h

  speechlane jobs purge --older-than 0s
"""

Watch = Annotated[bool, typer.Option("--watch", help="Watch them until they have ended.")]
Priority = Annotated[str, typer.Option(help="high goes before normal, normal before low.", metavar="high|normal|low")]
Webhook = Annotated[str | None, typer.Option(help="URL that a service calls when the job has ended.", metavar="URL")]
StateName = Annotated[
    str | None,
    typer.Option("--state", help="Only these: queued, running, repairing, writing, done, partial, failed, cancelled."),
]


@app.command("submit", help=SUBMIT, short_help="Hand recordings in: files, folders, stdin.")
@with_jobs
@asked.with_job_options
def submit(
    jobs: Jobs,
    files: Annotated[list[str], typer.Argument(metavar="FILE|FOLDER|-...", help="Recordings, or folders of them.")],
    options: JobOptions,
    priority: Priority = "normal",
    webhook: Webhook = None,
    watching: Watch = False,
    as_json: asked.Json = False,
) -> None:
    from gateway.cli.recordings import blocks
    from workers.errors import ServingError

    options = replace(options, priority=asked.priority(priority), webhook=webhook)
    found = find(files)
    if not found.recordings:
        fail(f"there is no file {found.missing[0]}" if found.missing else "there is no recording in the folder")
    if found.skipped:
        err.print(skipped(found), style="dim")
    refused = [*((name, "there is no such file") for name in found.missing), *found.closed]
    ids = []
    for one in found.recordings:
        try:
            job = jobs.submit(blocks(one.path), STDIN if one.path is None else one.name, options)
        except OSError as error:
            refused.append((one.name, error.strerror or str(error)))
            continue
        except ServingError as error:
            refused.append((one.name, error.message))
            continue
        ids.append(job.id)
        typer.echo(
            json.dumps(tables.job_row(job), ensure_ascii=False) if as_json else f"{job.id}\t{one_line(one.name)}"
        )
    for name, reason in refused:
        err.print(Text.assemble(("error: ", "bold red"), f"{name}: {reason}"))
    code = tables.watch(jobs, ids, False) if watching and ids else 0
    if code or refused:
        raise typer.Exit(code or 3)


@app.command("list", help=LIST, short_help="The jobs, newest first.")
@with_jobs
def list_jobs(
    jobs: Jobs,
    state: StateName = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=10_000)] = 100,
    as_json: asked.Json = False,
) -> None:
    from batch_jobs.job import State

    if state is not None and state not in tuple(State):
        fail(f"--state is {state}; there is {', '.join(State)}", 2)
    found = jobs.list(state=State(state) if state is not None else None, limit=limit)
    if as_json:
        for job in found:
            typer.echo(json.dumps(tables.job_row(job), ensure_ascii=False))
    elif found:
        tables.show_jobs(found)
    else:
        err.print("There are no jobs.", style="dim")


@app.command("show", help=SHOW, short_help="A job, or its transcript (--format).")
@with_jobs
def show(
    jobs: Jobs,
    job: asked.JobId,
    kind: Annotated[
        str | None,
        typer.Option("--format", metavar="txt|srt|vtt|tsv|json", help="Print the transcript in this format."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the transcript here instead of stdout.")] = None,
    as_json: asked.Json = False,
) -> None:
    kinds = asked.formats([kind] if kind else None)
    if len(kinds) > 1:
        fail("--format takes one format here", 2)
    if out is not None and not kinds:
        ending = out.suffix.lower().lstrip(".")
        kinds = (ending if ending in asked.FORMATS else "txt",)
    if not kinds:
        tables.show_job(jobs.get(job), as_json)
        return
    data = jobs.render(job, kinds[0])
    if out is None:
        typer.echo(data, nl=False)
    else:
        from gateway.cli.outputs import write_file

        write_file(out, data)
        err.print(f"Wrote {out}.", style="dim", markup=False)


@app.command("watch", help=WATCH, short_help="Watch jobs until they have ended.")
@with_jobs
def watch(
    jobs: Jobs,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="JOB...", help="Ids; none: all that have not ended.")
    ] = None,
    as_json: asked.Json = False,
) -> None:
    wanted = [jobs.get(one).id for one in ids] if ids else tables.open_jobs(jobs)
    if not wanted:
        err.print("All jobs have ended; `speechlane jobs list` shows them.", style="dim")
        return
    if code := tables.watch(jobs, wanted, as_json):
        raise typer.Exit(code)


@app.command("cancel", help=CANCEL, short_help="Stop jobs.")
@with_jobs
def cancel(jobs: Jobs, ids: asked.JobIds, as_json: asked.Json = False) -> None:
    tables.each(ids, jobs.cancel, "cancelled", "it has ended already", as_json)


@app.command("retry", help=RETRY, short_help="Try again what was given up.")
@with_jobs
def retry(jobs: Jobs, ids: asked.JobIds, as_json: asked.Json = False) -> None:
    tables.each(ids, jobs.retry, "tried again", "it has not ended, or nothing in it was given up", as_json)


@app.command("dead", help=DEAD, short_help="What no worker could do, and why.")
@with_jobs
def dead(
    jobs: Jobs,
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Of this job alone.")] = None,
    as_json: asked.Json = False,
) -> None:
    tables.show_dead(jobs.dead(job), as_json)


@app.command("purge", help=PURGE, short_help="Remove ended jobs with their files.")
@with_jobs
def purge(
    jobs: Jobs,
    older_than: Annotated[str, typer.Option(help="Since they ended: 90s, 15m, 12h, 7d, 2w.")] = "7d",
    as_json: asked.Json = False,
) -> None:
    removed = jobs.purge(asked.duration(older_than, "--older-than"))
    typer.echo(json.dumps({"removed": removed}) if as_json else f"{removed} removed")
