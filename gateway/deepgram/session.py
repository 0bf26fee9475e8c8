"""A live session: sound to one stream for each channel that is heard apart, their words to the client."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aiohttp import WSMessage, WSMsgType

from gateway.deepgram import errors, results
from gateway.deepgram.channel import Channel
from gateway.deepgram.messages import Message, parse
from gateway.deepgram.options import Asked
from gateway.deepgram.sound import Sound
from gateway.listening import PIECE, Listening
from gateway.sockets import Close, Connection
from gateway.speak.fields import FieldInvalid
from gateway.state import Service
from gateway.telemetry.hearing import heard
from gateway.utterances import Quiet
from speech.asr import Samples
from speech.events import Event
from workers.errors import BackendFailed, InputInvalid, InputTooLarge, ServingError

if TYPE_CHECKING:
    from speech.transcriber import Transcriber

log = logging.getLogger("speechlane.deepgram")

UNDECODABLE, SILENT = 1008, 1011
"""Their close codes of DATA-0000 and NET-0001."""
EFFECTIVE = ("punctuate", "smart_format")
WITHOUT_EFFECT = ("numerals", "filler_words")
"""Features that Configure may switch."""


class ListenSession:
    """Lives on one connection. `run()` it once, then `close()` it in every case."""

    def __init__(
        self,
        connection: Connection,
        service: Service,
        asked: Asked,
        sound: Sound,
        transcribers: list[Transcriber],
        request_id: str,
    ) -> None:
        self.refusal: tuple[int, str] | None = None
        """Their code and reason for closing, when it is theirs alone."""
        self._connection, self._metrics = connection, service.metrics
        self._asked, self._sound = asked, sound
        self._id, self._created, self._sha = request_id, results.created(), hashlib.sha256()
        self._config = asked.stream
        metadata = {
            "request_id": request_id,
            "model_info": results.model_info(asked.model),
            "model_uuid": results.model_uuid(asked.model),
        } | ({"extra": asked.query.extra} if asked.query.extra else {})
        count = len(transcribers)
        self._channels = [Channel(connection, asked.query, service.metrics, n, count, metadata) for n in range(count)]
        self._quiet = Quiet()
        self._streams = [self._listen(number, transcriber) for number, transcriber in enumerate(transcribers)]
        self._asked_to_close = False

    async def run(self) -> None:
        """Speak the protocol until the connection ends; then finalise what is open if the client can still hear it."""
        self._connection.before_drain = self._quiet.wait
        async for frame in self._connection.frames():
            await self._take(frame)
        ending = self._connection.ending
        if ending is None or not ending.finalise:
            return
        if ending.code is Close.NORMAL and not self._asked_to_close and self.refusal is None:
            self.refusal = (SILENT, "NET-0001: neither sound nor a KeepAlive came within the time for it")
        await self._finalise()
        self._connection.send(self._metadata())

    async def close(self) -> None:
        """Free the streams, whatever state they are in."""
        await asyncio.gather(*(stream.close() for stream in self._streams), return_exceptions=True)

    async def _take(self, frame: WSMessage) -> None:
        try:
            if frame.type is WSMsgType.TEXT:
                await self._carry_out(parse(frame.data))
            elif frame.data:
                self._sha.update(frame.data)
                await self._hear(await self._sound.feed(frame.data))
            else:
                self._end()
        except FieldInvalid as error:
            self._connection.send(errors.message(error, str(frame.data)[:500]))
        except (InputInvalid, InputTooLarge) as error:
            self._undecodable(error)
        except ServingError as error:
            self._fail(error)
        except Exception as error:
            log.exception("a session failed on a frame")
            self._fail(BackendFailed(f"The session failed: {type(error).__name__}."))

    async def _carry_out(self, message: Message) -> None:
        match message.type:
            case "KeepAlive":
                pass  # that it came is all it is for
            case "Finalize":
                await self._finalize(message.channel)
            case "CloseStream":
                self._end()
            case "Configure":
                await self._configure(message)

    async def _finalize(self, only: int | None) -> None:
        if only is not None and only >= len(self._channels):
            raise FieldInvalid(f"There is no channel {only}; they count from 0.", code="invalid_value", param="channel")
        for number, (stream, channel) in enumerate(zip(self._streams, self._channels, strict=True)):
            if only in (None, number):
                try:
                    await stream.transcriber.commit()
                except InputInvalid:  # nothing came since the last utterance
                    channel.finalized(stream.transcriber.position)

    async def _configure(self, message: Message) -> None:
        for name in message.features or {}:
            if name not in EFFECTIVE + WITHOUT_EFFECT:
                told = f"{name[:60]} cannot be switched here, but {', '.join(EFFECTIVE + WITHOUT_EFFECT)}."
                failure = {"request_id": self._id, "code": "CONFIGURE_FEATURE_NOT_SUPPORTED", "description": told}
                self._connection.send({"type": "ConfigureFailure", **failure})
                return
        success: dict[str, Any] = {"type": "ConfigureSuccess", "request_id": self._id}
        if message.keyterms is not None:
            options = replace(self._config.options, keywords=tuple(message.keyterms))
            self._config = replace(self._config, options=options)
            for stream in self._streams:
                await stream.transcriber.reconfigure(self._config)
            success["keyterms"] = message.keyterms
        switched = [on for name, on in (message.features or {}).items() if name in EFFECTIVE]
        for channel in self._channels if switched else ():
            channel.formatted = any(switched)
        self._connection.send(success)

    async def _hear(self, channels: list[Samples]) -> None:
        """Hand on sound, piece by piece, so that all streams come to the same moment together."""
        over = self._connection.ended
        for first in range(0, len(channels[0]), PIECE):
            if first and over():
                return
            for stream, samples in zip(self._streams, channels, strict=True):
                await stream.hear(samples[first : first + PIECE], over)

    def _end(self) -> None:
        self._asked_to_close = True
        self._connection.stop(Close.NORMAL, "")

    async def _finalise(self) -> None:
        """The last words, as far as they come in time."""
        try:
            async with asyncio.timeout(self._connection.limits.finish_seconds):
                if self.refusal is None or self.refusal[0] != UNDECODABLE:
                    await self._hear(await self._sound.flush())
        except TimeoutError:
            log.warning("the last sound was not taken in time")
        except (InputInvalid, InputTooLarge) as error:
            self._undecodable(error)
        except ServingError as error:
            log.warning("a session could not take its last sound: %s: %s", error.code, error.message)
        try:
            async with asyncio.timeout(self._connection.limits.finish_seconds):
                await asyncio.gather(*(stream.finish() for stream in self._streams))
        except TimeoutError:
            log.warning("the last words did not come in time")
        except ServingError as error:
            log.warning("a session could not be finalised: %s: %s", error.code, error.message)
        self._fail_open(BackendFailed("The stream ended before this was transcribed."))

    def _listen(self, number: int, transcriber: Transcriber) -> Listening:
        def said(event: Event) -> None:
            self._quiet.hear(event, number)
            self._channels[number].handle(event)

        events = heard(transcriber.events(), self._metrics, channel=number, flushed=self._connection.flushed)
        return Listening(transcriber, events, self._metrics, said, self._fail)

    def _undecodable(self, error: ServingError) -> None:
        """What was heard until now is finalised; more of it cannot be understood."""
        self.refusal = (UNDECODABLE, f"DATA-0000: {error.message}")
        self._connection.send(errors.message(error))
        self._connection.stop(Close.NORMAL, "")

    def _fail(self, error: ServingError) -> None:
        log.warning("a session failed: %s: %s", error.code, error.message)
        self._fail_open(error)
        self._connection.stop(Close.FAILED, error.message)

    def _fail_open(self, error: ServingError) -> None:
        for channel in self._channels:
            channel.fail_open(error)

    def _metadata(self) -> dict[str, Any]:
        return {
            "type": "Metadata",
            "transaction_key": "deprecated",
            "request_id": self._id,
            "sha256": self._sha.hexdigest(),
            "created": self._created,
            "duration": results.seconds(max(stream.transcriber.position for stream in self._streams)),
            "channels": len(self._channels),
            "models": [results.model_uuid(self._asked.model)],
            "model_info": {results.model_uuid(self._asked.model): results.model_info(self._asked.model)},
        }
