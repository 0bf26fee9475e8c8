"""What every realtime session does: takes frames, feeds a live stream, passes on what it says, and ends well."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

import numpy as np
from aiohttp import WSMessage, WSMsgType

from gateway.listening import Listening
from gateway.realtime.adapter import Adapter
from gateway.realtime.config import PARAM_OF_FIELD, TRANSCRIPTION, audio_format, stream_config
from gateway.realtime.items import new_id
from gateway.realtime.messages import EVENTS, AnySession, Append, Clear, ClientEvent, Commit
from gateway.realtime.parse import Events, RequestError, parse
from gateway.sockets import Close, Connection, Ending
from gateway.state import Service
from gateway.telemetry.hearing import heard
from gateway.telemetry.sessions import SESSION
from gateway.utterances import Quiet
from speech.asr import Samples
from speech.audio import AudioDecoder, AudioFormat
from speech.config import StreamConfig
from speech.events import Event
from workers.errors import BackendFailed, Draining, InputInvalid, Overloaded, ServingError

if TYPE_CHECKING:
    from speech.engine import Engine
    from speech.transcriber import Transcriber

log = logging.getLogger("speechlane.realtime")

INLINE_BYTES = 48 * 1024
"""Longer audio is decoded on a thread: this much (one second of 24 kHz PCM) takes about a millisecond."""

NOTHING: Samples = np.zeros(0, np.float32)


class LiveSession:
    """Lives on one connection, with one stream at a time. `run()` it once, then `close()` it in every case.

    A kind of session says which `events` it knows, carries out those that are its own, and tells its client of itself.
    """

    events: Events = EVENTS

    def __init__(
        self,
        connection: Connection,
        service: Service,
        transcriber: Transcriber,
        audio: AudioFormat,
        config: StreamConfig,
        adapter: Adapter,
    ) -> None:
        self._record = SESSION.get()
        self.id = self._record.id if self._record is not None else new_id("sess")
        self._connection = connection
        self._engine: Engine = service.engine
        self._metrics = service.metrics
        self._config = config
        self._default_model = self._engine.resolve(None)
        self._expires_at = int(time.time() + connection.limits.session_seconds)
        self._decoder = self._decode(audio)
        self._adapter = adapter
        self._position = 0.0
        self._quiet = Quiet()
        self._stream = self._listen(transcriber)

    async def _other(self, event: ClientEvent) -> None:
        """Carry out an event of this kind of session. Raises `RequestError`, `InputInvalid`."""
        raise NotImplementedError

    def _tell(self, what: str) -> None:
        """Tell the client of its session: "created", "updated"."""
        raise NotImplementedError

    def _said(self, event: Event) -> None:
        """The stream says something."""
        self._quiet.hear(event)
        self._adapter.handle(event)

    async def run(self) -> None:
        """Speak the protocol until the connection ends; then finalise what is open if the client can still hear it."""
        self._tell("created")
        ending = await self._hear_client()
        if ending is not None:
            if self._record is not None:
                self._record.ends(ending.code.name.lower(), ending.reason, left=ending.left)
            if ending.finalise:
                await self._finalise()

    async def _hear_client(self) -> Ending | None:
        """Do what the client asks until it asks no more, and say why."""
        self._connection.before_drain = self._before_drain
        async for frame in self._connection.frames():
            await self._take(frame)
        return self._connection.ending

    async def _before_drain(self) -> None:
        """The service goes down: wait until the connection may end."""
        await self._quiet.wait()

    def _decode(self, audio: AudioFormat) -> AudioDecoder:
        """What decodes audio of this format."""
        return AudioDecoder(audio)

    def _open(self, config: StreamConfig) -> Transcriber:
        """Another stream. Raises what the engine raises."""
        return self._engine.open_stream(config)

    def _stop(self, code: Close, reason: str) -> None:
        """The session cannot go on."""
        self._connection.stop(code, reason)

    def _abandoned(self) -> bool:
        """Nobody waits any more for what the client has sent."""
        return self._connection.ended()

    async def close(self) -> None:
        """Free the stream, whatever state it is in."""
        await self._stream.close()

    async def _take(self, frame: WSMessage) -> None:
        try:
            if frame.type is not WSMsgType.TEXT:
                raise RequestError(
                    "Frames are JSON text here; send audio as base64 in input_audio_buffer.append.",
                    code="invalid_frame",
                )
            event = await parse(frame.data, self._connection.limits.max_append_bytes, self.events)
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
            self._stop(Close.OVERLOADED, f"{error.message} Try again in {error.retry_after:.0f} s.")
        except Draining as error:
            self._stop(Close.DRAINING, error.message)
        except ServingError as error:
            self._fail(error)
        except Exception as error:
            log.exception("session %s failed on a frame", self.id)
            self._fail(BackendFailed(f"The session failed: {type(error).__name__}."))

    async def _carry_out(self, event: ClientEvent) -> None:
        match event:
            case Append():
                await self._append(event.audio)
            case Commit():
                await self._stream.transcriber.commit()
            case Clear():
                await self._stream.transcriber.clear()
            case _:
                await self._other(event)

    async def _append(self, data: bytes) -> None:
        if len(data) <= INLINE_BYTES:
            samples = self._decoder.feed(data)
        else:
            samples = await asyncio.to_thread(self._decoder.feed, data)
        await self._hear(samples)

    async def _hear(self, samples: Samples) -> None:
        if len(samples) and not self._config.automatic:
            self._quiet.begin()  # until it is committed
        await self._stream.hear(samples, self._abandoned)

    async def _adopt(self, session: AnySession) -> None:
        """Hear from now on as the session says."""
        config = self._stream_config(session)
        if config.model != self._config.model:
            await self._change_stream(config)
        elif config != self._config:
            await self._stream.transcriber.reconfigure(config)
        wanted = audio_format(session)
        if wanted != self._decoder.format:
            await self._hear(self._decoder.flush())
            self._decoder = self._decode(wanted)
        self._config = config

    def _stream_config(self, session: AnySession) -> StreamConfig:
        wanted = session.audio.input.transcription
        return requested_stream(self._engine, session, wanted.model if wanted else None)

    async def _change_stream(self, config: StreamConfig) -> None:
        """Another model is another stream: what was said so far is finalised first, and the clock goes on."""
        await self._end_stream(NOTHING)
        self._position += self._stream.transcriber.position
        await self._stream.close()
        transcriber = self._open(config)
        self._adapter.restart(self._position)
        self._stream = self._listen(transcriber)

    async def _end_stream(self, tail: Samples) -> None:
        """Hear `tail`, then wait for the last final; what has none after the time for it fails."""
        try:
            async with asyncio.timeout(self._connection.limits.finish_seconds):
                await self._hear(tail)
                await self._stream.finish()
        except TimeoutError:
            log.warning("session %s: the last final did not come in time", self.id)
        self._adapter.fail_open(BackendFailed("The stream ended before this was transcribed."))

    async def _finalise(self) -> None:
        try:
            await self._end_stream(self._decoder.flush())
        except ServingError as error:
            log.warning("session %s: %s: %s", self.id, error.code, error.message)
            self._adapter.fail_open(error)

    def _listen(self, transcriber: Transcriber) -> Listening:
        watched = heard(
            transcriber.events(),
            self._metrics,
            item=self._adapter.item_of,
            flushed=lambda: self._connection.flushed(),  # whichever it is by then
        )
        return Listening(transcriber, watched, self._metrics, self._said, self._fail)

    def _fail(self, error: ServingError) -> None:
        """The session cannot go on: answer for every open item, then close so that the client connects anew."""
        log.warning("session %s: %s: %s", self.id, error.code, error.message)
        self._adapter.fail_open(error)
        self._stop(Close.FAILED, error.message)

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


def requested_stream(engine: Engine, session: AnySession, name: str | None) -> StreamConfig:
    """The stream a session asks for with the model `name`; raises `RequestError` when that is not loaded here."""
    try:
        model = engine.resolve(name)
    except InputInvalid as error:
        raise RequestError(error.message, code="model_not_found", param=f"{TRANSCRIPTION}.model") from None
    languages = next((info.languages for info in engine.models() if info.name == model), ())
    return stream_config(session, model, languages)
