"""The items of a conversation other than what was heard: messages, function calls and what they gave back."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from gateway.realtime.conversation.messages import Modality, NewItem
from gateway.realtime.items import Item, new_id
from gateway.realtime.parse import RequestError
from speech.speaking.events import SpokenWord

Role = Literal["user", "assistant", "system"]
Status = Literal["in_progress", "completed", "incomplete"]
_ROUNDING = 1e-6
MOST_CHARACTERS = 64 * 1024

T = TypeVar("T")


@dataclass(slots=True)
class Message:
    """Text of somebody, or an answer that was spoken: then `sound` holds when its words sound."""

    id: str
    role: Role
    text: str = ""
    status: Status = "completed"
    sound: Sounded | None = None

    @property
    def characters(self) -> int:
        return len(self.text)

    def described(self) -> dict[str, Any]:
        """The item on the wire."""
        part: dict[str, Any] = {"type": "input_text", "text": self.text}
        if self.sound is not None:
            part = {"type": "output_audio", "transcript": self.text}
        elif self.role == "assistant":
            part = {"type": "output_text", "text": self.text}
        return {**self.begun(), "content": [part]}

    def begun(self) -> dict[str, Any]:
        """The same before there is any content."""
        shown = {"id": self.id, "object": "realtime.item", "type": "message", "status": self.status, "role": self.role}
        return {**shown, "content": []}


@dataclass(slots=True)
class Sounded:
    """Seconds of sound that were `sent`, and the words in them, whose characters are those of the message."""

    sent: float = 0.0
    words: list[SpokenWord] = field(default_factory=list)

    def border(self, text: str, seconds: float) -> int:
        """Up to which character the text is heard in the first `seconds`: whole words and what clings to them."""
        place = bisect_right([word.end for word in self.words], seconds + _ROUNDING)
        if not place:
            return 0
        end = self.words[place - 1].end_char
        while end < len(text) and not text[end].isspace() and not text[end].isalnum():
            end += 1
        return end


@dataclass(slots=True)
class Call:
    """The model asks for a function."""

    id: str
    call_id: str
    name: str
    arguments: str = ""
    status: Status = "completed"

    @property
    def characters(self) -> int:
        return len(self.name) + len(self.arguments)

    def described(self) -> dict[str, Any]:
        """The item on the wire."""
        return {
            "id": self.id,
            "object": "realtime.item",
            "type": "function_call",
            "status": self.status,
            "call_id": self.call_id,
            "name": self.name,
            "arguments": self.arguments,
        }


@dataclass(slots=True)
class CallOutput:
    """What a function gave back."""

    id: str
    call_id: str
    output: str
    status: Status = "completed"

    @property
    def characters(self) -> int:
        return len(self.output)

    def described(self) -> dict[str, Any]:
        """The item on the wire."""
        return {
            "id": self.id,
            "object": "realtime.item",
            "type": "function_call_output",
            "status": self.status,
            "call_id": self.call_id,
            "output": self.output,
        }


AnyItem = Item | Message | Call | CallOutput


def made(new: NewItem, where: str = "item") -> Message | Call | CallOutput:
    """The item that a client asks for; `where` is the field it stands in. Raises `RequestError`."""
    identity = new.id or new_id("item")
    item: Message | Call | CallOutput
    match new.type:
        case "message":
            item = Message(identity, *_message(new, where))
        case "function_call":
            item = Call(identity, _needed(new.call_id, f"{where}.call_id"), _needed(new.name, f"{where}.name"))
            item.arguments = _needed(new.arguments, f"{where}.arguments")
        case "function_call_output":
            item = CallOutput(identity, _needed(new.call_id, f"{where}.call_id"), "")
            item.output = _needed(new.output, f"{where}.output")
        case "item_reference":
            raise RequestError(
                "An item_reference belongs to response.input; it is no item by itself.",
                code="invalid_value",
                param=f"{where}.type",
            )
    if item.characters > MOST_CHARACTERS:
        raise RequestError(
            f"An item has at most {MOST_CHARACTERS} characters, got {item.characters}.",
            code="input_too_large",
            param=where,
        )
    return item


def _message(new: NewItem, where: str) -> tuple[Role, str]:
    role: Role = _needed(new.role, f"{where}.role")
    texts = []
    for number, part in enumerate(_needed(new.content, f"{where}.content")):
        path = f"{where}.content[{number}]"
        if part.type in ("input_image", "input_audio") and part.transcript is None:
            remedy = "append audio to the input buffer" if part.type == "input_audio" else "there is no eye here"
            raise RequestError(
                f"A message takes input_text here, not {part.type}: {remedy}.",
                code="invalid_value",
                param=f"{path}.type",
            )
        texts.append(_needed(part.text if part.text is not None else part.transcript, f"{path}.text"))
    return role, "\n".join(texts)


def _needed(value: T | None, path: str) -> T:
    if value is None:
        raise RequestError(f"Missing required parameter: '{path}'.", code="missing_required_parameter", param=path)
    return value


def answer(modality: Modality) -> Message:
    """An answer that begins."""
    return Message(new_id("item"), "assistant", status="in_progress", sound=Sounded() if modality == "audio" else None)
