"""`speechlane transcribe`: one file, in this process, without a service."""

from __future__ import annotations

import asyncio
import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gateway.cli.console import err, fail

if TYPE_CHECKING:
    from speech.asr import DecodeOptions, Samples
    from speech.engine import Segment

HELP = """Transcribe one recording here, without a service.

The text goes to stdout, or to the file that --out names; its ending chooses the format unless --format does.

Examples:

  speechlane transcribe talk.mp3

  speechlane transcribe film.m4a --out film.srt

  speechlane transcribe interview.wav --model base --language de --format json --words
"""


class Format(StrEnum):
    """What to write."""

    TEXT = "text"
    SRT = "srt"
    VTT = "vtt"
    JSON = "json"


ENDINGS = {".txt": Format.TEXT, ".srt": Format.SRT, ".vtt": Format.VTT, ".json": Format.JSON}


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="WAV, FLAC, MP3, Ogg, Opus, WebM, M4A.")],
    model: Annotated[str, typer.Option(help="A bundled name, a directory or a hub name.")] = "tiny.en",
    language: Annotated[str | None, typer.Option(help="Language code; unset: detected, or the model's own.")] = None,
    prompt: Annotated[str, typer.Option(help="Text that came before, or names to expect.")] = "",
    kind: Annotated[Format | None, typer.Option("--format", help="What to write; unset: by --out, else text.")] = None,
    words: Annotated[bool, typer.Option("--words", help="With json: each word's times and confidence.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write here instead of stdout.")] = None,
    device: Annotated[str, typer.Option(help="Where the model runs: cpu, cuda:0; cuda takes every GPU.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="CPU threads.", min=1)] = None,
) -> None:
    kind = kind or (ENDINGS.get(out.suffix.lower()) if out is not None else None) or Format.TEXT
    if words and kind is not Format.JSON:
        fail("--words needs --format json: the other formats have no place for them", 2)
    if not file.is_file():
        fail(f"there is no file {file}")
    if out is not None and not out.parent.is_dir():
        fail(f"there is no directory {out.parent} to write {out.name} to")
    # Imported late so that --help and wrong arguments answer at once.
    from gateway.languages import language_code
    from speech.asr import DecodeOptions
    from speech.models import ModelError
    from workers.errors import ServingError

    code = language_code(language) if language else None
    if language and code is None:
        fail(f"--language is {language}; give an ISO-639-1 code such as en, de or fr", 2)
    options = DecodeOptions(language=code, prompt=prompt)
    try:
        text = _render(*asyncio.run(_transcribe(file, model, options, device, threads)), kind, words)
    except ServingError as error:
        fail(f"{file}: {error.message}")
    except (ModelError, ValueError) as error:  # a ValueError is a device that is not there, or weights of no use
        fail(str(error))
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text, "utf-8")
        err.print(f"Wrote {out}.", style="dim")


async def _transcribe(
    file: Path, model: str, options: DecodeOptions, device: str, threads: int | None
) -> tuple[list[Segment], float]:
    from gateway.transcriptions import check_language, transcribing
    from speech.asr import SAMPLE_RATE
    from speech.engine import Engine, EngineSettings

    bar = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f}%"),
                   TimeRemainingColumn(), console=err, transient=True, disable=not err.is_terminal)  # fmt: skip
    segments: list[Segment] = []
    with bar as progress:
        task = progress.add_task(f"Loading {model}", total=None)
        samples = await asyncio.to_thread(_decode, file)
        seconds = len(samples) / SAMPLE_RATE
        engine = await Engine.start(EngineSettings(models=(model,), device=device, threads=threads))
        try:
            check_language(engine, model, options)
            progress.update(task, description=f"Transcribing {seconds:.0f} s", total=seconds, completed=0)
            async with transcribing(engine, samples, options, model) as found:
                async for segment in found:
                    segments.append(segment)
                    progress.update(task, completed=segment.end)
        finally:
            await engine.close()
    return segments, seconds


def _decode(file: Path) -> Samples:
    import numpy as np

    from speech.containers import decode_file

    with file.open("rb") as data:
        pieces = list(decode_file(data, max_seconds=float("inf")))
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def _render(segments: list[Segment], seconds: float, kind: Format, words: bool) -> str:
    from gateway.transcript_formats import plain_text, verbose_body
    from speech.cues import cues
    from speech.subtitles import srt, vtt

    match kind:
        case Format.TEXT:
            return plain_text(segments) + "\n"
        case Format.SRT:
            return srt(cues(segments, until=seconds))
        case Format.VTT:
            return vtt(cues(segments, until=seconds))
        case Format.JSON:
            granularities = frozenset({"segment", "word"} if words else {"segment"})
            return json.dumps(verbose_body(segments, seconds, granularities), ensure_ascii=False, indent=2) + "\n"
