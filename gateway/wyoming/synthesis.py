"""Text to speech: synthesize, and synthesize-start, -chunk and -stop, answered by sound in chunks."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gateway.auth import LOCAL
from gateway.closing import every, stopped
from gateway.languages import language_code
from gateway.speak.account import Account
from gateway.speak.sounding import Sounding
from gateway.speak.speech import SILENCE_SECONDS
from gateway.state import Service
from gateway.wyoming import fields
from gateway.wyoming.events import Event
from gateway.wyoming.wire import Wire
from speech.encode import OutputFormat
from speech.speaking.config import SpeakConfig
from speech.speaking.events import SoundMade, SpeechFailed
from speech.tts import Sound
from workers.errors import BackendFailed, Draining, InputInvalid, InputTooLarge, Overloaded, ServingError

if TYPE_CHECKING:
    from speech.engine import Engine
    from speech.speaking.speaker import Speaker

log = logging.getLogger("speechlane.wyoming")

MOST_TEXT = 128 * 1024
"""Characters of one request, some two hours of speech."""
LEAD = 60.0
"""Seconds of sound made ahead: what plays it often wants the whole of it first, and reports nothing."""


class Synthesis:
    """One request, from its first event to audio-stop, which it sends in every case. `close` it.

    A whole text is made as fast as its client takes it. `streaming`: text comes in chunks, and synthesize-stopped
    follows at the end.
    """

    def __init__(self, service: Service, wire: Wire, *, streaming: bool) -> None:
        self.streaming = streaming
        self.ended = False
        """No more text comes."""
        self.text = ""
        self._service, self._wire = service, wire
        self._held = ExitStack()
        self._failed = False
        self._speaker: Speaker | None = None
        self._task: asyncio.Task[None] | None = None

    async def begin(self, data: dict[str, Any]) -> None:
        """Take the request on; one that cannot be is told so and then takes text without speaking it."""
        try:
            config = self._config(data)
            self._held.enter_context(self._service.speech(LOCAL))
            self._speaker = self._service.engine.open_speech(config)
        except ServingError as error:
            if isinstance(error, Overloaded | Draining):
                self._service.metrics.refused("speech", error.code)
            self._failed = True
            await self._wire.fail(error)
            return
        account = Account(self._service.metrics, "live" if self.streaming else "file")
        self._held.callback(account.end, "cancelled")
        self._account = account
        self._task = asyncio.create_task(self._speak(self._speaker, account), name="wyoming speech")

    async def say(self, data: dict[str, Any]) -> None:
        """More text. Raises InputInvalid, InputTooLarge; the request goes on."""
        text = fields.text(data)
        if len(self.text) + len(text) > MOST_TEXT:
            raise InputTooLarge(f"A request takes {MOST_TEXT} characters; split it.", param="text")
        self.text += text
        if self._speaker is not None and not self._failed and text:
            self._account.text(text)
            await self._speaker.say(text)

    async def end(self) -> None:
        """No more text comes: what there is is spoken. Idempotent."""
        if self.ended:
            return
        self.ended = True
        if self._task is None or self._failed:
            await self._finish()
        elif self._speaker is not None:
            await self._speaker.end()

    async def give_up(self, error: ServingError) -> None:
        """It cannot be carried out after all."""
        self.ended = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._wire.fail(error)
        await self._finish()

    async def finished(self) -> None:
        """Wait until everything has been sent."""
        if self._task is not None:
            await asyncio.wait([self._task])

    @property
    def over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.ended and (self._task is None or self._task.done())

    async def close(self) -> None:
        """Stop, and free everything."""
        with self._held:
            steps = [partial(stopped, self._task)] if self._task is not None else []
            await every(*steps, *([self._speaker.close] if self._speaker is not None else []))

    async def _speak(self, speaker: Speaker, account: Account) -> None:
        sounding = Sounding(OutputFormat("pcm16", speaker.rate), speaker.rate)
        form = {"rate": speaker.rate, "width": 2, "channels": 1}
        try:
            # At once, because clients give up on a server that is silent for seconds.
            await self._wire.send(Event("audio-start", {**form, "timestamp": 0}))
            async for event in account.events(speaker):
                if isinstance(event, SpeechFailed):
                    raise event.error
                if isinstance(event, SoundMade):
                    until = event.start
                    for piece in sounding.pieces(event.samples):
                        await self._chunk(form, until, await sounding.feed(piece))
                        until += len(piece)
                        speaker.sent(until / speaker.rate)
                        account.sound(until / speaker.rate)
            made = speaker.progress().made
            if not made:
                # A text without anything to say: no sound at all is an error to many clients.
                made = SILENCE_SECONDS
                silence: Sound = np.zeros(round(made * speaker.rate), np.float32)
                await self._chunk(form, 0, await sounding.feed(silence))
            account.end("done")
            await self._finish(made)
        except ConnectionError as error:
            log.debug("a client went away: %s", error)
            await speaker.cancel()
        except ServingError as error:
            await self._fail(error)
        except Exception:
            log.exception("a request failed")
            await self._fail(BackendFailed("The speech failed; the log of the service says why."))
        finally:
            await speaker.close()
            self._held.close()

    async def _chunk(self, form: dict[str, int], start: int, data: bytes) -> None:
        await self._wire.send(Event("audio-chunk", {**form, "timestamp": round(start * 1000 / form["rate"])}, data))

    async def _fail(self, error: ServingError) -> None:
        log.warning("a request failed: %s: %s", error.code, error.message)
        self._failed = True
        self._account.end("failed")
        try:
            await self._wire.fail(error)
            if self.ended:
                await self._finish()
        except ConnectionError as gone:
            log.debug("a client went away: %s", gone)

    async def _finish(self, seconds: float = 0.0) -> None:
        """Clients wait for this, and not for an error."""
        await self._wire.send(Event("audio-stop", {"timestamp": round(seconds * 1000)}))
        if self.streaming:
            await self._wire.send(Event("synthesize-stopped"))

    def _config(self, data: dict[str, Any]) -> SpeakConfig:
        wanted = fields.optional_text(data, "text_format") or "text"
        if wanted != "text":
            raise InputInvalid(f"{wanted[:60]!r} is not read here; send plain text.", param="text_format")
        return SpeakConfig(
            voice=_voice(self._service.engine, fields.nested(data, "voice")),
            lead=LEAD if self.streaming else None,
        )


def _voice(engine: Engine, wanted: dict[str, Any]) -> str:
    """The name of the voice that is asked for by name or by language. Raises InputInvalid."""
    name, language = (fields.optional_text(wanted, field) for field in ("name", "language"))
    if fields.optional_text(wanted, "speaker"):
        raise InputInvalid("The voices here have one speaker each; leave it out.", param="voice.speaker")
    if name is None and language is not None:
        code = language_code(language)
        for voice in engine.voices():
            if code in voice.languages:
                return str(voice.name)
        raise InputInvalid(f"There is no voice for {language[:60]!r} here.", param="voice.language")
    return str(engine.resolve_voice(name).name)
