"""One answer from its first thought to its last sound heard. Whatever belongs to it ends with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from gateway.assistant import ArgumentsPiece, CallBegan, Ended, LanguageModel, TextPiece, Wanted
from gateway.http_errors import error_fields
from gateway.metrics import Metrics
from gateway.realtime.conversation.history import History
from gateway.realtime.conversation.items import Message
from gateway.realtime.conversation.plan import Plan
from gateway.realtime.conversation.timing import Timing
from gateway.realtime.conversation.writer import Outcome, ResponseWriter
from gateway.sockets import Connection
from gateway.telemetry.speaking import spoken
from speech.encode import Encoder
from speech.speaking.events import Progress, SoundMade, SpeechDone, SpeechFailed, SpokenWord, WordsTimed
from workers.errors import BackendFailed, ServingError

if TYPE_CHECKING:
    from speech.engine import Engine
    from speech.speaking.speaker import Speaker

log = logging.getLogger("speechlane.realtime")

SETTLE_SECONDS = 15.0
"""What the transcripts that an answer waits for may take."""
PLAYED_SECONDS = 5.0
"""How much longer than its sound lasts a listener may take to hear the end of an answer."""


@dataclass(frozen=True, slots=True)
class Room:
    """What the turns of a session share."""

    engine: Engine
    assistant: LanguageModel
    history: History
    connection: Connection
    metrics: Metrics
    send: Callable[..., None]
    conversation: str


class Turn:
    """One answer. `timing` only when it answers something spoken. `on_timing` is given the parts, once there is sound.

    `ended` is called when the response is over, though its last sound may not have been heard yet.
    """

    def __init__(
        self,
        room: Room,
        plan: Plan,
        writer: ResponseWriter,
        timing: Timing | None,
        on_timing: Callable[[Turn, dict[str, float]], None],
        ended: Callable[[Turn], None],
    ) -> None:
        self.writer = writer
        self.plan = plan
        self._room, self._timing, self._on_timing, self._ended = room, timing, on_timing, ended
        self._speaker: Speaker | None = None
        self._speaking: asyncio.Task[None] | None = None
        self._gate = asyncio.Event()
        self._gate.set()
        self._held: Progress | None = None
        self._sent = 0.0
        self.task = asyncio.create_task(self._run(), name="realtime answer")

    @property
    def active(self) -> bool:
        """The response is not over yet."""
        return not self.writer.over

    @property
    def audible(self) -> bool:
        """Somebody may still be listening to it, or come to."""
        return not self.task.done() and (self.active or self._speaker is not None)

    def hold(self) -> None:
        """Let no more sound out for now; go on with `resume`."""
        if not self._gate.is_set():
            return
        self._gate.clear()
        if self._speaker is not None:
            self._speaker.hold()
            self._held = self._speaker.progress()

    def resume(self) -> None:
        """Go on with the samples that come next."""
        self._gate.set()
        self._held = None
        if self._speaker is not None:
            self._speaker.resume()

    def played(self, seconds: float) -> None:
        """The listener has heard so much of the sound."""
        if self._speaker is not None:
            self._speaker.played(seconds)
            self._held = None

    def stop(self, reason: Literal["turn_detected", "client_cancelled"]) -> None:
        """End the response, if it is not over: nothing more is sent of it."""
        self._over("cancelled", {"reason": reason})
        self.task.cancel()

    def heard(self) -> tuple[Message, Progress] | None:
        """The spoken answer and how far the listener has heard it; where it was held, if it is: there they stopped."""
        message = self.writer.message
        if message is None or message.sound is None or self._speaker is None:
            return None
        return message, self._held or self._speaker.progress()

    # Its course

    async def _run(self) -> None:
        try:
            await self._answer()
            await self._played_out()
        except ServingError as error:
            log.warning("response %s failed: %s: %s", self.writer.id, error.code, error.message)
            self._fail(error)
        except Exception as error:
            log.exception("response %s failed", self.writer.id)
            self._fail(BackendFailed(f"The answer failed: {type(error).__name__}."))
        finally:
            await self._release()

    async def _answer(self) -> None:
        room = self._room
        with suppress(TimeoutError):  # what is not known by now is answered without
            async with asyncio.timeout(SETTLE_SECONDS):
                await room.history.settled()
        plan = self.plan
        wanted = Wanted(
            room.history.entries() if plan.history is None else plan.history,
            plan.instructions,
            plan.tools,
            plan.tool_choice,
            plan.max_tokens,
        )
        end = Ended()
        async with aclosing(cast(Any, room.assistant.answer(wanted))) as pieces:
            async for piece in pieces:
                if self._timing is not None:
                    self._timing.answered()
                if self._speaking is not None and self._speaking.done():
                    self._speaking.result()  # a voice that failed ends the answer
                match piece:
                    case TextPiece(text):
                        await self._say(text)
                    case CallBegan(call_id, name):
                        self.writer.begin_call(call_id, name)
                    case ArgumentsPiece(call_id, text):
                        self.writer.arguments(call_id, text)
                    case Ended():
                        end = piece
        self.writer.end_calls()
        if self._speaker is not None and self._speaking is not None:
            await self._speaker.end()
            await self._speaking
        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        self.writer.end_message("completed" if end.reason == "stop" else "incomplete")
        if end.reason == "stop":
            self._over("completed", None, _usage(end))
        else:
            self._over("incomplete", {"reason": reasons[end.reason]}, _usage(end))

    async def _say(self, text: str) -> None:
        if not text:
            return
        if self.plan.modality == "text":
            if self.writer.message is None:
                self.writer.begin_message()
            self.writer.text(text)
            return
        if self._speaker is None:
            self._speaker = self._open()
        assert self.writer.message is not None
        self.writer.message.text += text
        await self._speaker.say(text)

    def _open(self) -> Speaker:
        from speech.speaking.config import SpeakConfig  # late, since it brings the whole of text for speech

        speaker = self._room.engine.open_speech(SpeakConfig(voice=self.plan.voice, speed=self.plan.speed))
        if not self._gate.is_set():
            speaker.hold()
            self._held = speaker.progress()
        self.writer.begin_message()
        self._speaking = asyncio.create_task(self._speak(speaker), name="realtime voice")
        return speaker

    async def _speak(self, speaker: Speaker) -> None:
        encoder = Encoder(self.plan.output, speaker.rate)
        words: list[SpokenWord] = []
        async for event in spoken(speaker.events(), speaker.rate, self._room.metrics):
            match event:
                case WordsTimed(timed):
                    words += timed
                case SoundMade(start, samples):
                    # One piece at a time is on its way, so that a reader who stops parks only this voice, and no more
                    # than that has left when the listener interrupts.
                    await self._room.connection.flushed()
                    await self._gate.wait()
                    if words:
                        self.writer.transcript(words[-1].end_char, words)
                        words = []
                    self._out(encoder.feed(samples), (start + len(samples)) / speaker.rate)
                    speaker.sent(self._sent)
                case SpeechDone():
                    await self._gate.wait()
                    self._out(encoder.flush(), self._sent)
                    assert self.writer.message is not None
                    self.writer.transcript(len(self.writer.message.text), words)
                case SpeechFailed(error):
                    raise error

    def _out(self, data: bytes, sent: float) -> None:
        self._room.metrics.speech_sent("live", sent - self._sent)
        self._sent = sent
        if not data:
            return
        self.writer.audio(data, sent)
        if self._timing is not None and self._timing.sounded():
            self._on_timing(self, self._timing.parts())

    async def _played_out(self) -> None:
        """Stay until the listener has heard the end, since until then it can be interrupted."""
        if self._speaker is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._sent + PLAYED_SECONDS):
                while True:
                    await self._gate.wait()
                    left = self._sent - self._speaker.progress().played
                    if left <= 0.01:
                        return
                    await asyncio.sleep(left)

    async def _release(self) -> None:
        speaker, self._speaker = self._speaker, None
        if self._speaking is not None:
            self._speaking.cancel()
            with suppress(asyncio.CancelledError, ServingError):
                await self._speaking
        if speaker is not None:
            await speaker.cancel() if self.writer.status == "cancelled" else await speaker.close()

    def _fail(self, error: ServingError) -> None:
        fields = error_fields(error)
        self._over("failed", {"error": {name: fields[name] for name in ("type", "code", "message")}})

    def _over(self, outcome: Outcome, details: dict[str, Any] | None, usage: dict[str, Any] | None = None) -> None:
        if self.writer.over:
            return
        self.writer.end(outcome, details, usage)
        self._room.metrics.response(outcome)
        self._ended(self)


def _usage(end: Ended) -> dict[str, Any] | None:
    """Tokens as the language model counted them; sound has none here."""
    if end.input_tokens is None or end.output_tokens is None:
        return None
    return {
        "total_tokens": end.input_tokens + end.output_tokens,
        "input_tokens": end.input_tokens,
        "output_tokens": end.output_tokens,
        "input_token_details": {
            "text_tokens": end.input_tokens,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": 0,
        },
        "output_token_details": {"text_tokens": end.output_tokens, "audio_tokens": 0},
    }
