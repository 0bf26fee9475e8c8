"""From the domain's events to the wire's. Knows nothing of sockets, audio or models.

Every item that is committed gets exactly one completed or failed event, in the order of the commits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, Protocol

from gateway.http_errors import error_fields
from gateway.metrics import Metrics
from gateway.realtime.config import Shape
from gateway.realtime.items import Item, new_id
from gateway.realtime.messages import Include
from speech.events import (
    Cleared,
    Committed,
    Event,
    Failed,
    Final,
    IdleTimeout,
    Lagging,
    Partial,
    SpeechStarted,
    SpeechStopped,
    Word,
)
from workers.errors import ServingError

log = logging.getLogger("speechlane.realtime")

TRANSCRIPTION = "conversation.item.input_audio_transcription"


class Out(Protocol):
    """Where wire events go, in order."""

    def send(self, event: dict[str, Any]) -> None: ...
    def send_text(self, key: object, event: dict[str, Any], field: str) -> None: ...
    def send_latest(self, key: object, event: dict[str, Any]) -> None: ...


class Keeper(Protocol):
    """What remembers the items."""

    def add(self, item: Item) -> str | None: ...
    def end(self, item: Item, status: Literal["completed", "incomplete"], transcript: str) -> None: ...


class Adapter:
    """The events of one session. `included` tells what the client asked for at the moment an event is made."""

    def __init__(self, out: Out, items: Keeper, included: Callable[[Include], bool], metrics: Metrics) -> None:
        self.shape = Shape.GA
        self._out = out
        self._items = items
        self._included = included
        self._metrics = metrics
        self._offset = 0.0
        self._started: dict[int, Item] = {}
        self._open: dict[int, Item] = {}
        self._silent: list[Item] = []
        self._events = 0

    def restart(self, position: float) -> None:
        """The session goes on with a new stream, whose 0.0 is the session's `position` (seconds)."""
        self._offset = position
        self._started.clear()

    def handle(self, event: Event) -> None:
        """Tell the client what happened."""
        match event:
            case SpeechStarted(utterance, at):
                item = self._item(utterance)
                self.send("input_audio_buffer.speech_started", audio_start_ms=self._ms(at), item_id=item.id)
            case SpeechStopped(utterance, at):
                item = self._item(utterance)
                self.send("input_audio_buffer.speech_stopped", audio_end_ms=self._ms(at), item_id=item.id)
            case Committed(utterance, start, end):
                self._open[utterance] = item = self._item(utterance)
                del self._started[utterance]
                self._commit(item, end - start)
            case Partial():
                self._partial(event)
            case Final():
                self._final(event)
            case Failed(utterance, error):
                self._fail(utterance, error)
            case Cleared():
                self._started.clear()
                self.send("input_audio_buffer.cleared")
            case IdleTimeout(start, end):
                self._idle(start, end)
            case Lagging(seconds):
                if self._included("x.lag"):
                    self._out.send_latest("x.lag", self._event("x.lag", {"seconds": round(seconds, 3)}))

    @property
    def waiting(self) -> int | None:
        """The first utterance that is committed and not yet transcribed."""
        return min(self._open, default=None)

    def state(self) -> dict[str, Any]:
        """Where it is, fit for JSON; the items themselves are kept elsewhere."""
        return {
            "offset": self._offset,
            "events": self._events,
            "started": {str(utterance): item.id for utterance, item in self._started.items()},
            "open": {str(utterance): [item.id, item.seconds] for utterance, item in self._open.items()},
            "silent": [[item.id, item.seconds] for item in self._silent],
        }

    def go_on(self, state: dict[str, Any], item: Callable[[str], Item | None]) -> None:
        """Be where another was; `item` finds those that are remembered."""

        def of(id: str, seconds: float = 0.0) -> Item:
            return item(id) or Item(id, seconds)

        self._offset, self._events = state["offset"], state["events"]
        self._started = {int(utterance): of(id) for utterance, id in state["started"].items()}
        self._open = {int(utterance): of(*known) for utterance, known in state["open"].items()}
        self._silent = [of(*known) for known in state["silent"]]

    def item_of(self, utterance: int) -> str | None:
        """The item of an utterance that is committed and not yet transcribed."""
        item = self._open.get(utterance)
        return item.id if item is not None else None

    def fail_open(self, error: ServingError) -> None:
        """The stream has ended without answering for what was committed: fail it."""
        for utterance in list(self._open):
            self._fail(utterance, error)

    def send(self, kind: str, /, **fields: Any) -> None:
        """Send an event that must arrive."""
        self._out.send(self._event(kind, fields))

    def _event(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        self._events += 1
        return {"type": kind, "event_id": f"event_{self._events:08d}", **fields}

    def _item(self, utterance: int) -> Item:
        return self._open.get(utterance) or self._started.setdefault(utterance, Item(new_id("item")))

    def _ms(self, seconds: float) -> int:
        return round((self._offset + seconds) * 1000)

    def _commit(self, item: Item, seconds: float) -> None:
        item.seconds = seconds
        previous = self._items.add(item)
        self.send("input_audio_buffer.committed", item_id=item.id, previous_item_id=previous)
        # To the conversation the item is whole once its audio is; its transcript follows in events of its own.
        described = {**item.described(), "status": "completed"}
        kinds = ("added", "done") if self.shape is Shape.GA else ("created",)
        for kind in kinds:
            self.send(f"conversation.item.{kind}", previous_item_id=previous, item=described)

    def _partial(self, event: Partial) -> None:
        item = self._item(event.utterance)
        fields: dict[str, Any] = {"item_id": item.id, "content_index": 0}
        lag = self._lag(event) if self._included("x.lag") else {}
        if event.stable:
            delta = self._event(f"{TRANSCRIPTION}.delta", {**fields, "delta": event.stable, **lag})
            self._out.send_text(("delta", item.id), delta, "delta")
        if self._included("x.unstable"):
            fields |= {"text": event.unstable, "audio_end_ms": self._ms(event.audio_end), **lag}
            self._out.send_latest(("unstable", item.id), self._event("x.transcription.unstable", fields))
        self._metrics.chunk_round_trip(event.lag)

    def _final(self, event: Final) -> None:
        item = self._open.pop(event.utterance, None)
        if item is None:
            log.error("a final came for an utterance that is not open: %d", event.utterance)
            return
        extra: dict[str, Any] = {}
        if event.language:
            extra["languages"] = [{"code": event.language}]
        if self._included("item.input_audio_transcription.logprobs"):
            extra["logprobs"] = [
                {"token": token.text, "bytes": list(token.bytes), "logprob": token.logprob} for token in event.tokens
            ]
        if self._included("x.words"):
            extra["words"] = [self._word(word) for word in event.words]
        if self._included("x.lag"):
            extra |= self._lag(event)
        self._complete(item, event.text, extra)
        self._metrics.utterance("final" if event.text else "empty")
        self._metrics.final_latency(event.lag)

    def _complete(self, item: Item, transcript: str, extra: dict[str, Any]) -> None:
        self._items.end(item, "completed", transcript)
        self.send(
            f"{TRANSCRIPTION}.completed",
            item_id=item.id,
            content_index=0,
            transcript=transcript,
            usage={"type": "duration", "seconds": round(item.seconds, 3)},
            **extra,
        )
        self._end_silent()

    def _fail(self, utterance: int, error: ServingError) -> None:
        item = self._open.pop(utterance, None)
        if item is None:
            log.error("a failure came for an utterance that is not open: %d", utterance)
            return
        self._items.end(item, "incomplete", "")
        self.send(f"{TRANSCRIPTION}.failed", item_id=item.id, content_index=0, error=error_fields(error))
        self._metrics.utterance("failed")
        self._end_silent()

    def _idle(self, start: float, end: float) -> None:
        """The silent span becomes an item without words, as the protocol has it, after what is still open."""
        item = Item(new_id("item"))
        self.send(
            "input_audio_buffer.timeout_triggered",
            audio_start_ms=self._ms(start),
            audio_end_ms=self._ms(end),
            item_id=item.id,
        )
        self._commit(item, end - start)
        self._silent.append(item)
        self._end_silent()

    def _end_silent(self) -> None:
        if not self._open:
            silent, self._silent = self._silent, []
            for item in silent:
                self._complete(item, "", {})

    @staticmethod
    def _lag(event: Partial | Final) -> dict[str, float]:
        """Seconds since the audio came, and those of them that went into models; the rest is the service's own."""
        return {"lag": round(event.lag, 3), "model_seconds": round(event.model_seconds, 4)}

    def _word(self, word: Word) -> dict[str, Any]:
        return {
            "word": word.text,
            "start": round(self._offset + word.start, 3),
            "end": round(self._offset + word.end, 3),
            "confidence": round(word.confidence, 4),
        }
