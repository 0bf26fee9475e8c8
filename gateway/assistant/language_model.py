"""What a conversation asks of a language model, and what it gets back. Knows no wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from workers.errors import ServingError


class AssistantFailed(ServingError):
    """The language model gave no answer, or broke off in the middle of one."""

    code = "assistant_failed"
    status = 502


@dataclass(frozen=True, slots=True)
class Said:
    """Words of somebody. `role` system is an instruction in the course of the conversation."""

    role: Literal["user", "assistant", "system"]
    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """The model asked for a function; `arguments` is the JSON it wrote."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Returned:
    """What a function gave back."""

    call_id: str
    output: str


Entry = Said | Called | Returned


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the client offers. `parameters` is JSON Schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One answer. `history` is in order; `tool_choice` is "auto", "none", "required" or the name of one of `tools`.

    `max_tokens` None leaves the length to the model.
    """

    history: tuple[Entry, ...]
    instructions: str = ""
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TextPiece:
    """The next characters of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegan:
    """The model begins to call a function."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsPiece:
    """The next characters of a call's arguments."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The answer is over; always the last piece. Tokens as the model counts them, None when it does not say."""

    reason: Literal["stop", "length", "content_filter"] = "stop"
    input_tokens: int | None = None
    output_tokens: int | None = None


Piece = TextPiece | CallBegan | ArgumentsPiece | Ended


class LanguageModel(Protocol):
    """Answers conversations, any number at once, on one event loop."""

    @property
    def name(self) -> str:
        """What clients are told that they talk to."""

    def answer(self, wanted: Wanted) -> AsyncIterator[Piece]:
        """The answer as it is made, ending in `Ended`. Raises `AssistantFailed`. Leaving the loop cancels it."""

    async def close(self) -> None:
        """Free connections. Idempotent."""
