"""One connection: sound in, and for every frame of it one answer, since vosk's clients wait for it before the next.

The answer to the frame that ends an utterance is its result; any other is the words so far.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import WSMessage

from gateway.listening import Listening
from gateway.sockets import Close, Connection
from gateway.state import Service
from gateway.telemetry.hearing import heard
from gateway.utterances import Quiet
from gateway.vosk.messages import UNKNOWN_WORD, Config, order
from gateway.vosk.results import partial, result
from speech.asr import Samples
from speech.audio import AudioDecoder, AudioFormat
from speech.config import StreamConfig
from speech.events import Committed, Event, Failed, Final, Partial
from workers.errors import BackendFailed, InputInvalid, ServingError

if TYPE_CHECKING:
    from speech.transcriber import Transcriber

log = logging.getLogger("speechlane.vosk")

DEFAULT_RATE = 8_000
"""vosk-server's own, for a client that does not say."""
INLINE_BYTES = 48 * 1024
"""Longer sound is decoded on a thread."""
INVALID = 1007
"""The close code for a message that means nothing here; its reason says what was wrong."""


class VoskSession:
    """`run()` it once, then `close()` it in every case."""

    def __init__(
        self, connection: Connection, service: Service, transcriber: Transcriber, config: StreamConfig
    ) -> None:
        self.refusal: str | None = None
        """Why the socket is closed with INVALID."""
        self._connection, self._service = connection, service
        self._metrics, self._config = service.metrics, config
        self._decoder = AudioDecoder(AudioFormat("pcm16", DEFAULT_RATE))
        self._words, self._alternatives = True, 0
        self._finals: list[Final] = []
        self._text = ""
        """Of the open utterance, as far as it will not change; with the tail that may, it is what is answered."""
        self._tail = ""
        self._quiet = Quiet()
        self._open = 0
        self._settled = asyncio.Event()
        self._settled.set()
        events = heard(transcriber.events(), service.metrics, flushed=connection.flushed)
        self._stream = Listening(transcriber, events, service.metrics, self._said, self._broke)

    async def run(self) -> None:
        """Speak the protocol until the connection ends; then say what is left, if there is somebody to hear it."""
        self._connection.before_drain = self._quiet.wait
        async for frame in self._connection.frames():
            await self._take(frame)
        ending = self._connection.ending
        if ending is not None and ending.finalise and self.refusal is None:
            await self._finish()

    async def close(self) -> None:
        """Free the stream, whatever state it is in."""
        await self._stream.close()

    async def _take(self, frame: WSMessage) -> None:
        try:
            asked = order(frame)
            if asked is None:
                await self._hear(frame.data)
                await self._answer()
                return
            if asked.config is not None:
                await self._configure(asked.config)
            if asked.reset:
                with suppress(InputInvalid):  # nothing came since the last utterance
                    await self._stream.transcriber.commit()
                await self._answer(ended=True)
            if asked.eof:
                self._connection.stop(Close.NORMAL, "")
        except InputInvalid as error:
            # The protocol has no errors: what cannot be understood ends the connection.
            self.refusal = f"{error.param}: {error.message}" if error.param else error.message
            self._connection.stop(Close.NORMAL, "")
        except ServingError as error:
            self._fail(error)
        except Exception as error:
            log.exception("a session failed on a frame")
            self._fail(BackendFailed(f"The session failed: {type(error).__name__}."))

    async def _configure(self, config: Config) -> None:
        if config.model is not None and self._service.engine.resolve(config.model) != self._config.model:
            raise InputInvalid(f"the model {self._config.model} is the one that listens here", param="config.model")
        if config.words is not None:
            self._words = config.words
        if config.max_alternatives is not None:
            self._alternatives = config.max_alternatives
        if config.phrase_list is not None:
            phrases = tuple(phrase for phrase in config.phrase_list if phrase.strip() and phrase != UNKNOWN_WORD)
            self._config = replace(self._config, options=replace(self._config.options, keywords=phrases))
            await self._stream.transcriber.reconfigure(self._config)
        if config.sample_rate is not None and round(config.sample_rate) != self._decoder.format.rate:
            await self._append(self._decoder.flush())
            self._decoder = AudioDecoder(AudioFormat("pcm16", round(config.sample_rate)))

    async def _hear(self, data: bytes) -> None:
        """Take sound in, and wait until it has been listened to and what ended in it is in words."""
        if len(data) <= INLINE_BYTES:
            samples = self._decoder.feed(data)
        else:
            samples = await asyncio.to_thread(self._decoder.feed, data)
        await self._append(samples)
        # Settings are taken in their turn, behind the sound before them.
        await self._stream.transcriber.reconfigure(self._config)

    async def _append(self, samples: Samples) -> None:
        await self._stream.hear(samples, self._connection.ended)

    async def _answer(self, *, ended: bool = False) -> None:
        """The one answer to a frame. A final that takes too long comes with a later one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._connection.limits.finish_seconds):
                await self._settled.wait()
        if self._finals or ended:
            said, self._finals = self._finals, []
            self._connection.send(result(said, words=self._words, alternatives=self._alternatives))
        else:
            self._connection.send(partial(self._text + self._tail))

    async def _finish(self) -> None:
        try:
            async with asyncio.timeout(self._connection.limits.finish_seconds):
                await self._append(self._decoder.flush())
                await self._stream.finish()
        except TimeoutError:
            log.warning("the last words did not come in time")
            self._settled.set()
        except ServingError as error:
            log.warning("a session could not be finalised: %s: %s", error.code, error.message)
        await self._answer(ended=True)

    def _said(self, event: Event) -> None:
        self._quiet.hear(event)
        match event:
            case Committed():
                self._open += 1
                self._settled.clear()
            case Partial():
                self._text, self._tail = self._text + event.stable, event.unstable
                self._metrics.chunk_round_trip(event.lag)
            case Final():
                self._finals.append(event)
                self._close_utterance()
                self._metrics.utterance("final" if event.text else "empty")
                self._metrics.final_latency(event.lag)
            case Failed(_, error):
                self._close_utterance()
                self._metrics.utterance("failed")
                self._fail(error)
            case _:
                pass

    def _broke(self, error: ServingError) -> None:
        """The stream has ended: nothing that is open will be in words."""
        self._fail(error)
        self._settled.set()

    def _close_utterance(self) -> None:
        self._text = self._tail = ""
        self._open -= 1
        if not self._open:
            self._settled.set()

    def _fail(self, error: ServingError) -> None:
        """There is no message for it, so that words are missing is told by closing."""
        log.warning("a session failed: %s: %s", error.code, error.message)
        self._connection.stop(Close.FAILED, error.message)
