"""The events of conversation sessions and the session they configure, as OpenAI's Realtime protocol defines them.

Configuration in the shape of the beta is brought into the general one while it is read.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from gateway.realtime.messages import (
    EVENTS,
    AnySession,
    Audio,
    ClientEvent,
    Format,
    Name,
    Part,
)

Include = Literal[
    "item.input_audio_transcription.logprobs", "x.words", "x.unstable", "x.lag", "x.timing", "x.interruptions"
]
INCLUDE: tuple[str, ...] = get_args(Include)
Modality = Literal["text", "audio"]
FunctionName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
Instructions = Annotated[str, StringConstraints(max_length=64 * 1024)]
Metadata = Annotated[
    dict[Annotated[str, StringConstraints(max_length=64)], Annotated[str, StringConstraints(max_length=512)]],
    Field(max_length=16),
]


def _voice(value: Any) -> Any:
    return value["id"] if isinstance(value, dict) and set(value) == {"id"} else value


def _choice(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


def _tokens(value: Any) -> Any:
    return None if value == "inf" else value


class Output(Part):
    """session.audio.output. `speed` is a factor of the voice's own pace."""

    format: Format = Format()
    voice: Annotated[Name | None, BeforeValidator(_voice)] = None
    speed: float = Field(default=1.0, ge=0.25, le=4.0)


class ConversationAudio(Audio):
    """session.audio"""

    output: Output = Output()


class FunctionTool(Part):
    """A function that the model may call, carried out by the client. `parameters` is JSON Schema."""

    type: Literal["function"] = "function"
    name: FunctionName
    description: Annotated[str, StringConstraints(max_length=8192)] | None = None
    parameters: dict[str, Any] | None = None


class Choice(Part):
    """tool_choice; on the wire the first three are plain strings."""

    type: Literal["auto", "none", "required", "function"]
    name: FunctionName | None = None


Tools = Annotated[list[FunctionTool], Field(max_length=64)]
ToolChoice = Annotated[Choice, BeforeValidator(_choice)]
Tokens = Annotated[Annotated[int, Field(ge=1, le=4096)] | None, BeforeValidator(_tokens)]
Modalities = Annotated[list[Modality], Field(min_length=1, max_length=2)]


class Session(AnySession):
    """The session of a session.update. `max_output_tokens` None is "inf"."""

    type: Literal["realtime"] = "realtime"
    model: Name | None = None
    output_modalities: Modalities = Field(default=["audio"])
    instructions: Instructions | None = None
    tools: Tools = Field(default=[])
    tool_choice: ToolChoice = Choice(type="auto")
    max_output_tokens: Tokens = None
    include: list[Include] | None = None
    audio: ConversationAudio = ConversationAudio()
    # Accepted and echoed: there is nothing here that they could change.
    tracing: Any = None
    truncation: Any = "auto"
    parallel_tool_calls: bool | None = None
    prompt: None = None
    reasoning: Any = None


class Content(BaseModel):
    """A part of a message, of any kind."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    type: Literal["input_text", "input_audio", "input_image", "output_text", "output_audio", "text", "audio"]
    text: str | None = None
    transcript: str | None = None
    audio: str | None = None


class NewItem(BaseModel):
    """An item that the client makes, of any kind; what each kind needs is checked when it is made."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    type: Literal["message", "function_call", "function_call_output", "item_reference"] = "message"
    id: Name | None = None
    role: Literal["user", "assistant", "system"] | None = None
    content: Annotated[list[Content], Field(max_length=64)] | None = None
    call_id: Name | None = None
    name: FunctionName | None = None
    arguments: str | None = None
    output: str | None = None


class OutputChoice(Part):
    """response.audio.output"""

    format: Format | None = None
    voice: Annotated[Name | None, BeforeValidator(_voice)] = None


class AudioChoice(Part):
    """response.audio"""

    output: OutputChoice = OutputChoice()


class ResponseWish(Part):
    """The response of a response.create: what differs from the session, for this answer only."""

    conversation: Literal["auto", "none"] = "auto"
    input: Annotated[list[NewItem], Field(max_length=200)] | None = None
    instructions: Instructions | None = None
    output_modalities: Modalities | None = None
    audio: AudioChoice = AudioChoice()
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    max_output_tokens: Tokens = None
    metadata: Metadata | None = None
    parallel_tool_calls: bool | None = None
    prompt: None = None
    reasoning: Any = None


class SessionUpdate(ClientEvent):
    """session.update; what it holds depends on the shape, so it is read by `shapes.session_patch`."""

    session: dict[str, Any]


class ItemCreate(ClientEvent):
    """conversation.item.create"""

    item: NewItem
    previous_item_id: Name | None = None


class Truncate(ClientEvent):
    """conversation.item.truncate"""

    item_id: Name
    content_index: int
    audio_end_ms: int = Field(ge=0)


class ResponseCreate(ClientEvent):
    """response.create; read by `shapes.response_wish`."""

    response: dict[str, Any] | None = None


class ResponseCancel(ClientEvent):
    """response.cancel"""

    response_id: Name | None = None


class OutputClear(ClientEvent):
    """output_audio_buffer.clear"""


class Played(ClientEvent):
    """x.output_audio.played, an extension: the listener has heard so much of an item."""

    item_id: Name
    audio_end_ms: int = Field(ge=0)


CONVERSATION: dict[str, type[ClientEvent]] = {
    **{name: kind for name, kind in EVENTS.items() if name != "transcription_session.update"},
    "session.update": SessionUpdate,
    "conversation.item.create": ItemCreate,
    "conversation.item.truncate": Truncate,
    "response.create": ResponseCreate,
    "response.cancel": ResponseCancel,
    "output_audio_buffer.clear": OutputClear,
    "x.output_audio.played": Played,
}
