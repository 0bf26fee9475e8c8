"""POST /v1/audio/speech: a text in, its sound out as it is made, as audio or as server-sent events."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from aiohttp import web

from gateway.auth import IDENTITY
from gateway.http_errors import ModelNotFound, error_fields
from gateway.sockets import bound_send_buffer
from gateway.speak.account import Account
from gateway.speak.request import FORMAT_OF_NAME, SpeechRequest, read_request
from gateway.speak.sounding import Sounding
from gateway.state import SERVICE, Service
from gateway.transcriptions import cancelled_when_gone
from speech.encode import OutputFormat, output_format
from speech.speaking.config import SpeakConfig
from speech.speaking.events import SoundMade, SpeechFailed
from speech.tts import Sound, VoiceInfo
from workers.errors import BackendFailed, Draining, InputInvalid, Overloaded, ServingError

if TYPE_CHECKING:
    from speech.engine import Engine
    from speech.speaking.speaker import Speaker

log = logging.getLogger("speechlane.http")

SILENCE_SECONDS = 0.1
"""What a text without anything to say sounds like: a file of no length at all is none to many players."""

STALL_SECONDS = 60.0
"""A client that takes nothing for so long is not listening any more."""

BYTES_PER_TOKEN, TOKENS_PER_SECOND = 4, 20
"""What usage is counted in: a token stands for four bytes of text, or for 50 ms of sound."""


async def speech_handler(request: web.Request) -> web.StreamResponse:
    """The route. What fails before the first sound has its status; later the connection breaks off."""
    service = request.app[SERVICE]
    try:
        with service.speech(request[IDENTITY]):
            asked = await read_request(request)
            voice = resolve(service.engine, asked)
            form = output_format(FORMAT_OF_NAME[asked.response_format], voice.rate)
            async with cancelled_when_gone(request), _speaking(service, asked, voice, form) as speech:
                return await _answer(request, asked, form, speech)
    except (Overloaded, Draining) as error:
        service.metrics.refused("speech", error.code)
        raise


def resolve(engine: Engine, asked: SpeechRequest) -> VoiceInfo:
    """The voice that speaks. Raises `ModelNotFound`, or `InputInvalid` when there is no such voice."""
    try:
        info: VoiceInfo = engine.resolve_voice(asked.voice, asked.model)
    except InputInvalid as error:
        if error.param == "model":
            raise ModelNotFound(error.message, param="model") from error
        raise
    return info


class _Speech:
    """A text being spoken: its encoded bytes, piece by piece."""

    def __init__(self, speaker: Speaker, sounding: Sounding, account: Account) -> None:
        self._speaker, self._sounding, self._account = speaker, sounding, account
        self.seconds = 0.0

    async def pieces(self) -> AsyncIterator[bytes]:
        """All bytes. Raises the ServingError that ended the speech."""
        rate = self._speaker.rate
        async for event in self._account.events(self._speaker):
            if isinstance(event, SpeechFailed):
                self._account.end("failed")
                raise event.error
            if isinstance(event, SoundMade):
                for piece in self._sounding.pieces(event.samples):
                    yield await self._sounding.feed(piece)
                self.seconds = (event.start + len(event.samples)) / rate
                self._account.sound(self.seconds)
        if not self.seconds:
            self.seconds = SILENCE_SECONDS
            silence: Sound = np.zeros(round(SILENCE_SECONDS * rate), np.float32)
            yield await self._sounding.feed(silence)
        yield await self._sounding.flush()
        self._account.end("done")


@asynccontextmanager
async def _speaking(
    service: Service, asked: SpeechRequest, voice: VoiceInfo, form: OutputFormat
) -> AsyncIterator[_Speech]:
    """The speaker, at work; freed in every case."""
    # A request has no clock of its listener, so it is made as fast as it is read, when nobody live needs the device.
    config = SpeakConfig(voice=voice.name, speed=asked.speed, seed=asked.seed, lead=None)
    speaker = service.engine.open_speech(config)
    account = Account(service.metrics, "file")
    try:
        account.text(asked.input)
        await speaker.say(asked.input)
        await speaker.end()
        yield _Speech(speaker, Sounding(form, speaker.rate), account)
    finally:
        try:
            await speaker.close()
        finally:  # a client that goes away may end this task a second time
            account.end("cancelled")


async def _answer(
    request: web.Request, asked: SpeechRequest, form: OutputFormat, speech: _Speech
) -> web.StreamResponse:
    pieces = speech.pieces()
    first = b""
    async for piece in pieces:
        if piece:
            first = piece
            break
    sse = asked.stream_format == "sse"
    media = "text/event-stream" if sse else form.media_type
    response = web.StreamResponse(headers={"Content-Type": media, "Cache-Control": "no-cache"})
    await response.prepare(request)
    bound_send_buffer(request.transport)
    try:
        await _send(response, _delta(first) if sse else first)
        async for piece in pieces:
            if piece:
                await _send(response, _delta(piece) if sse else piece)
        if sse:
            await _send(response, _event({"type": "speech.audio.done", "usage": _usage(asked.input, speech.seconds)}))
    except ConnectionError:
        raise
    except Exception as error:
        if not isinstance(error, ServingError):
            log.exception("%s failed", request.path)
            error = BackendFailed("The service failed on this text; its log says why.")
        log.warning("%s broke off: %s: %s", request.path, error.code, error.message)
        if not sse:
            # The status is sent already, and a body that ends well would pass for the whole sound.
            if request.transport is not None:
                request.transport.close()
            return response
        await _send(response, _event({"error": error_fields(error)}))
    await response.write_eof()
    return response


async def _send(response: web.StreamResponse, data: bytes) -> None:
    try:
        async with asyncio.timeout(STALL_SECONDS):
            await response.write(data)
    except TimeoutError:
        raise ConnectionResetError("the client does not read") from None


def _event(fields: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


def _delta(data: bytes) -> bytes:
    return _event({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()})


def _usage(text: str, seconds: float) -> dict[str, int]:
    given = math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)
    made = math.ceil(seconds * TOKENS_PER_SECOND)
    return {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}
