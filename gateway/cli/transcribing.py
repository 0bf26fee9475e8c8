"""What `speechlane transcribe` does with its files: run them, write and report what comes, count what did not."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any, Literal

import typer
from redis.exceptions import RedisError
from rich.text import Text

from batch_jobs.job import JobOptions, State
from batch_jobs.jobs import Jobs
from batch_jobs.settings import BatchSettings
from batch_jobs.transcript import Transcript
from gateway.cli.console import err, one_line
from gateway.cli.local_run import LocalRun, Outcome, RunTaken, Stopped
from gateway.cli.outputs import Folder, OneFile, OutputTaken, Target
from gateway.cli.progress import Tally, board, clock_time
from gateway.cli.recordings import Found, Recording, container_seconds, readable, skipped
from speech.engine import EngineSettings
from speech.models import ModelError
from workers.errors import ServingError

FAILED, SOME_FAILED, INTERRUPTED = 1, 3, 130
HOLES_SHOWN = 5

Fate = Literal["done", "partial", "failed", "skipped"]


class Transcribing:
    """One command's work; `run` gives its exit code."""

    def __init__(
        self,
        found: Found,
        target: Target,
        options: JobOptions,
        settings: BatchSettings,
        engine: EngineSettings,
        concurrency: int,
        *,
        as_json: bool,
        force: bool,
        quiet: bool,
    ) -> None:
        self._found, self._target, self._options, self._settings = found, target, options, settings
        self._as_json, self._force, self._quiet = as_json, force, quiet
        self._fates: dict[Fate, int] = {"done": 0, "partial": 0, "failed": 0, "skipped": 0}
        self._tally = Tally()
        self._board = board(self._tally, quiet=quiet)
        self._local = LocalRun(settings, options, engine, concurrency, self._board, self._tally, force=force)
        self._begun = time.monotonic()

    async def run(self) -> int:
        """Transcribe everything; 0, 1 or 3. A second signal, and the end of an interrupted run, leave the process."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._interrupt)
        self._complain_early()
        wanted = [one for one in self._found.recordings if self._is_wanted(one)]
        for one in wanted:
            self._tally.expect(one.name, None)
        code = 0 if self._found.recordings or self._fates["failed"] else FAILED
        if wanted:
            measuring = asyncio.create_task(self._measure(wanted))
            try:
                with self._board:
                    await self._local.run(wanted, self._finished)
            except BrokenPipeError:
                raise
            except Stopped:
                self._leave("Interrupted; the same command goes on where it was.")
            except (RunTaken, ServingError, ModelError, RedisError, ValueError, OSError) as error:
                # A ValueError is a device that is not there, or weights of no use.
                self._error(_message(error))
                code = FAILED
            finally:
                measuring.cancel()
        self._sum_up(len(wanted))
        return code or (SOME_FAILED if self._fates["failed"] or self._fates["partial"] else 0)

    def _interrupt(self) -> None:
        if self._local.stop.is_set():
            err.show_cursor()  # the bars have hidden it
            os._exit(INTERRUPTED)
        self._local.stop.set()
        self._board.say(Text("Stopping; once more ends at once.", style="dim"))

    def _leave(self, message: str) -> None:
        """End without waiting for threads that cannot be interrupted: a model being loaded, a silent pipe."""
        err.print(message, markup=False)
        sys.stdout.flush()
        os._exit(INTERRUPTED)

    def _complain_early(self) -> None:
        for name in self._found.missing:
            self._failed(name, "there is no such file")
        for name, reason in self._found.closed:
            self._failed(name, reason)
        if not self._found.recordings and not self._fates["failed"]:
            self._error("there is no recording in the folder; files are taken by the endings of audio and video")
        if self._found.skipped and not self._quiet:
            err.print(skipped(self._found), style="dim")

    def _is_wanted(self, recording: Recording) -> bool:
        """Whether there is something to do for a recording, and somewhere to put it."""
        try:
            if not self._force and self._target.done(recording):
                self._fates["skipped"] += 1
                outputs = [readable(str(path)) for path in self._target.paths(recording).values()]
                self._row({"file": recording.name, "state": "skipped", "outputs": outputs})
                return False
            self._target.check(recording, self._force)
        except (OutputTaken, OSError) as error:
            self._failed(recording.name, _message(error))
            return False
        return True

    async def _measure(self, recordings: Sequence[Recording]) -> None:
        """Learn how long the files are, for the time that is left; those that cannot be opened fail later."""
        for one in recordings:
            if one.path is not None and len(recordings) > 1:
                self._tally.expect(one.name, await asyncio.to_thread(container_seconds, one.path))

    def _finished(self, jobs: Jobs, outcome: Outcome) -> None:
        job, recording = outcome.job, outcome.recording
        if job is None or job.state not in (State.DONE, State.PARTIAL):
            self._failed(recording.name, outcome.error or "it was cancelled")
            return
        transcript = jobs.transcript(job.id)
        whole = job.state is State.DONE
        try:
            self._target.check(recording, self._force)
            written = self._target.write(recording, lambda kind: jobs.render(job.id, kind), whole=whole)
        except (OutputTaken, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            self._failed(recording.name, _message(error))
            return
        outputs = [readable(str(path)) for path in written]
        self._fates["done" if whole else "partial"] += 1
        for warning in transcript.warnings:
            self._warn(recording.name, warning)
        if not whole:
            self._warn(recording.name, f"it has holes: {_holes(transcript)}")
        if isinstance(self._target, OneFile | Folder) and not self._quiet:
            self._board.say(Text(f"Wrote {', '.join(map(one_line, outputs))}.", style="dim"))
        self._row(
            {"file": recording.name, "state": job.state.value, "outputs": outputs} | row_of(transcript, not outputs)
        )

    def _failed(self, name: str, reason: str) -> None:
        self._fates["failed"] += 1
        self._error(f"{one_line(name)}: {reason}")
        self._row({"file": name, "state": "failed", "error": reason})

    def _row(self, fields: dict[str, Any]) -> None:
        if self._as_json:
            typer.echo(json.dumps(fields, ensure_ascii=False))

    def _error(self, message: str) -> None:
        self._board.say(Text.assemble(("error: ", "bold red"), message))

    def _warn(self, name: str, message: str) -> None:
        self._board.say(Text.assemble(("warning: ", "yellow"), f"{one_line(name)}: {message}"))

    def _sum_up(self, tried: int) -> None:
        if self._quiet or not self._found.several:
            return
        fates = self._fates
        parts = [f"{fates['done'] + fates['partial']} transcribed"]
        parts += [f"{fates['partial']} of them with holes"] if fates["partial"] else []
        parts += [f"{fates['skipped']} there already"] if fates["skipped"] else []
        parts += [f"{fates['failed']} failed"] if fates["failed"] else []
        took, audio = time.monotonic() - self._begun, self._tally.done()
        speed = f"; {clock_time(audio)} of audio in {clock_time(took)}, {audio / took:.1f} × real time"
        err.print(f"{_count(sum(fates.values()), 'file')}: {', '.join(parts)}{speed if tried else ''}.", style="dim")


def row_of(transcript: Transcript, with_text: bool) -> dict[str, Any]:
    """A transcript in a row of --json. Times in seconds."""
    account = transcript.account
    row: dict[str, Any] = {
        "seconds": round(account.decoded, 3),
        "speech": round(account.speech, 3),
        "words": round(account.words, 3),
        "language": transcript.language,
        "missing": [
            {"start": hole.start, "end": hole.end, "channel": hole.channel, "reason": hole.reason}
            for hole in account.missing
        ],
        "repairs": sum(repair.kept for repair in transcript.repairs),
        "warnings": list(transcript.warnings),
    }
    if with_text:
        row["text"] = " ".join(segment.text.strip() for segment in transcript.segments)
        row["segments"] = [
            {"start": segment.start, "end": segment.end, "channel": segment.channel, "text": segment.text.strip()}
            for segment in transcript.segments
        ]
    return row


def _holes(transcript: Transcript) -> str:
    holes = transcript.account.missing
    shown = [f"{clock_time(hole.start)}–{clock_time(hole.end)} ({hole.reason})" for hole in holes[:HOLES_SHOWN]]
    rest = len(holes) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def _message(error: BaseException) -> str:
    if isinstance(error, ServingError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
