"""One transcription session: carries out what the client asks, and passes on what its stream says."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from aiohttp import WSMessage, WSMsgType

from gateway.realtime.adapter import Adapter
from gateway.realtime.config import (
    PARAM_OF_FIELD,
    TRANSCRIPTION,
    Shape,
    audio_format,
    described,
    from_beta,
    includes,
    merged,
    stream_config,
)
from gateway.realtime.items import Items, new_id
from gateway.realtime.messages import (
    Append,
    BetaSessionUpdate,
    Clear,
    ClientEvent,
    Commit,
    Delete,
    Retrieve,
    Session,
    SessionUpdate,
)
from gateway.realtime.parse import RequestError, parse
from gateway.sockets import Close, Connection
from gateway.state import Service
from speech.asr import SAMPLE_RATE, Samples
from speech.audio import AudioDecoder
from speech.config import StreamConfig
from workers.errors import BackendFailed, Draining, InputInvalid, Overloaded, ServingError

if TYPE_CHECKING:
    from speech.engine import Engine
    from speech.transcriber import Transcriber

log = logging.getLogger("speechlane.realtime")

INLINE_BYTES = 48 * 1024
"""Longer audio is decoded on a thread: this much (one second of 24 kHz PCM) takes about a millisecond."""

PIECE = 5 * SAMPLE_RATE
"""Samples handed to the stream at once."""


NOTHING: Samples = np.zeros(0, np.float32)


class RealtimeSession:
    """Lives on one connection, with one stream at a time. `run()` it once, then `close()` it in every case."""

    def __init__(
        self,
        connection: Connection,
        service: Service,
        transcriber: Transcriber,
        session: Session,
        config: StreamConfig,
        shape: Shape,
    ) -> None:
        self.id = new_id("sess")
        self._connection = connection
        self._engine: Engine = service.engine
        self._metrics = service.metrics
        self._transcriber = transcriber
        self._session = session
        self._config = config
        self._default_model = self._engine.resolve(None)
        self._expires_at = int(time.time() + connection.limits.session_seconds)
        self._decoder = AudioDecoder(audio_format(session))
        self._items = Items()
        self._adapter = Adapter(connection, self._items, lambda what: includes(self._session, what), service.metrics)
        self._adapter.shape = shape
        self._position = 0.0
        self._ending_stream = False
        self._pump: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Speak the protocol until the connection ends; then finalise what is open if the client can still hear it."""
        self._tell("created")
        self._listen()
        async for frame in self._connection.frames():
            await self._take(frame)
        ending = self._connection.ending
        if ending is not None:
            log.info("session %s ends, %s: %s", self.id, ending.code.name.lower(), ending.reason)
            if ending.finalise:
                await self._finalise()

    async def close(self) -> None:
        """Free the stream, whatever state it is in."""
        self._ending_stream = True
        try:
            await self._transcriber.close()
        finally:
            if self._pump is not None:
                self._pump.cancel()
                await asyncio.gather(self._pump, return_exceptions=True)

    async def _take(self, frame: WSMessage) -> None:
        try:
            if frame.type is not WSMsgType.TEXT:
                raise RequestError(
                    "Frames are JSON text here; send audio as base64 in input_audio_buffer.append.",
                    code="invalid_frame",
                )
            event = await parse(frame.data, self._connection.limits.max_append_bytes)
            try:
                await self._carry_out(event)
            except RequestError as error:
                error.event_id = event.event_id
                raise
            except InputInvalid as error:
                refused = RequestError.of(error, PARAM_OF_FIELD.get(error.param or "", error.param))
                refused.event_id = event.event_id
                raise refused from error
        except RequestError as error:
            self._refuse(error)
        except Overloaded as error:
            self._connection.stop(Close.OVERLOADED, f"{error.message} Try again in {error.retry_after:.0f} s.")
        except Draining as error:
            self._connection.stop(Close.DRAINING, error.message)
        except ServingError as error:
            log.warning("session %s: %s: %s", self.id, error.code, error.message)
            self._fail(error)
        except Exception as error:
            log.exception("session %s failed on a frame", self.id)
            self._fail(BackendFailed(f"The session failed: {type(error).__name__}."))

    async def _carry_out(self, event: ClientEvent) -> None:
        match event:
            case Append():
                await self._append(event.audio)
            case Commit():
                await self._transcriber.commit()
            case Clear():
                await self._transcriber.clear()
            case SessionUpdate():
                await self._update(event.session, Shape.GA)
            case BetaSessionUpdate():
                await self._update(from_beta(event.session), Shape.BETA)
            case Retrieve():
                item = self._items.get(event.item_id)
                if item is None:
                    raise _no_item(event.item_id, "item_retrieve_invalid_item_id")
                self._adapter.send("conversation.item.retrieved", item=item.described())
            case Delete():
                if not self._items.delete(event.item_id):
                    raise _no_item(event.item_id, "item_delete_invalid_item_id")
                self._adapter.send("conversation.item.deleted", item_id=event.item_id)

    async def _append(self, data: bytes) -> None:
        if len(data) <= INLINE_BYTES:
            samples = self._decoder.feed(data)
        else:
            samples = await asyncio.to_thread(self._decoder.feed, data)
        await self._hear(samples)

    async def _hear(self, samples: Samples) -> None:
        """Hand on audio, piece by piece: a stream that is behind takes it slowly, and the session may end meanwhile."""
        for first in range(0, len(samples), PIECE):
            if first and self._connection.ended():
                return
            piece = samples[first : first + PIECE]
            self._metrics.audio("live", len(piece) / SAMPLE_RATE)
            await self._transcriber.append(piece)

    async def _update(self, patch: Session, shape: Shape) -> None:
        """All of the change or, with an error, nothing of it."""
        session = merged(self._session, patch, self._default_model)
        config = self._stream_config(session)
        if config.model != self._config.model:
            await self._change_stream(config)
        elif config != self._config:
            await self._transcriber.reconfigure(config)
        if session.audio.input.format != self._session.audio.input.format:
            await self._hear(self._decoder.flush())
            self._decoder = AudioDecoder(audio_format(session))
        self._session, self._config, self._adapter.shape = session, config, shape
        self._tell("updated")

    def _stream_config(self, session: Session) -> StreamConfig:
        wanted = session.audio.input.transcription
        return requested_stream(self._engine, session, wanted.model if wanted else None)

    async def _change_stream(self, config: StreamConfig) -> None:
        """Another model is another stream: what was said so far is finalised first, and the clock goes on."""
        await self._end_stream(NOTHING)
        self._position += self._transcriber.position
        await self._transcriber.close()
        self._transcriber = self._engine.open_stream(config)
        self._adapter.restart(self._position)
        self._listen()

    async def _end_stream(self, tail: Samples) -> None:
        """Hear `tail`, then wait for the last final; what has none after the time for it fails."""
        self._ending_stream = True
        try:
            async with asyncio.timeout(self._connection.limits.finish_seconds):
                await self._hear(tail)
                await self._transcriber.finish()
                if self._pump is not None:
                    await self._pump
        except TimeoutError:
            log.warning("session %s: the last final did not come in time", self.id)
        self._adapter.fail_open(BackendFailed("The stream ended before this was transcribed."))

    async def _finalise(self) -> None:
        try:
            await self._end_stream(self._decoder.flush())
        except ServingError as error:
            log.warning("session %s: %s: %s", self.id, error.code, error.message)
            self._adapter.fail_open(error)

    def _listen(self) -> None:
        self._ending_stream = False
        self._pump = asyncio.create_task(self._pass_on(self._transcriber), name="realtime events")

    async def _pass_on(self, transcriber: Transcriber) -> None:
        try:
            async for event in transcriber.events():
                self._adapter.handle(event)
        except ServingError as error:
            log.warning("session %s: its stream ended: %s: %s", self.id, error.code, error.message)
            self._fail(error)
            return
        except Exception:
            log.exception("session %s: its stream failed", self.id)
            self._fail(BackendFailed("The stream failed; the log of the service says why."))
            return
        if not self._ending_stream:
            self._fail(BackendFailed("The stream ended by itself."))

    def _fail(self, error: ServingError) -> None:
        """The session cannot go on: answer for every open item, then close so that the client connects anew."""
        self._adapter.fail_open(error)
        self._connection.stop(Close.FAILED, error.message)

    def _refuse(self, error: RequestError) -> None:
        self._adapter.send(
            "error",
            error={
                "type": "invalid_request_error",
                "code": error.code,
                "message": error.message,
                "param": error.param and self._adapter.shape.param(error.param),
                "event_id": error.event_id,
            },
        )

    def _tell(self, what: str) -> None:
        shape = self._adapter.shape
        prefix = "transcription_session" if shape is Shape.BETA else "session"
        fields: dict[str, Any] = described(self._session, shape, self.id, self._expires_at)
        self._adapter.send(f"{prefix}.{what}", session=fields)


def requested_stream(engine: Engine, session: Session, name: str | None) -> StreamConfig:
    """The stream a session asks for with the model `name`; raises `RequestError` when that is not loaded here."""
    try:
        model = engine.resolve(name)
    except InputInvalid as error:
        raise RequestError(error.message, code="model_not_found", param=f"{TRANSCRIPTION}.model") from None
    languages = next((info.languages for info in engine.models() if info.name == model), ())
    return stream_config(session, model, languages)


def _no_item(item_id: str, code: str) -> RequestError:
    return RequestError(
        f"There is no item {item_id[:100]!r}; it never was, was deleted, or is too old to be kept.",
        code=code,
        param="item_id",
    )
