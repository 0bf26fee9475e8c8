"""One response on the wire: every event in its order, with its ids, and nothing after its end."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from gateway.realtime.conversation.history import History
from gateway.realtime.conversation.items import AnyItem, Call, Message, answer
from gateway.realtime.conversation.plan import Plan
from gateway.realtime.items import new_id
from speech.speaking.events import SpokenWord

Outcome = Literal["completed", "cancelled", "failed", "incomplete"]


class Send(Protocol):
    """Sends an event by its name in the general shape."""

    def __call__(self, kind: str, /, **fields: Any) -> None: ...


class ResponseWriter:
    """Writes one response; `history` None: out of band, its items are in no conversation.

    `words`: whether transcripts come with the times of their words. After `end` nothing is sent any more.
    """

    def __init__(self, plan: Plan, send: Send, history: History | None, conversation: str, words: bool) -> None:
        self.id = new_id("resp")
        self.status: Literal["in_progress"] | Outcome = "in_progress"
        self.message: Message | None = None
        """The answer in words, once there is one."""
        self._plan, self._raw_send, self._history = plan, send, history
        self._conversation = conversation if history is not None else None
        self._words = words
        self._output: list[Message | Call] = []
        self._calls: dict[str, Call] = {}
        self._spoken = 0
        self._send("response.created", response=self._described())

    @property
    def over(self) -> bool:
        """Whether the response has ended."""
        return self.status != "in_progress"

    # Words

    def begin_message(self) -> Message:
        """The answer in words begins."""
        self.message = message = answer(self._plan.modality)
        self._begin(message, message.begun())
        self._part("added", message, "")
        return message

    def text(self, delta: str) -> None:
        """More of an answer that is written."""
        assert self.message is not None
        self.message.text += delta
        self._send("response.output_text.delta", **self._at(self.message), content_index=0, delta=delta)

    def transcript(self, end: int, words: Sequence[SpokenWord]) -> None:
        """What is about to be heard reaches to character `end` of the answer."""
        message = self.message
        assert message is not None and message.sound is not None
        message.sound.words.extend(words)
        if end <= self._spoken:
            return
        delta, self._spoken = message.text[self._spoken : end], end
        extra: dict[str, Any] = {}
        if self._words:
            extra["words"] = [
                {"word": word.text, "start": round(word.start, 3), "end": round(word.end, 3)} for word in words
            ]
        self._send("response.output_audio_transcript.delta", **self._at(message), content_index=0, delta=delta, **extra)

    def audio(self, data: bytes, sent: float) -> None:
        """More sound, `sent` seconds with it."""
        message = self.message
        assert message is not None and message.sound is not None
        message.sound.sent = sent
        delta = base64.b64encode(data).decode()
        self._send("response.output_audio.delta", **self._at(message), content_index=0, delta=delta)

    # Functions

    def begin_call(self, call_id: str, name: str) -> None:
        """The model calls a function."""
        self._calls[call_id] = call = Call(new_id("item"), call_id, name, status="in_progress")
        self._begin(call, call.described())

    def arguments(self, call_id: str, delta: str) -> None:
        """More of the arguments of a call."""
        call = self._calls[call_id]
        call.arguments += delta
        self._send("response.function_call_arguments.delta", **self._at(call), call_id=call_id, delta=delta)

    def end_calls(self) -> None:
        """The model has said all it wants: its calls are whole."""
        for call in self._calls.values():
            if call.status == "in_progress":
                call.status = "completed"
                fields = {"call_id": call.call_id, "name": call.name, "arguments": call.arguments}
                self._send("response.function_call_arguments.done", **self._at(call), **fields)
                self._end_item(call)

    # The end

    def end_message(self, status: Literal["completed", "incomplete"]) -> None:
        """The answer in words is whole, or was broken off."""
        message = self.message
        if message is None or message.status != "in_progress":
            return
        message.status = status
        if message.sound is not None:
            if status == "incomplete":
                # What was never on its way to the listener was not said.
                message.text = message.text[: self._spoken]
            self._send("response.output_audio.done", **self._at(message), content_index=0)
            fields = {"transcript": message.text}
            self._send("response.output_audio_transcript.done", **self._at(message), content_index=0, **fields)
        else:
            self._send("response.output_text.done", **self._at(message), content_index=0, text=message.text)
        self._part("done", message, message.text)
        self._end_item(message)

    def end(self, outcome: Outcome, details: dict[str, Any] | None = None, usage: dict[str, Any] | None = None) -> None:
        """response.done, after the end of everything that is open. Only the first call counts."""
        if self.over:
            return
        self.end_message("completed" if outcome == "completed" else "incomplete")
        for call in self._calls.values():
            if call.status == "in_progress":
                call.status = "incomplete"
                self._end_item(call)
        described = self._described(outcome, details and {"type": outcome, **details}, usage)
        self._send("response.done", response=described)
        self.status = outcome

    def _begin(self, item: Message | Call, begun: dict[str, Any]) -> None:
        self._output.append(item)
        self._send("response.output_item.added", **self._in(item), item=begun)
        if self._history is not None:
            previous = self._history.add(item)
            self._send("conversation.item.added", previous_item_id=previous, item=begun)

    def _end_item(self, item: Message | Call) -> None:
        if self._history is not None:
            previous = self._history.before(item.id)
            self._send("conversation.item.done", previous_item_id=previous, item=item.described())
        self._send("response.output_item.done", **self._in(item), item=item.described())

    def _part(self, what: str, message: Message, text: str) -> None:
        part = {"type": "text", "text": text} if message.sound is None else {"type": "audio", "transcript": text}
        self._send(f"response.content_part.{what}", **self._at(message), content_index=0, part=part)

    def _in(self, item: Message | Call) -> dict[str, Any]:
        return {"response_id": self.id, "output_index": self._output.index(item)}

    def _at(self, item: Message | Call) -> dict[str, Any]:
        return {**self._in(item), "item_id": item.id}

    def _send(self, kind: str, /, **fields: Any) -> None:
        if not self.over:
            self._raw_send(kind, **fields)

    def _described(
        self,
        status: str = "in_progress",
        details: dict[str, Any] | None = None,
        usage: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        items: list[AnyItem] = [*self._output]
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": details,
            "output": [item.described() for item in items],
            "conversation_id": self._conversation,
            **self._plan.described(),
            "usage": usage,
        }
