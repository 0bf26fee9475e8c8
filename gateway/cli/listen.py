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

from gateway.cli.client import ListenError, Utterance, listen
from gateway.cli.console import err, fail, out
from gateway.cli.sources import SourceError, at_real_time, file_blocks, microphone_blocks, stdin_blocks
from speech.asr import SAMPLE_RATE
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
    """Shows an utterance that has changed."""

    def __call__(self, utterance: Utterance) -> None: ...


def command(
    source: Annotated[str, typer.Argument(metavar="FILE|-|mic", help="A recording, - for raw PCM16 or a WAV, or mic.")],
    url: Annotated[str, typer.Option(help="Address of the service.", envvar="SPEECHLANE_URL")] = "ws://127.0.0.1:8700",
    key: Annotated[
        str | None, typer.Option(help="API key; better given in the variable.", envvar="SPEECHLANE_API_KEY")
    ] = None,
    language: Annotated[str | None, typer.Option(help="Language code; unset: detected, or the model's own.")] = None,
    model: Annotated[str | None, typer.Option(help="Model; unset: the service's default.")] = None,
    rate: Annotated[int, typer.Option(help="Sample rate of raw - and mic, Hz.", min=8000, max=48000)] = SAMPLE_RATE,
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
            asyncio.run(_run(source, url, key, rate if source in ("-", "mic") else SAMPLE_RATE, model, language, show))
    except (ListenError, SourceError) as error:
        fail(str(error))
    except ServingError as error:
        fail(f"{source}: {error.message}")
    except asyncio.CancelledError:
        raise typer.Exit(130) from None


async def _run(
    source: str, url: str, key: str | None, rate: int, model: str | None, language: str | None, show: Display
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
        blocks = microphone_blocks(rate)
        err.print("Listening; Ctrl-C ends.", style="dim")
    else:
        blocks = at_real_time(stdin_blocks(rate) if source == "-" else file_blocks(Path(source)), rate)
    await listen(blocks, url=url, key=key, rate=rate, model=model, language=language, show=show, stop=stop)


def _json(utterance: Utterance) -> None:
    fields: dict[str, object] = {"item": utterance.item, "start": utterance.start}
    if utterance.problem is not None:
        fields |= {"type": "failed", "message": utterance.problem}
    elif utterance.text is not None:
        fields |= {"type": "final", "end": utterance.end, "text": utterance.text, "words": utterance.words}
    else:
        fields |= {"type": "partial", "stable": utterance.stable, "unstable": utterance.unstable}
    typer.echo(json.dumps(fields, ensure_ascii=False))


class _Lines:
    """Plain lines for a pipe."""

    def __init__(self, words: bool) -> None:
        self._words = words

    def __call__(self, utterance: Utterance) -> None:
        if utterance.problem is not None:
            typer.echo(f"failed {utterance.start:.2f} {utterance.problem}")
        elif utterance.text is None:
            typer.echo(f"partial {(utterance.stable + utterance.unstable).strip()}")
        elif utterance.text:
            typer.echo(f"final {utterance.start:.2f} {utterance.end:.2f} {utterance.text}")
            for word in utterance.words if self._words else ():
                typer.echo(
                    f"word {word['start']:.2f} {word['end']:.2f} {word['confidence']:.2f} {word['word'].strip()}",
                )


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

    def _show(self, utterance: Utterance) -> None:
        if utterance.problem is None and utterance.text is None:
            line = Text.assemble(_times(utterance), utterance.stable.lstrip(), (utterance.unstable, "dim"))
            self._live.update(line, refresh=True)
            return
        self._live.update(Text(""), refresh=True)
        if utterance.problem is not None:
            out.print(Text.assemble(_times(utterance), (utterance.problem, "red")))
        elif utterance.text:
            out.print(Text.assemble(_times(utterance), utterance.text))
            for word in utterance.words if self._words else ():
                row = f"    {word['start']:7.2f} {word['end']:7.2f}  {word['confidence']:4.0%}  {word['word'].strip()}"
                out.print(Text(row, style="dim"))


def _times(utterance: Utterance) -> tuple[str, str]:
    end = f"{utterance.end:6.2f}" if utterance.end else "      "
    return f"{utterance.start:6.2f} {end}  ", "cyan"
