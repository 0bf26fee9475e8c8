"""From a text frame to a client event, or to the error that the client is told."""

from __future__ import annotations

import asyncio
import binascii
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json

from gateway.realtime.messages import CONVERSATION_EVENTS, EVENT_ID_CHARACTERS, EVENTS, Append, ClientEvent
from gateway.speak.fields import path
from workers.errors import ServingError

INLINE_CHARACTERS = 64 * 1024
"""Longer frames are parsed on a thread: at about a gigabyte a second this one costs the event loop 0.1 ms."""


Events = Mapping[str, type[ClientEvent]]
"""The events of a kind of session, by their type."""


class RequestError(Exception):
    """A client event that cannot be carried out; the session goes on. `event_id` is the client's own, if any."""

    def __init__(self, message: str, *, code: str, param: str | None = None, event_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param
        self.event_id = event_id

    @classmethod
    def of(cls, error: ServingError, param: str | None) -> RequestError:
        """The same refusal, in the wire's terms."""
        return cls(error.message, code=error.code, param=param)


async def parse(text: str, max_append: int, known: Events = EVENTS) -> ClientEvent:
    """The event in a frame, one of the `known`. `max_append` bounds the base64 of an append (characters).

    Raises `RequestError`.
    """
    if len(text) <= INLINE_CHARACTERS:
        return parse_now(text, max_append, known)
    return await asyncio.to_thread(parse_now, text, max_append, known)


def parse_now(text: str, max_append: int, known: Events = EVENTS) -> ClientEvent:
    """The same, on the calling thread."""
    try:
        fields = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise RequestError(f"The frame is not valid JSON: {error}.", code="invalid_json") from None
    if not isinstance(fields, dict):
        raise RequestError("A frame must be a JSON object with a type.", code="invalid_json")
    event_id = fields.get("event_id")
    try:
        return _event(fields, max_append, known)
    except RequestError as error:
        fits = isinstance(event_id, str) and len(event_id) <= EVENT_ID_CHARACTERS
        error.event_id = event_id if fits else None
        raise


def _event(fields: dict[str, Any], max_append: int, known: Events) -> ClientEvent:
    kind = fields.get("type")
    if kind is None:
        raise RequestError("Missing required parameter: 'type'.", code="missing_required_parameter", param="type")
    if not isinstance(kind, str):
        raise RequestError("Invalid type for 'type': expected a string.", code="invalid_type", param="type")
    model = known.get(kind)
    if model is None:
        remedy = (
            "it belongs to conversations, and this is a transcription session"
            if kind in CONVERSATION_EVENTS
            else f"supported are {', '.join(known)}"
        )
        raise RequestError(f"Invalid value for 'type': {kind[:100]!r}; {remedy}.", code="invalid_value", param="type")
    if model is Append:
        fields = {**fields, "audio": _audio(fields.get("audio"), max_append)}
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise refusal(error.errors(include_url=False, include_input=False)[0]) from None


def _audio(encoded: object, max_append: int) -> bytes:
    if encoded is None:
        raise RequestError("Missing required parameter: 'audio'.", code="missing_required_parameter", param="audio")
    if not isinstance(encoded, str):
        raise RequestError("Invalid type for 'audio': expected a string of base64.", code="invalid_type", param="audio")
    if len(encoded) > max_append:
        raise RequestError(
            f"The audio of an append is at most {max_append} characters of base64, got {len(encoded)}; "
            "send it in smaller pieces.",
            code="input_too_large",
            param="audio",
        )
    try:
        return binascii.a2b_base64(encoded, strict_mode=True)
    except ValueError as error:  # binascii.Error, or a character that is not ASCII
        raise RequestError(
            f"Invalid 'audio': not standard base64 ({str(error).lower()}).", code="invalid_value", param="audio"
        ) from None


def refusal(error: ErrorDetails, where: str = "") -> RequestError:
    """What pydantic found, as the client is told; `where` is the field that was looked at."""
    kind, param = error["type"], path((where, *error["loc"]) if where else error["loc"])
    if kind == "missing":
        return RequestError(f"Missing required parameter: '{param}'.", code="missing_required_parameter", param=param)
    if kind == "extra_forbidden":
        return RequestError(f"Unknown parameter: '{param}'; leave it out.", code="unknown_parameter", param=param)
    if kind.endswith("_type"):
        expected = "expected an object" if kind == "model_type" else error["msg"]
        return RequestError(f"Invalid type for '{param}': {expected}.", code="invalid_type", param=param)
    return RequestError(f"Invalid value for '{param}': {error['msg']}.", code="invalid_value", param=param)
