"""How failures look on each wire, and which of them every route may meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from gateway.openapi.shapes import Json, answered

Text = str | None


class ErrorFields(TypedDict):
    """`code` is for programs, `message` for people, `param` names the field that is wrong."""

    message: str
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    code: Text
    param: Text


class Error(TypedDict):
    """A failure, as OpenAI's clients expect it."""

    error: ErrorFields


class DeepgramError(TypedDict):
    """A failure, as Deepgram's clients expect it."""

    err_code: str
    err_msg: str
    request_id: Annotated[str, Field(json_schema_extra={"format": "uuid"})]


class ElevenLabsDetail(TypedDict):
    """What failed."""

    status: str
    message: str
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    code: str
    param: Text


class ElevenLabsField(TypedDict):
    """A field that is wrong, and where it is."""

    loc: list[str]
    msg: str
    type: str


class ElevenLabsError(TypedDict):
    """A failure, as ElevenLabs' clients expect it."""

    detail: ElevenLabsDetail


class ElevenLabsInvalid(TypedDict):
    """Fields that are wrong, as ElevenLabs' clients expect it."""

    detail: list[ElevenLabsField]


@dataclass(frozen=True)
class Wire:
    """How one protocol tells failures. `renamed` are statuses that it tells as another one."""

    name: str
    error: Any
    invalid: Any = None
    """Of 422, where it has another form."""
    headers: tuple[str, ...] = ()
    renamed: tuple[tuple[int, int], ...] = ()


OPENAI = Wire("openai", Error)
DEEPGRAM = Wire("deepgram", DeepgramError, headers=("dg-error", "dg-request-id"), renamed=((404, 400), (426, 400)))
ELEVENLABS = Wire("elevenlabs", ElevenLabsError, ElevenLabsInvalid)

ANYWHERE = (403, 415)
"""A page of a foreign origin, and a packed body."""
WITH_KEYS = (401, 429)

MEANINGS = {
    400: "Something in the request is wrong; `param` says what, the message what to do.",
    401: "The API key is missing, wrong, expired or revoked.",
    403: "The key has not the scope that this needs, or the page that asks may not use this service.",
    404: "There is no such thing here.",
    405: "There is no such method here.",
    408: "The body did not come, or hardly: nothing for 30 s, or less than 2 KiB a second.",
    409: "Not in the state that it is in now.",
    410: "It was not continued in time.",
    412: "The request speaks another version of the protocol.",
    413: "Larger than a stated limit.",
    415: "The body is packed (`Content-Encoding`), or not of the type that is taken here.",
    416: "None of these bytes is there.",
    422: "A field of the body is wrong.",
    423: "Another request is writing to it.",
    426: "This is a WebSocket.",
    429: "Refused at once, because others have first claim or the key has used what it may; try again later.",
    460: "The bytes do not have the checksum that was sent.",
    500: "The service failed on this; its log says why.",
    501: "Not installed here, or not wanted.",
    503: "Loading, shutting down, or a part of it does not answer; try again later.",
    507: "There is no room for another file.",
}


def errors(wire: Wire, statuses: Sequence[int], *, keys: bool) -> Json:
    """The responses for these statuses, and for those that every route has."""
    renamed = dict(wire.renamed)
    every = {*statuses, *ANYWHERE, *(WITH_KEYS if keys else ())}
    return {str(status): _response(wire, status) for status in sorted({renamed.get(one, one) for one in every})}


def _response(wire: Wire, status: int) -> Json:
    shape = answered(wire.invalid if status == 422 and wire.invalid is not None else wire.error)
    headers: Json = {name: _header(name) for name in wire.headers}
    if status in (429, 503):
        retry = {"schema": {"type": "integer", "minimum": 1}, "required": True}
        headers["Retry-After"] = {"description": "Seconds after which to try again.", **retry}
    if status == 401:
        headers["WWW-Authenticate"] = _header("The scheme in which a key is sent.")
    if status == 405:
        headers["Allow"] = _header("The methods that there are.")
    found: Json = {"description": MEANINGS[status], "content": {"application/json": {"schema": shape}}}
    return found | ({"headers": headers} if headers else {})


def _header(description: str) -> Json:
    return {"description": description, "required": True, "schema": {"type": "string"}}
