"""The body of POST /v1/videos, JSON or a form as OpenAI's clients send it, checked: every refusal names its field."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError
from pydantic import BeforeValidator, Field, StringConstraints

from gateway.speak.fields import FieldInvalid
from gateway.speak.request import checked
from gateway.uploads import patience
from gateway.vision.body import TEXT_BYTES, read_object
from gateway.vision.fields import Drawing
from workers.errors import InputInvalid, InputTooLarge

MOST_SECONDS = 600.0
MOST_FRAMES = 4096
MOST_PREVIEWS = 8
MOST_PARTS = 32
_JSON = ("seed", "steps", "guidance", "interval", "exact", "options", "fps", "frames", "previews")
"""Fields of a form that are not text: they are written as in JSON."""


def _number(value: object) -> object:
    """OpenAI's clients send the seconds as text."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise ValueError("a number of seconds") from None
    return value


class VideoRequest(Drawing):
    """What a client wants filmed."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    size: Annotated[str, StringConstraints(max_length=32)] = "auto"
    seconds: Annotated[float, BeforeValidator(_number), Field(gt=0, le=MOST_SECONDS)] | None = None
    frames: Annotated[int, Field(ge=1, le=MOST_FRAMES)] | None = None
    """Ours, in place of `seconds`."""
    fps: Annotated[float, Field(gt=0, le=120)] | None = None
    """Ours."""
    previews: Annotated[int, Field(ge=0, le=MOST_PREVIEWS)] = 0
    """Ours: how often an event tells what it looks like so far."""
    lane: Literal["interactive", "bulk"] = "bulk"
    """Ours."""
    user: Any = None
    """Taken, and of no consequence."""


async def read_request(request: web.Request) -> VideoRequest:
    """Raises `FieldInvalid`, `InputInvalid`, `InputTooLarge`, `UploadStalled`."""
    if request.content_type == "multipart/form-data":
        fields = await _form(request)
    else:
        fields = await read_object(request, TEXT_BYTES, "send a shorter prompt")
    asked = checked(VideoRequest, fields)
    if asked.seconds is not None and asked.frames is not None:
        raise InputInvalid("seconds and frames say the same; send one of them.", param="frames")
    return asked


async def _form(request: web.Request) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    async with patience() as progress:
        try:
            reader = await request.multipart()
            size = 0
            while (part := await reader.next()) is not None:
                if not isinstance(part, BodyPartReader) or not part.name:
                    raise InputInvalid("Every part of the form needs a name, and parts cannot be nested.")
                name = part.name[:100]
                if part.filename is not None:
                    raise InputInvalid(f"{name} is a file; videos are made from a text alone here.", param=name)
                value = bytearray()
                while chunk := await part.read_chunk(64 * 1024):
                    progress.made(len(chunk))
                    size += len(chunk)
                    value += chunk
                    if size > TEXT_BYTES:
                        raise InputTooLarge(f"The form is larger than {TEXT_BYTES} bytes; send a shorter prompt.")
                if name in fields or len(fields) >= MOST_PARTS:
                    raise InputInvalid(f"{name} was sent more than once, or there are too many fields.", param=name)
                fields[name] = _value(name, bytes(value))
        except (ValueError, RuntimeError, AssertionError, HttpProcessingError, web.RequestPayloadError) as error:
            raise InputInvalid(f"The multipart form is malformed: {str(error)[:200]}") from error
    return fields


def _value(name: str, data: bytes) -> Any:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputInvalid(f"{name} is not UTF-8 text.", param=name) from None
    if name not in _JSON:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise FieldInvalid(f"{name} should be written as in JSON.", code="invalid_value", param=name) from None
