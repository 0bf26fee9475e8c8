"""The two shapes of the protocol in conversation sessions: how requests are read, and how events are named."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from gateway.realtime.config import BETA_OF_TYPE, TYPE_OF_BETA, Shape
from gateway.realtime.conversation.messages import Choice, ResponseWish, Session
from gateway.realtime.parse import RequestError, refusal

BETA_NAMES = {
    "conversation.item.added": "conversation.item.created",
    "response.output_text.delta": "response.text.delta",
    "response.output_text.done": "response.text.done",
    "response.output_audio.delta": "response.audio.delta",
    "response.output_audio.done": "response.audio.done",
    "response.output_audio_transcript.delta": "response.audio_transcript.delta",
    "response.output_audio_transcript.done": "response.audio_transcript.done",
}
UNKNOWN_TO_BETA = frozenset({"conversation.item.done"})

_AUDIO = "audio"
_SESSION_PATHS = {
    "modalities": ("output_modalities",),
    "max_response_output_tokens": ("max_output_tokens",),
    "input_audio_format": (_AUDIO, "input", "format"),
    "input_audio_transcription": (_AUDIO, "input", "transcription"),
    "input_audio_noise_reduction": (_AUDIO, "input", "noise_reduction"),
    "turn_detection": (_AUDIO, "input", "turn_detection"),
    "output_audio_format": (_AUDIO, "output", "format"),
    "voice": (_AUDIO, "output", "voice"),
    "speed": (_AUDIO, "output", "speed"),
}
"""Where the beta's flat fields are in the general shape."""

IGNORED = ("temperature",)
"""Fields of the beta that the general shape dropped; models that answer have their own."""

Read = TypeVar("Read", bound=BaseModel)


def session_patch(fields: dict[str, Any], shape: Shape) -> tuple[Session, Shape]:
    """What a session.update sets, and the shape that it is written in. Raises `RequestError`.

    Both shapes call the event the same, so the fields tell them apart, and where they do not, the connection.
    """
    if "type" in fields or _AUDIO in fields or "output_modalities" in fields:
        shape = Shape.GA
    elif any(name in fields for name in _SESSION_PATHS):
        shape = Shape.BETA
    if shape is Shape.BETA:
        return _read(Session, _general(fields, "session"), "session", shape), shape
    return _read(Session, fields, "session", shape), shape


def response_wish(fields: dict[str, Any] | None, shape: Shape) -> ResponseWish:
    """What a response.create asks for, in either shape. Raises `RequestError`."""
    fields = fields or {}
    if _AUDIO not in fields:
        fields = _general(fields, "response")
    return _read(ResponseWish, fields, "response", shape)


def _general(fields: dict[str, Any], where: str) -> dict[str, Any]:
    general: dict[str, Any] = {}
    for name, value in fields.items():
        if name in IGNORED:
            continue
        if name.endswith("_audio_format"):
            if not isinstance(value, str) or value not in TYPE_OF_BETA:
                raise RequestError(
                    f"{where}.{name} can be {', '.join(TYPE_OF_BETA)}.", code="invalid_value", param=f"{where}.{name}"
                )
            value = {"type": TYPE_OF_BETA[value]}
        *parents, last = _SESSION_PATHS.get(name, (name,))
        place = general
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return general


def _read(model: type[Read], fields: dict[str, Any], where: str, shape: Shape) -> Read:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise refusal(error.errors(include_url=False, include_input=False)[0], where) from None


def in_shape(item: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """An item as the shape has it: the beta calls the content of answers text and audio."""
    if shape is Shape.GA or "content" not in item:
        return item
    return {
        **item,
        "content": [{**part, "type": part["type"].removeprefix("output_")} for part in item["content"]],
    }


def choice_shown(choice: Choice) -> str | dict[str, Any]:
    """tool_choice on the wire."""
    return choice.type if choice.type != "function" else {"type": "function", "name": choice.name}


def described(session: Session, shape: Shape, session_id: str, expires_at: int) -> dict[str, Any]:
    """The session object of session.created and session.updated. `expires_at` is in seconds since 1970."""
    listened, spoken = session.audio.input, session.audio.output
    heard = {
        "transcription": listened.transcription,
        "noise_reduction": listened.noise_reduction,
        "turn_detection": listened.turn_detection,
    }
    shown = {name: part and part.model_dump(exclude_none=True) for name, part in heard.items()}
    common: dict[str, Any] = {
        "id": session_id,
        "object": "realtime.session",
        "expires_at": expires_at,
        "model": session.model,
        "instructions": session.instructions or "",
        "tools": [tool.model_dump(exclude_none=True) for tool in session.tools],
        "tool_choice": choice_shown(session.tool_choice),
        "include": session.include,
    }
    tokens: int | str = session.max_output_tokens or "inf"
    if shape is Shape.BETA:
        return {
            **common,
            "client_secret": None,
            "modalities": ["audio", "text"] if "audio" in session.output_modalities else ["text"],
            "voice": spoken.voice,
            "speed": spoken.speed,
            "input_audio_format": BETA_OF_TYPE[listened.format.type],
            "output_audio_format": BETA_OF_TYPE[spoken.format.type],
            "input_audio_transcription": shown["transcription"],
            "input_audio_noise_reduction": shown["noise_reduction"],
            "turn_detection": shown["turn_detection"],
            "max_response_output_tokens": tokens,
            "temperature": 0.8,
        }
    return {
        "type": "realtime",
        **common,
        "output_modalities": session.output_modalities,
        "max_output_tokens": tokens,
        "tracing": session.tracing,
        "truncation": session.truncation,
        "prompt": None,
        "audio": {
            "input": {"format": listened.format.model_dump(exclude_none=True), **shown},
            "output": {
                "format": spoken.format.model_dump(exclude_none=True),
                "voice": spoken.voice,
                "speed": spoken.speed,
            },
        },
    }
