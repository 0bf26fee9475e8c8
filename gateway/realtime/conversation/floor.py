"""Who has the floor: makes the answers of a conversation, and decides what becomes of one when the listener speaks.

While somebody is spoken to, the beginning of their speech is a doubt: the answer is held at once. As soon as it is
known to be more than "mm-hmm", or goes on for `LONG` seconds, the answer ends there and the history keeps what was
heard of it. If it was nothing, the answer goes on with the samples that come next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gateway.realtime.adapter import Adapter
from gateway.realtime.conversation.interruption import interrupts_already, is_interruption
from gateway.realtime.conversation.items import Message
from gateway.realtime.conversation.messages import Include, Played, ResponseWish, Session, Truncate
from gateway.realtime.conversation.plan import planned
from gateway.realtime.conversation.timing import Timing
from gateway.realtime.conversation.turn import Room, Turn
from gateway.realtime.conversation.writer import ResponseWriter
from gateway.realtime.items import no_item
from gateway.realtime.parse import RequestError
from speech.config import VadConfig
from speech.events import Cleared, Committed, Event, Failed, Final, IdleTimeout, Partial, SpeechStarted

LONG = 1.0
"""Seconds of voice, whatever is said, that interrupt; "mm-hmm" and a cough are shorter."""
MOST_OUT_OF_BAND = 4


@dataclass(slots=True)
class Speech:
    """Somebody is speaking: `words` so far, and whether an answer is held because of it.

    Once it has ended, `item` is what it became, and `silence` the seconds that were waited for to know.
    """

    began: float
    words: str = ""
    doubt: bool = False
    item: str | None = None
    silence: float = 0.0
    timer: asyncio.TimerHandle | None = field(default=None)


class Floor:
    """The turns of one session. `session` and `vad` give the settings at the moment they are needed."""

    def __init__(
        self, room: Room, adapter: Adapter, session: Callable[[], Session], vad: Callable[[], VadConfig]
    ) -> None:
        self._room, self._adapter, self._session, self._vad = room, adapter, session, vad
        self._loop = asyncio.get_running_loop()
        self._turn: Turn | None = None
        self._turns: set[Turn] = set()
        """Every turn that is not done, those out of band and those whose last sound is still being heard as well."""
        self._speeches: dict[int, Speech] = {}
        self._next: Timing | None = None
        """Somebody said something while an answer that may not be interrupted was given: it is answered next."""
        self._closing = False

    # What the client asks

    def create(self, wish: ResponseWish) -> None:
        """response.create. Raises `RequestError`."""
        if wish.conversation == "auto" and self._turn is not None and self._turn.active:
            raise RequestError(
                f"The conversation has an active response: {self._turn.writer.id}. Wait for its response.done or send "
                "response.cancel.",
                code="conversation_already_has_active_response",
            )
        if wish.conversation == "none" and len(self._out_of_band()) == MOST_OUT_OF_BAND:
            raise RequestError(
                f"{MOST_OUT_OF_BAND} responses out of band are active already; wait for one to end.",
                code="rate_limit_exceeded",
            )
        self._begin(wish, None)

    def cancel(self, response_id: str | None) -> None:
        """response.cancel. Raises `RequestError`."""
        for turn in sorted(self._turns, key=lambda turn: turn is not self._turn):
            if turn.active and response_id in (None, turn.writer.id):
                turn.stop("client_cancelled")
                return
        raise RequestError(
            "There is no active response to cancel" + (f" with the id {response_id[:100]!r}." if response_id else "."),
            code="response_cancel_not_active",
            param="response_id" if response_id else None,
        )

    def clear_output(self) -> None:
        """output_audio_buffer.clear. Raises `RequestError`."""
        turn = self._turn
        if turn is None or not turn.audible:
            raise RequestError("Nothing is being spoken.", code="output_audio_buffer_clear_not_active")
        self._cut(turn, "client_cancelled")
        self._adapter.send("output_audio_buffer.cleared", response_id=turn.writer.id)

    def truncate(self, event: Truncate) -> None:
        """conversation.item.truncate. Raises `RequestError`."""
        message = self._spoken(event.item_id, "item_truncate_invalid_item_id")
        seconds = self._seconds(message, event.audio_end_ms)
        if event.content_index != 0:
            raise RequestError(
                "A spoken message has one part: content_index is 0.", code="invalid_value", param="content_index"
            )
        turn = self._turn
        if turn is not None and turn.audible and turn.writer.message is message:
            # Who truncates an answer has thrown the rest of it away, and so decided what it was that interrupted.
            turn.stop("turn_detected" if self._settle() else "client_cancelled")
        self._truncated(message, seconds, message.sound.border(message.text, seconds) if message.sound else 0)

    def played(self, event: Played) -> None:
        """x.output_audio.played. Raises `RequestError`."""
        message = self._spoken(event.item_id, "invalid_value")
        seconds = self._seconds(message, event.audio_end_ms)
        if self._turn is not None and self._turn.writer.message is message:
            self._turn.played(seconds)

    # What the stream says

    def heard(self, event: Event) -> None:
        """Somebody begins to speak, says something, has said it."""
        match event:
            case SpeechStarted(utterance, _):
                self._forget(utterance)
                self._speeches[utterance] = Speech(self._loop.time())
                self._doubt(utterance)
            case Committed(utterance, reason=reason) if utterance in self._speeches:
                speech = self._speeches[utterance]
                speech.item = self._adapter.item_of(utterance)
                speech.silence = self._vad().silence if reason == "vad" else 0.0
            case Partial(utterance, stable, unstable):
                self._partial(utterance, stable, unstable)
            case Final():
                self._final(event)
            case Failed(utterance):
                self._nothing(utterance)
            case Cleared():
                for utterance in list(self._speeches):
                    self._nothing(utterance)
            case IdleTimeout() if self._turn is None or not self._turn.audible:
                if self._answers():
                    self._begin(ResponseWish(), None)

    async def finish(self, seconds: float) -> None:
        """Make no more answers, and give the one under way the time to end."""
        self._closing = True
        if self._turn is not None and self._turn.active:
            await asyncio.wait({self._turn.task}, timeout=seconds)

    async def close(self) -> None:
        """End everything."""
        self._closing = True
        for speech in self._speeches.values():
            if speech.timer is not None:
                speech.timer.cancel()
        tasks = {turn.task for turn in self._turns}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _answers(self) -> bool:
        turn_detection = self._session().audio.input.turn_detection
        return turn_detection is not None and turn_detection.create_response is not False and not self._closing

    def _interruptible(self) -> bool:
        turn_detection = self._session().audio.input.turn_detection
        return turn_detection is not None and turn_detection.interrupt_response is not False

    # Doubts

    def _doubt(self, utterance: int) -> None:
        """Somebody speaks: hold the answer, if there is one, until it is known why."""
        speech, turn = self._speeches[utterance], self._turn
        if speech.doubt or turn is None or not turn.audible or not self._interruptible():
            return
        speech.doubt = True
        vad = self._vad()
        # The end of a speech is known only after its silence, so a short one lasts that much longer.
        until = speech.began + LONG + vad.silence
        speech.timer = self._loop.call_at(until, self._long, utterance)
        turn.hold()
        self._interruption("held", turn)

    def _partial(self, utterance: int, stable: str, unstable: str) -> None:
        speech = self._speeches.get(utterance)
        if speech is None:
            return
        speech.words += stable
        if speech.doubt and interrupts_already(speech.words + unstable):
            self._interrupt()

    def _long(self, utterance: int) -> None:
        speech = self._speeches.get(utterance)
        if speech is not None and speech.doubt:
            self._interrupt()

    def _final(self, event: Final) -> None:
        speech = self._speeches.get(event.utterance)
        if speech is not None and speech.doubt:
            if not is_interruption(event.text, event.confidence, event.speech_seconds):
                self._room.history.aside(speech.item or "")
                self._nothing(event.utterance)
                return
            self._interrupt()
        self._forget(event.utterance)
        if not event.text or not self._answers():
            return
        timing = Timing(speech.silence if speech is not None else 0.0, event.lag)
        if self._turn is not None and self._turn.active:
            self._next = timing
        else:
            self._begin(ResponseWish(), timing)

    def _nothing(self, utterance: int) -> None:
        """It was no interruption; when nobody else is speaking, the answer goes on."""
        speech = self._forget(utterance)
        if speech is None or not speech.doubt or any(other.doubt for other in self._speeches.values()):
            return
        if self._turn is not None and self._turn.audible:
            self._turn.resume()
            self._room.metrics.interruption("false")
            self._interruption("resumed", self._turn)

    def _forget(self, utterance: int) -> Speech | None:
        speech = self._speeches.pop(utterance, None)
        if speech is not None and speech.timer is not None:
            speech.timer.cancel()
        return speech

    def _settle(self) -> bool:
        """Nothing is in doubt any more; whether anything was."""
        doubted = [speech for speech in self._speeches.values() if speech.doubt]
        for speech in doubted:
            speech.doubt = False
            if speech.timer is not None:
                speech.timer.cancel()
        return bool(doubted)

    def _interrupt(self) -> None:
        """The listener has something to say."""
        self._settle()
        if self._turn is not None and self._turn.audible:
            self._room.metrics.interruption("real")
            self._cut(self._turn, "turn_detected")

    # Turns

    def _begin(self, wish: ResponseWish, timing: Timing | None) -> None:
        session, room = self._session(), self._room
        plan = planned(session, wish, room.history)
        history = room.history if plan.in_conversation else None
        writer = ResponseWriter(plan, room.send, history, room.conversation, self._included("x.words"))
        turn = Turn(room, plan, writer, timing, self._timed, self._ended)
        self._turns.add(turn)
        turn.task.add_done_callback(lambda _: self._turns.discard(turn))
        if not plan.in_conversation:
            return
        self._next, self._turn = None, turn
        for utterance in list(self._speeches):
            self._doubt(utterance)

    def _ended(self, turn: Turn) -> None:
        if turn is self._turn and self._next is not None and not self._closing:
            self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        if self._next is not None and self._answers() and (self._turn is None or not self._turn.active):
            self._begin(ResponseWish(), self._next)

    def _out_of_band(self) -> list[Turn]:
        return [turn for turn in self._turns if not turn.plan.in_conversation]

    def _cut(self, turn: Turn, reason: Any) -> None:
        """End a turn where the listener is; the history keeps what was heard."""
        heard = turn.heard()
        turn.stop(reason)
        if heard is not None:
            message, progress = heard
            self._truncated(message, progress.played, progress.characters, progress.unspoken)

    def _truncated(self, message: Message, seconds: float, border: int, unspoken: str | None = None) -> None:
        whole, message.text = message.text, message.text[:border]
        if message.sound is not None:
            message.sound.sent = seconds
            message.sound.words = [word for word in message.sound.words if word.end_char <= border]
        extra: dict[str, Any] = {}
        if self._included("x.interruptions"):
            rest = unspoken if unspoken is not None else whole[border:]
            extra = {"spoken": message.text, "unspoken": rest}
        fields = {"item_id": message.id, "content_index": 0, "audio_end_ms": round(seconds * 1000)}
        self._adapter.send("conversation.item.truncated", **fields, **extra)

    def _spoken(self, item_id: str, code: str) -> Message:
        item = self._room.history.get(item_id)
        if item is None:
            raise no_item(item_id, code)
        if not isinstance(item, Message) or item.sound is None:
            raise RequestError(f"{item_id[:100]!r} is no spoken answer.", code=code, param="item_id")
        return item

    @staticmethod
    def _seconds(message: Message, milliseconds: int) -> float:
        sent = message.sound.sent if message.sound is not None else 0.0
        if milliseconds > round(sent * 1000):
            raise RequestError(
                f"Audio content of {round(sent * 1000)} ms is already shorter than {milliseconds} ms.",
                code="invalid_value",
                param="audio_end_ms",
            )
        return min(milliseconds / 1000, sent)

    # Extensions

    def _included(self, what: Include) -> bool:
        return what in (self._session().include or ())

    def _interruption(self, what: str, turn: Turn) -> None:
        if self._included("x.interruptions"):
            heard = turn.heard()
            fields = {"response_id": turn.writer.id, "item_id": heard[0].id if heard else None}
            self._adapter.send(
                f"x.output_audio.{what}", **fields, audio_end_ms=round(heard[1].played * 1000) if heard else 0
            )

    def _timed(self, turn: Turn, parts: dict[str, float]) -> None:
        for part, seconds in parts.items():
            self._room.metrics.turn_part(part, seconds)
        if self._included("x.timing"):
            message = turn.writer.message
            fields = {"response_id": turn.writer.id, "item_id": message.id if message else None}
            self._adapter.send(
                "x.response.timing", **fields, **{name: round(seconds, 4) for name, seconds in parts.items()}
            )
