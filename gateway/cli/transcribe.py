"""`speechlane transcribe`: files and folders, in this process, without a service."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import lane_options as asked
from gateway.cli.console import fail
from gateway.cli.recordings import STDIN, Found, find

if TYPE_CHECKING:
    from batch_jobs.job import JobOptions
    from gateway.cli.outputs import Target

HELP = """Transcribe recordings here, without a service: files, folders, or - for standard input.

Every format that FFmpeg's libraries decode, video too. The text of a file goes to stdout, or to the file that --out
names; its ending chooses the format unless --format does. Of a folder every recording is taken, also in folders
inside it, and --out is the directory where its tree is mirrored. What is there already from the same recording with
the same settings is not made again.

Ctrl-C stops, and the same command goes on where it was; a second Ctrl-C stops at once. A file that cannot be
transcribed does not stop the others.

Exits with 0 when all went well, 1 when it could not begin or go on, 2 when the arguments are wrong, 3 when some
files failed or have holes, 130 when interrupted.

Examples:

  speechlane transcribe talk.mp3

  speechlane transcribe film.mkv --out film.srt

  speechlane transcribe calls/ --out texts/ --format txt,srt --channels each

  speechlane transcribe interview.wav --model base --language de --format json

  speechlane transcribe *.ogg --json | jq -r .text

  curl -s https://example.org/talk.mp3 | speechlane transcribe -
"""

PLAIN = "txt"
LEASE = 6.0
"""Seconds that a killed run's pieces are waited for: nobody but the run that follows it takes them."""


@asked.with_job_options
def command(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE|FOLDER|-...", help="Recordings, folders of them, - for stdin.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="A file for one recording, a directory for several. Unset: stdout.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--format", metavar="txt,srt,vtt,tsv,json", help="What to write; unset: by --out, else txt."),
    ] = None,
    *,
    options: JobOptions,
    words: Annotated[bool, typer.Option("--words", help="With json: each word; json always holds them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="On stdout a JSON object a line for each file.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Make what is there again; overwrite what is in the way.")] = (
        False
    ),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; only what went wrong.")] = False,
    concurrency: Annotated[
        int, typer.Option("--concurrency", "--workers", help="Pieces transcribed at once.", min=1, max=256)
    ] = 8,
    device: Annotated[str, typer.Option(help="Where the model runs: cpu, cuda:0; cuda takes every GPU.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="CPU threads.", min=1)] = None,
    batch_dir: asked.BatchDir = None,
    config: asked.Config = None,
) -> None:
    kinds = asked.formats(kind)
    if words and kinds != ("json",):
        fail("--words needs --format json: the other formats have no place for them", 2)
    found = find(files, leave_out=out)
    if found.missing and not found.recordings and not found.folders:
        fail(f"there is no file {found.missing[0]}")
    if STDIN in files and sys.stdin.isatty():
        fail("- reads a recording from a pipe, but standard input is a terminal", 2)
    target = _target(out, kinds, found, options, as_json)
    settings = asked.batch_settings(None, None, batch_dir, config)
    # Imported late so that --help and wrong arguments answer at once.
    from dataclasses import replace

    from gateway.cli.local_run import forget_old_runs, run_directory
    from gateway.cli.outputs import settings_digest
    from gateway.cli.transcribing import Transcribing
    from speech import tuned
    from speech.engine import EngineSettings

    root = settings.directory
    forget_old_runs(root, settings.keep)
    models = tuple(dict.fromkeys(name for name in (options.model, options.repair_model) if name))
    work = Transcribing(
        found,
        target,
        options,
        # Our own queue, whatever the environment names for jobs: this is work for this process alone.
        replace(
            settings,
            directory=run_directory(root, files, settings_digest(options)),
            redis_url=None,
            spool_url=None,
            lease=LEASE,
        ),
        EngineSettings(models=models, device=device, threads=threads, voices=(), tuned=tuned.found),
        concurrency,
        as_json=as_json,
        force=force,
        quiet=quiet,
    )
    code = asyncio.run(work.run())
    if code:
        raise typer.Exit(code)


def _target(out: Path | None, kinds: tuple[str, ...], found: Found, options: JobOptions, as_json: bool) -> Target:
    """Where transcripts go; ends the command when that cannot be."""
    from gateway.cli.outputs import Folder, Nowhere, OneFile, Standard

    if out is None:
        if as_json:
            if kinds:
                fail("--json prints rows with the text; to write files as well, give --out", 2)
            return Nowhere(PLAIN, found.several)
        if len(kinds) > 1 or (found.several and kinds not in ((), (PLAIN,))):
            fail("several results need --out DIRECTORY (or --json for a JSON object a line)", 2)
        return Standard(kinds[0] if kinds else PLAIN, found.several)
    if found.several or len(kinds) > 1 or out.is_dir() or str(out).endswith(os.sep):
        if out.exists() and not out.is_dir():
            fail(f"{out} is a file, but several results need a directory", 2)
        try:
            return Folder(out, found.recordings, kinds or (PLAIN,), options)
        except OSError as error:
            fail(f"{out} cannot be used for the results: {error.strerror}")
    if not out.parent.is_dir():
        fail(f"there is no directory {out.parent} to write {out.name} to")
    ending = out.suffix.lower().lstrip(".")
    return OneFile(out, kinds[0] if kinds else ending if ending in asked.FORMATS else PLAIN)
