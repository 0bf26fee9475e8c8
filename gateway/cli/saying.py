"""What `speechlane say` does: text from somewhere, a voice here or at a service, sound to somewhere."""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import sys
import time
import tomllib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.status import Status
from websockets.exceptions import ConnectionClosed

from gateway.cli.sources import threaded
from speech.tts import Sound
from speechlane.client.errors import ClientError, closed
from speechlane.client.wire import connected

if TYPE_CHECKING:
    from gateway.cli.sound_out import Sink
    from speech.speaking.config import SpeakConfig

PATH = "/v1/speak"
PIECE = 16 * 1024
"""Characters handed on at once."""
READ_BYTES = 4096
CONTEXT = "say"
HEADER_BYTES = 16


class SayError(Exception):
    """It cannot be said; the message says why and how to mend it."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How to speak."""

    voice: str = ""
    speed: float = 1.0
    seed: int = 0
    lexicon: dict[str, str] = field(default_factory=dict)

    def config(self) -> SpeakConfig:
        """For a speaker in this process, which makes a file. Raises InputInvalid."""
        from speech.speaking.config import SpeakConfig
        from speech.text.lexicon import Lexicon

        return SpeakConfig(voice=self.voice, speed=self.speed, seed=self.seed, lexicon=Lexicon(self.lexicon), lead=None)

    def asked(self) -> dict[str, Any]:
        """The same, as a service is asked for it."""
        fields: dict[str, Any] = {"voice": self.voice, "speed": self.speed, "seed": self.seed, "lead": None}
        return fields | ({"lexicon": self.lexicon} if self.lexicon else {})


async def speak(
    text: str | None,
    file: Path | None,
    manner: Manner,
    sink: Sink,
    *,
    url: str | None,
    key: str | None,
    progress: Status | None,
) -> None:
    """Say it all. Raises SayError, ClientError, ServingError, ModelError."""
    pieces = _pieces(text, file)
    sounds = _here(pieces, manner) if url is None else _at(url, key, pieces, manner)
    begun, seconds, rate = 0.0, 0.0, 0
    done = False
    try:
        with progress or nullcontext():
            async with aclosing(sounds):
                async for found, samples in sounds:
                    if not rate:
                        rate, begun = found, time.monotonic()
                        sink.open(rate)
                    await asyncio.to_thread(sink.write, samples)
                    seconds += len(samples) / rate
                    if progress is not None and seconds:
                        pace = seconds / max(1e-3, time.monotonic() - begun)
                        progress.update(f"{seconds:.1f} s spoken, {pace:.1f} times as fast as it is heard")
            await asyncio.to_thread(sink.close)
        done = True
    finally:
        if not done:
            sink.abandon()


Sounds = AsyncGenerator[tuple[int, Sound], None]
"""Sample rates and samples; the first has no samples and comes as soon as the rate is known."""

NOTHING: Sound = np.zeros(0, np.float32)


async def _here(pieces: AsyncIterator[str], manner: Manner) -> Sounds:
    from speech import tuned
    from speech.engine import Engine, EngineSettings
    from speech.speaking.events import SoundMade, SpeechFailed

    config = manner.config()
    engine = await Engine.start(EngineSettings(models=(), voices=(manner.voice or "heart",), tuned=tuned.found))
    try:
        speaker = engine.open_speech(config)
        yield speaker.rate, NOTHING

        async def feed() -> None:
            async for piece in pieces:
                await speaker.say(piece)
            await speaker.end()

        closing: list[asyncio.Task[None]] = []

        def stop(task: asyncio.Task[None]) -> None:
            # Text that cannot be had is the end of it all; what was said before is not worth a file.
            if not task.cancelled() and task.exception() is not None:
                closing.append(asyncio.create_task(speaker.close()))

        feeding = asyncio.create_task(feed())
        feeding.add_done_callback(stop)
        try:
            async for event in speaker.events():
                if isinstance(event, SpeechFailed):
                    raise event.error
                if isinstance(event, SoundMade):
                    yield speaker.rate, event.samples
            await feeding
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, *closing, return_exceptions=True)
            await speaker.close()
    finally:
        await engine.close()


async def _at(url: str, key: str | None, pieces: AsyncIterator[str], manner: Manner) -> Sounds:
    async with await connected(url, key, PATH) as socket:
        form = {"name": "float32"}
        create = {"type": "create", "context": CONTEXT, "format": form, "words": False, **manner.asked()}
        await socket.send(json.dumps(create))

        async def feed() -> None:
            async for piece in pieces:
                await socket.send(json.dumps({"type": "text", "context": CONTEXT, "text": piece}))
            await socket.send(json.dumps({"type": "end", "context": CONTEXT}))

        closing: list[asyncio.Task[None]] = []

        def stop(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                closing.append(asyncio.create_task(socket.close()))

        feeding = asyncio.create_task(feed())
        feeding.add_done_callback(stop)
        rate = 0
        try:
            while True:
                message = await socket.recv()
                if isinstance(message, bytes):
                    yield rate, np.frombuffer(message, "<f4", offset=HEADER_BYTES)
                    continue
                event = json.loads(message)
                if event["type"] == "created":
                    rate = event["format"]["rate"]
                    yield rate, NOTHING
                elif event["type"] in ("error", "failed"):
                    raise SayError(f"the service refused: {event['error']['message']}")
                elif event["type"] == "cancelled":
                    raise SayError(f"the service stopped before the end; left is: {event['unspoken'][:200]!r}")
                elif event["type"] == "done":
                    return
        except ConnectionClosed as error:
            problem = feeding.exception() if feeding.done() and not feeding.cancelled() else None
            if problem is not None and not isinstance(problem, ConnectionClosed):
                raise problem from None
            code, reason = (error.rcvd.code, error.rcvd.reason) if error.rcvd is not None else (1006, "")
            raise ClientError(closed(code, reason)) from error
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, *closing, return_exceptions=True)


def said(text: str | None, file: Path | None) -> str:
    """All of the text. Raises `SayError`."""
    if file is None and text != "-":
        return text or ""
    try:
        data = file.read_bytes() if file is not None else sys.stdin.buffer.read()
    except OSError as error:
        raise SayError(f"{file or 'standard input'} cannot be read: {error.strerror}") from error
    return _decoded(data, file)


async def _pieces(text: str | None, file: Path | None) -> AsyncIterator[str]:
    if text == "-":
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        async for block in threaded(_stdin):
            yield decoder.decode(block)
        yield decoder.decode(b"", final=True)
        return
    whole = said(text, file)
    for first in range(0, len(whole), PIECE):
        yield whole[first : first + PIECE]


def _stdin() -> Iterator[bytes]:
    if sys.stdin is None:
        raise SayError("standard input is closed; pipe text into it")
    # Unbuffered: what has been typed is spoken, not what fills a buffer.
    while data := os.read(sys.stdin.fileno(), READ_BYTES):
        yield data


def _decoded(data: bytes, file: Path | None) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SayError(f"{file or 'standard input'} is not UTF-8: byte {error.start} is wrong") from error


def read_lexicon(path: Path | None) -> dict[str, str]:
    """The table in a lexicon's file, not yet checked. Raises `SayError`."""
    if path is None:
        return {}
    try:
        text = path.read_text("utf-8")
        table = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise SayError(f"the lexicon {path} cannot be read: {error}") from error
    if not isinstance(table, dict):
        raise SayError(f"the lexicon {path} is no table of words")
    return table
