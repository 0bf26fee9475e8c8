"""`speechlane listen`: stream audio to a service at real time and watch the words come."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Protocol

import typer
from rich.live import Live
from rich.text import Text

from gateway.cli.console import err, fail, out
from gateway.cli.sources import file_blocks, stdin_blocks
from speech.asr import SAMPLE_RATE
from speechlane.client import (
    ClientError,
    Event,
    Failed,
    Final,
    Gap,
    Partial,
    Source,
    SourceError,
    Started,
    connect,
    microphone,
)
from speechlane.client.session import PATIENCE
from speechlane.client.sources import at_real_time
from workers.errors import ServingError

HELP = """Stream a recording, standard input or the microphone to a running service, and show what it hears.

In a terminal the words appear as they are spoken; those that may still change are dim. In a pipe every change is a
line: "partial TEXT" while speaking, "final START END TEXT" (seconds) when an utterance has ended. Ctrl-C ends the
audio and waits for the last words.

Examples:

  speechlane listen talk.wav

  speechlane listen mic --language de --words

  arecord -f S16_LE -r 16000 -t raw | speechlane listen - --rate 16000

  ffmpeg -i talk.mkv -f wav - | speechlane listen -

  speechlane listen talk.mp3 --json | jq -r 'select(.type == "final").text'

  SPEECHLANE_API_KEY=... speechlane listen talk.wav --url wss://speech.example.org
"""


class Display(Protocol):
    """Shows what happened."""

    def __call__(self, event: Event) -> None: ...


def command(
    source: Annotated[str, typer.Argument(metavar="FILE|-|mic", help="A recording, - for raw PCM16 or a WAV, or mic.")],
    url: Annotated[str, typer.Option(help="Address of the service.", envvar="SPEECHLANE_URL")] = "ws://127.0.0.1:8700",
    key: Annotated[
        str | None, typer.Option(help="API key; better given in the variable.", envvar="SPEECHLANE_API_KEY")
    ] = None,
    language: Annotated[str | None, typer.Option(help="Language code; unset: detected, or the model's own.")] = None,
    model: Annotated[str | None, typer.Option(help="Model; unset: the service's default.")] = None,
    rate: Annotated[int, typer.Option(help="Sample rate of raw - and mic, Hz.", min=8000, max=48000)] = SAMPLE_RATE,
    patience: Annotated[
        float, typer.Option(help="Seconds for which a service that went away is tried again.", min=0)
    ] = PATIENCE,
    words: Annotated[bool, typer.Option("--words", help="Show each word's times and confidence.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    display: AbstractContextManager[Display]
    if as_json:
        display = nullcontext(_json)
    elif out.is_terminal:
        display = _Screen(words)
    else:
        display = nullcontext(_Lines(words))
    try:
        if source not in ("-", "mic") and not Path(source).is_file():
            raise SourceError(f"there is no file {source}")
        with display as show:
            heard = rate if source in ("-", "mic") else SAMPLE_RATE
            asyncio.run(_run(source, url, key, heard, model, language, patience, show))
    except (ClientError, SourceError) as error:
        fail(str(error))
    except ServingError as error:
        fail(f"{source}: {error.message}")
    except asyncio.CancelledError:
        raise typer.Exit(130) from None


async def _run(
    source: str,
    url: str,
    key: str | None,
    rate: int,
    model: str | None,
    language: str | None,
    patience: float,
    show: Display,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def on_interrupt() -> None:
        if stop.is_set():
            task.cancel()
        stop.set()

    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    blocks: AsyncIterator[bytes]
    if source == "mic":
        blocks = microphone(rate).blocks
        err.print("Listening; Ctrl-C ends.", style="dim")
    else:
        blocks = at_real_time(stdin_blocks(rate) if source == "-" else file_blocks(Path(source)), rate)
    async with connect(url, key, rate=rate, model=model, language=language, patience=patience) as session:
        async for event in session.transcribe(Source(rate, _until(blocks, stop))):
            show(event)


async def _until(blocks: AsyncIterator[bytes], stop: asyncio.Event) -> AsyncIterator[bytes]:
    """The blocks until `stop` is set, even when none comes any more."""
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            block = asyncio.ensure_future(anext(blocks, None))
            await asyncio.wait({block, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not block.done():
                block.cancel()
                return
            if (data := block.result()) is None:
                return
            yield data
    finally:
        stopping.cancel()


def _json(event: Event) -> None:
    fields: dict[str, object]
    match event:
        case Started():
            return
        case Gap():
            fields = {"start": event.start, "type": "gap", "end": event.end}
        case Failed():
            fields = {"item": event.utterance, "start": event.start, "type": "failed", "message": event.message}
        case Final():
            words = [
                {"word": word.text, "start": word.start, "end": word.end, "confidence": word.confidence}
                for word in event.words
            ]
            fields = {"item": event.utterance, "start": event.start, "type": "final", "end": event.end}
            fields |= {"text": event.text, "words": words}
        case Partial():
            fields = {"item": event.utterance, "start": event.start, "type": "partial"}
            fields |= {"stable": event.stable, "unstable": event.unstable}
    typer.echo(json.dumps(fields, ensure_ascii=False))


class _Lines:
    """Plain lines for a pipe."""

    def __init__(self, words: bool) -> None:
        self._words = words

    def __call__(self, event: Event) -> None:
        match event:
            case Gap():
                typer.echo(f"lost {event.start:.2f} {event.end:.2f}")
            case Failed():
                typer.echo(f"failed {event.start:.2f} {event.message}")
            case Partial():
                typer.echo(f"partial {event.text.strip()}")
            case Final() if event.text:
                typer.echo(f"final {event.start:.2f} {event.end:.2f} {event.text}")
                for word in event.words if self._words else ():
                    typer.echo(f"word {word.start:.2f} {word.end:.2f} {word.confidence:.2f} {word.text.strip()}")


class _Screen(AbstractContextManager[Display]):
    """Finals scroll up; under them the utterance being spoken, its unstable words dim."""

    def __init__(self, words: bool) -> None:
        self._words = words
        self._live = Live(console=out, auto_refresh=False, transient=True)

    def __enter__(self) -> Display:
        self._live.start()
        return self._show

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def _show(self, event: Event) -> None:
        match event:
            case Started():
                pass
            case Partial():
                line = Text.assemble(_times(event.start), event.stable.lstrip(), (event.unstable, "dim"))
                self._live.update(line, refresh=True)
            case Failed() | Gap():
                self._live.update(Text(""), refresh=True)
                said = event.message if isinstance(event, Failed) else "lost: the service did not keep the session"
                out.print(Text.assemble(_times(event.start, event.end), (said, "red")))
            case Final():
                self._live.update(Text(""), refresh=True)
                if event.text:
                    out.print(Text.assemble(_times(event.start, event.end), event.text))
                for word in event.words if self._words else ():
                    row = f"    {word.start:7.2f} {word.end:7.2f}  {word.confidence:4.0%}  {word.text.strip()}"
                    out.print(Text(row, style="dim"))


def _times(start: float, end: float = 0.0) -> tuple[str, str]:
    shown = f"{end:6.2f}" if end else "      "
    return f"{start:6.2f} {shown}  ", "cyan"
