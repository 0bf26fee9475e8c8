"""What one answer is to be: the session's settings, and what the request for it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway.assistant import Entry, Tool
from gateway.realtime.config import ENCODING_OF_TYPE, G711_RATE, merged_format
from gateway.realtime.conversation.history import History, entries
from gateway.realtime.conversation.items import made
from gateway.realtime.conversation.messages import Choice, FunctionTool, Modality, NewItem, ResponseWish, Session
from gateway.realtime.messages import Format
from gateway.realtime.parse import RequestError
from speech.encode import OutputFormat

OUTPUT = "session.audio.output"


@dataclass(frozen=True, slots=True)
class Plan:
    """One answer. `history` None: the conversation, as it is when the answer begins."""

    modality: Modality
    instructions: str
    voice: str
    speed: float
    format: Format
    tools: tuple[Tool, ...]
    tool_choice: str
    max_tokens: int | None
    in_conversation: bool = True
    history: tuple[Entry, ...] | None = None
    metadata: dict[str, str] | None = None

    @property
    def output(self) -> OutputFormat:
        """How sound is encoded."""
        return output_format(self.format)

    def described(self) -> dict[str, Any]:
        """Its part of the response object."""
        shown = {"format": self.format.model_dump(exclude_none=True), "voice": self.voice}
        return {
            "output_modalities": [self.modality],
            "max_output_tokens": self.max_tokens or "inf",
            "audio": {"output": shown} if self.modality == "audio" else None,
            "metadata": self.metadata,
        }


def planned(session: Session, wish: ResponseWish, history: History) -> Plan:
    """The answer that is wanted. Raises `RequestError`."""
    spoken = session.audio.output
    wanted = wish.audio.output
    modalities = wish.output_modalities or session.output_modalities
    tools = session.tools if wish.tools is None else wish.tools
    choice = wish.tool_choice or session.tool_choice
    return Plan(
        modality="audio" if "audio" in modalities else "text",
        instructions=(session.instructions if wish.instructions is None else wish.instructions) or "",
        voice=wanted.voice or spoken.voice or "",
        speed=spoken.speed,
        format=merged_format(spoken.format, wanted.format, "response.audio.output.format")
        if wanted.format is not None
        else spoken.format,
        tools=tuple(Tool(tool.name, tool.description or "", tool.parameters or {}) for tool in tools),
        tool_choice=chosen_tool(choice, tools, "response.tool_choice"),
        max_tokens=wish.max_output_tokens or session.max_output_tokens,
        in_conversation=wish.conversation == "auto",
        history=None if wish.input is None else _told(wish.input, history),
        metadata=wish.metadata,
    )


def chosen_tool(choice: Choice, tools: list[FunctionTool], path: str) -> str:
    """The choice in the language model's terms. Raises `RequestError` for a function that is not among the tools."""
    if choice.type != "function":
        return choice.type
    if choice.name not in [tool.name for tool in tools]:
        raise RequestError(
            f"There is no function {choice.name!r} among the tools.", code="invalid_value", param=f"{path}.name"
        )
    return choice.name


def output_format(format: Format) -> OutputFormat:
    """The form of sound that a format of the wire asks for."""
    return OutputFormat(ENCODING_OF_TYPE[format.type], format.rate or G711_RATE)


def _told(items: list[NewItem], history: History) -> tuple[Entry, ...]:
    told = []
    for number, new in enumerate(items):
        path = f"response.input[{number}]"
        if new.type == "item_reference":
            known = history.get(new.id or "")
            if known is None:
                raise RequestError(f"There is no item {new.id!r}.", code="invalid_value", param=f"{path}.id")
            told.append(known)
        else:
            told.append(made(new, path))
    return entries(told)
