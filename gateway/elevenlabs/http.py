"""POST /v1/text-to-speech/{voice_id}, as sound or as JSON with the times of its characters."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, InstanceOf

from gateway.auth import IDENTITY
from gateway.elevenlabs.alignment import TimedCharacter, in_seconds
from gateway.elevenlabs.options import Asked, VoiceSettings, asked, refuse_dictionaries
from gateway.elevenlabs.sound import Piece, SpokenText
from gateway.outbox import encode
from gateway.sockets import bound_send_buffer
from gateway.speak.account import Account
from gateway.speak.request import Length, checked, read_object
from gateway.speak.speech import SILENCE_SECONDS, STALL_SECONDS
from gateway.state import SERVICE, Service
from gateway.transcriptions import cancelled_when_gone
from workers.errors import Draining, Overloaded, ServingError

log = logging.getLogger("speechlane.http")

MOST_TEXT = 10_000
"""Characters of one request."""


class SpeechBody(BaseModel):
    """What is to be said; names that are not here are for features that do not change the sound."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)

    text: Annotated[InstanceOf[str], Length(1, MOST_TEXT, "; split it, or stream it to stream-input")]
    model_id: str | None = None
    language_code: str | None = None
    voice_settings: VoiceSettings | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    pronunciation_dictionary_locators: list[Any] | None = None


async def sound(request: web.Request) -> web.StreamResponse:
    """The sound, in chunks as it is made."""
    async with _pieces(request) as (wanted, pieces):
        first = await anext(pieces)
        response = await _begun(request, wanted.form.media_type)
        await _send(response, first.data)
        try:
            async for piece in pieces:
                await _send(response, piece.data)
        except ServingError as error:
            # The status is sent already, and a body that ends well would pass for the whole sound.
            log.warning("%s broke off: %s: %s", request.path, error.code, error.message)
            if request.transport is not None:
                request.transport.close()
            return response
        await response.write_eof()
        return response


async def with_timestamps(request: web.Request, *, stream: bool) -> web.StreamResponse:
    """The sound in base64 with its characters: one object, or one a line as they are made."""
    async with _pieces(request) as (_, pieces):
        if not stream:
            data, characters = bytearray(), list[TimedCharacter]()
            async for piece in pieces:
                data += piece.data
                characters += piece.characters
            return web.json_response(_timed(bytes(data), characters))
        first = await anext(pieces)
        response = await _begun(request, "application/json")
        await _send(response, encode(_timed(first.data, first.characters)) + b"\n")
        try:
            async for piece in pieces:
                await _send(response, encode(_timed(piece.data, piece.characters)) + b"\n")
        except ServingError as error:
            log.warning("%s broke off: %s: %s", request.path, error.code, error.message)
            if request.transport is not None:
                request.transport.close()
            return response
        await response.write_eof()
        return response


@asynccontextmanager
async def _pieces(request: web.Request) -> AsyncIterator[tuple[Asked, AsyncGenerator[Piece, None]]]:
    """What was asked for, and its sound being made; freed in every case."""
    service = request.app[SERVICE]
    try:
        with service.speech(request[IDENTITY]):
            fields = await read_object(request, "text")
            body = checked(SpeechBody, {name: value for name, value in fields.items() if value is not None})
            refuse_dictionaries(body.pronunciation_dictionary_locators)
            wanted = asked(
                request, service.engine, model_id=body.model_id, language_code=body.language_code, seed=body.seed
            )
            async with cancelled_when_gone(request), aclosing(_spoken(service, wanted, body)) as pieces:
                yield wanted, pieces
    except (Overloaded, Draining) as error:
        service.metrics.refused("speech", error.code)
        raise


async def _spoken(service: Service, wanted: Asked, body: SpeechBody) -> AsyncGenerator[Piece, None]:
    # A request has no clock of its listener, so it is made as fast as it is read, when nobody live needs the device.
    speaker = service.engine.open_speech(wanted.config(body.voice_settings, None, None))
    account = Account(service.metrics, "file")
    try:
        spoken = SpokenText(speaker, wanted.form, account, SILENCE_SECONDS)
        await spoken.say(body.text)
        await speaker.end()
        async with aclosing(spoken.pieces()) as pieces:
            async for piece in pieces:
                yield piece
    finally:
        try:
            await speaker.close()
        finally:  # a client that goes away may end this task a second time
            account.end("cancelled")


async def _begun(request: web.Request, media: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": media, "Cache-Control": "no-cache"})
    await response.prepare(request)
    bound_send_buffer(request.transport)
    return response


async def _send(response: web.StreamResponse, data: bytes) -> None:
    try:
        async with asyncio.timeout(STALL_SECONDS):
            await response.write(data)
    except TimeoutError:
        raise ConnectionResetError("the client does not read") from None


def _timed(data: bytes, characters: list[TimedCharacter]) -> dict[str, Any]:
    alignment = in_seconds(characters)
    return {
        "audio_base64": base64.b64encode(data).decode(),
        "alignment": alignment,
        "normalized_alignment": alignment,
    }
