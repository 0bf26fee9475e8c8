"""One context of a socket: a speaker, what its client asks of it, and its sound and words on their way out."""

from __future__ import annotations

import asyncio
import base64
import logging
import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.closing import every, stopped
from gateway.http_errors import error_fields
from gateway.sockets import Connection
from gateway.speak.account import Account
from gateway.speak.fields import FieldInvalid, TextPieces, whole_text
from gateway.speak.messages import Create
from gateway.speak.sounding import Sounding
from speech.encode import OutputFormat
from speech.speaking.events import Progress, SoundMade, SpeechDone, SpeechEvent, SpeechFailed, SpokenWord, WordsTimed
from speech.tts import Sound
from workers.errors import BackendFailed, InputTooLarge, ServingError

if TYPE_CHECKING:
    from speech.speaking.speaker import Speaker

log = logging.getLogger("speechlane.speak")

HEADER = struct.Struct("<IIQ")
"""Before the audio in a binary frame: 1 (audio), the context's number, the position of the first sample."""
AUDIO = 1
EARLY = 0.5
"""Seconds by which a report may be ahead of what was sent, for rounding and resampling; more is a mistake."""


class Context:
    """Lives from `create` to done, cancelled or failed, of which it sends exactly one, as its last message.

    `gate` lets the contexts of a socket send their sound in turn; `ended` is called with the context and the outcome.
    """

    def __init__(
        self,
        asked: Create,
        number: int,
        speaker: Speaker,
        format: OutputFormat,
        out: Connection,
        account: Account,
        gate: asyncio.Lock,
        most_text: int,
        ended: Callable[[Context, str], None],
    ) -> None:
        self.name, self.number = asked.context, number
        self.over = False
        self._asked, self._speaker, self._out, self._account, self._gate = asked, speaker, out, account, gate
        self._most_text, self._on_end = most_text, ended
        self._sounding = Sounding(format, speaker.rate)
        self._pieces = TextPieces()
        self._given = 0
        self._no_more: str | None = None
        self._loop = asyncio.get_running_loop()
        self._active = self._loop.time()
        self._pump = asyncio.create_task(self._pass_on(), name="speech events")

    def idle_since(self) -> float:
        """When something was last said or heard (the event loop's time)."""
        return self._active

    @property
    def open(self) -> bool:
        """Whether more text may come."""
        return self._no_more is None

    async def text(self, piece: str, *, flush: bool, end: bool) -> None:
        """More text. Raises `FieldInvalid`, `InputTooLarge`."""
        if self._no_more is not None:
            raise FieldInvalid(
                f"The text of context {self.name!r} has ended ({self._no_more}); create another context for more.",
                code="context_ended",
                param="text",
            )
        if self._given + len(piece) > self._most_text:
            raise InputTooLarge(
                f"A context takes {self._most_text} characters, and {self._given} were given; end this one and "
                "create another for the rest.",
                param="text",
            )
        await self._say(self._pieces.take(piece))
        if end:
            await self.end("end")
        elif flush:
            await self.flush()

    async def flush(self) -> None:
        """Speak what there is."""
        if self._no_more is None:
            await self._say(self._pieces.rest())
            await self._speaker.flush()
            self._active = self._loop.time()

    async def end(self, reason: str) -> None:
        """No more text comes; `reason` is told with done. Idempotent: the first reason counts."""
        if self._no_more is None:
            self._no_more = reason
            await self._say(self._pieces.rest())
            await self._speaker.end()

    async def cancel(self, reason: str) -> None:
        """Stop, and say what was spoken: nothing of the context follows that."""
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)
        progress = await self._speaker.cancel()
        if not self.over:
            self._finish("cancelled")
            self._send("cancelled", reason=reason, **described(progress))

    def playback(self, seconds: float) -> None:
        """The listener's report. Raises `FieldInvalid`."""
        made = self._speaker.progress().made
        if seconds > made + EARLY:
            raise FieldInvalid(
                f"seconds is {seconds:g}, but {made:.3f} s of this context have been made; report what has been heard.",
                code="invalid_value",
                param="seconds",
            )
        self._speaker.played(seconds)
        self._account.played(seconds)

    def hold(self) -> None:
        """Make and send nothing for now."""
        self._speaker.hold()
        self._account.held()
        self._send("held", **described(self._speaker.progress()))

    def resume(self) -> None:
        """Go on."""
        self._account.held()
        self._active = self._loop.time()
        self._speaker.resume()
        self._send("resumed")

    async def finished(self) -> None:
        """Wait for the end of the context."""
        await asyncio.wait([self._pump])

    async def close(self) -> None:
        """Free everything, in whatever state it is."""
        try:
            await every(partial(stopped, self._pump), self._speaker.close)
        finally:
            if not self.over:
                self._finish("cancelled")

    async def _say(self, text: str) -> None:
        self._active = self._loop.time()
        if text:
            self._given += len(text)
            self._account.text(text)
            await self._speaker.say(text)

    async def _pass_on(self) -> None:
        try:
            async for event in self._account.events(self._speaker):
                await self._handle(event)
                if self.over:
                    return
            self._fail(BackendFailed("The speech ended by itself."))
        except ServingError as error:
            self._fail(error)
        except Exception:
            log.exception("context %d failed", self.number)
            self._fail(BackendFailed("The speech failed; the log of the service says why."))

    async def _handle(self, event: SpeechEvent) -> None:
        match event:
            case WordsTimed(words):
                self._account.word(words[0].start_char)
                if self._asked.words:
                    self._send("words", words=[_word(word) for word in words])
            case SoundMade(start, samples):
                await self._sound(start, samples)
            case SpeechDone(seconds):
                async with self._gate:
                    await self._out.room()
                    position = self._sounding.position
                    self._audio(await self._sounding.flush(), position)
                given = self._speaker.progress()
                text = whole_text(given.spoken + given.unspoken)
                self._finish("done")
                self._send(
                    "done",
                    reason=self._no_more or "end",
                    text=text,
                    characters=len(text),
                    seconds=round(seconds, 6),
                    samples=self._sounding.position,
                )
            case SpeechFailed(error):
                self._fail(error)

    async def _sound(self, start: int, samples: Sound) -> None:
        until = start
        for piece in self._sounding.pieces(samples):
            until += len(piece)
            async with self._gate:
                await self._out.room()
                position = self._sounding.position
                self._audio(await self._sounding.feed(piece), position)
            seconds = until / self._speaker.rate
            self._speaker.sent(seconds)
            self._account.sound(seconds)
            self._active = self._loop.time()
            self._out.touch()

    def _audio(self, data: bytes, position: int) -> None:
        if not data:
            return
        if self._asked.audio == "base64":
            self._send("audio", position=position, audio=base64.b64encode(data).decode())
        else:
            self._out.send_bytes(HEADER.pack(AUDIO, self.number, position) + data)

    def _fail(self, error: ServingError) -> None:
        if not self.over:
            log.warning("context %d failed: %s: %s", self.number, error.code, error.message)
            self._finish("failed")
            self._send("failed", error=error_fields(error), **described(self._speaker.progress()))

    def _finish(self, outcome: str) -> None:
        self.over = True
        self._account.end(outcome)
        self._on_end(self, outcome)

    def _send(self, kind: str, /, **fields: Any) -> None:
        self._out.send({"type": kind, "context": self.name, "number": self.number, **fields})


def described(progress: Progress) -> dict[str, Any]:
    """How far it was heard, in characters of the text given and in seconds."""
    return {
        "spoken": whole_text(progress.spoken),
        "unspoken": whole_text(progress.unspoken),
        "characters": progress.characters,
        "played": round(progress.played, 6),
        "made": round(progress.made, 6),
    }


def _word(word: SpokenWord) -> dict[str, Any]:
    return {
        "text": whole_text(word.text),
        "start_char": word.start_char,
        "end_char": word.end_char,
        "start": round(word.start, 4),
        "end": round(word.end, 4),
    }
