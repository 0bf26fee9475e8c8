"""Speech to text: transcribe, then audio-start, -chunk and -stop, answered by a transcript."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.auth import LOCAL
from gateway.closing import every, stopped
from gateway.languages import language_code
from gateway.metrics import Metrics
from gateway.state import Service
from gateway.telemetry.hearing import heard
from gateway.wyoming import fields
from gateway.wyoming.events import Event
from gateway.wyoming.wire import Wire
from speech.asr import SAMPLE_RATE, DecodeOptions
from speech.audio import AudioDecoder, AudioFormat
from speech.config import StreamConfig
from speech.events import Failed, Final
from workers.errors import Draining, InputInvalid, Overloaded

if TYPE_CHECKING:
    from speech.transcriber import Transcriber

log = logging.getLogger("speechlane.wyoming")

MOST_SECONDS = 3600.0
"""Of sound in one request."""


class Transcription:
    """One request: heard live, so that little is left to do when its sound ends. `close` it in every case.

    Whatever it raises has ended it.
    """

    def __init__(self, service: Service, wire: Wire, data: dict[str, Any]) -> None:
        """`data` is that of transcribe. Raises InputInvalid."""
        self._service, self._wire = service, wire
        language = fields.optional_text(data, "language")
        code = language_code(language) if language else None
        if language and code is None:
            raise InputInvalid(f"{language[:60]!r} is no language known here.", param="language")
        self._config = StreamConfig(
            model=service.engine.resolve(fields.optional_text(data, "name")),
            options=DecodeOptions(language=code),
            partials=False,
        )
        self._held = ExitStack()
        self._transcriber: Transcriber | None = None
        self._layout: AudioFormat | None = None
        self._task: asyncio.Task[list[Final]] | None = None

    def start(self, data: dict[str, Any]) -> None:
        """The layout of the sound. Raises InputInvalid, Overloaded, Draining."""
        if self._transcriber is not None:
            raise InputInvalid("The sound has started already; send audio-stop first.", param="audio-start")
        self._layout = _layout(data)
        self._decoder = AudioDecoder(self._layout)
        try:
            self._held.enter_context(self._service.session(LOCAL, "wyoming"))
            self._transcriber = self._service.engine.open_stream(self._config)
        except (Overloaded, Draining) as error:
            self._service.metrics.refused("session", error.code)
            raise
        self._service.metrics.session_started("wyoming")
        self._held.callback(self._service.metrics.session_ended, "wyoming")
        self._task = asyncio.create_task(_finals(self._transcriber, self._service.metrics), name="wyoming transcript")

    async def audio(self, data: dict[str, Any], sound: bytes) -> None:
        """More sound. Raises InputInvalid and what has ended the stream."""
        if self._transcriber is None:
            self.start(data)
        assert self._transcriber is not None
        if _layout(data) != self._layout:
            raise InputInvalid("rate, width and channels are those of audio-start.", param="rate")
        samples = self._decoder.feed(sound)
        if self._transcriber.position + len(samples) / SAMPLE_RATE > MOST_SECONDS:
            raise InputInvalid(f"A request takes {MOST_SECONDS:g} s of sound; split it.", param="audio")
        self._service.metrics.audio("live", len(samples) / SAMPLE_RATE)
        await self._transcriber.append(samples)

    async def stop(self) -> None:
        """The sound has ended: send what was said. Raises what has gone wrong with it."""
        finals: list[Final] = []
        if self._transcriber is not None and self._task is not None:
            await self._transcriber.append(self._decoder.flush())
            await self._transcriber.finish()
            finals = await self._task
        text = " ".join(said for final in finals if (said := final.text.strip()))
        language = next((final.language for final in finals if final.language), self._config.options.language)
        await self._wire.send(Event("transcript", {"text": text} | ({"language": language} if language else {})))

    async def close(self) -> None:
        """Free everything."""
        with self._held:
            steps = [partial(stopped, self._task)] if self._task is not None else []
            await every(*steps, *([self._transcriber.close] if self._transcriber is not None else []))


async def _finals(transcriber: Transcriber, metrics: Metrics) -> list[Final]:
    finals = []
    async for event in heard(transcriber.events(), metrics):
        if isinstance(event, Failed):
            raise event.error
        if isinstance(event, Final):
            finals.append(event)
    return finals


def _layout(data: dict[str, Any]) -> AudioFormat:
    width = fields.whole_number(data, "width")
    if width != 2:
        raise InputInvalid(f"width is {width} bytes but has to be 2: 16-bit samples.", param="width")
    return AudioFormat("pcm16", fields.whole_number(data, "rate"), fields.whole_number(data, "channels"))
