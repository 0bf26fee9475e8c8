"""The body of POST /v1/audio/speech, checked: every refusal names its field."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from gateway.speak.fields import FieldInvalid, json_object, mended, refusal
from speech.encode.formats import Name
from workers.errors import InputTooLarge

Model = TypeVar("Model", bound=BaseModel)

MOST_INPUT = 4096
"""Characters of one request, as OpenAI has it."""
BODY_BYTES = 1024 * 1024
"""A body with as much input as is taken, every character an escaped pair, is 50 KiB; the rest is for instructions."""

FORMAT_OF_NAME: dict[str, Name] = {
    "mp3": "mp3",
    "opus": "opus",
    "aac": "aac",
    "flac": "flac",
    "wav": "wav",
    "pcm": "pcm16",
}


class VoiceRef(BaseModel):
    """A voice by its id, the other way in which clients may name it."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    id: Annotated[str, StringConstraints(min_length=1, max_length=256)]


class SpeechRequest(BaseModel):
    """What a client wants spoken."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    model: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    input: Annotated[str, StringConstraints(min_length=1)]
    voice: Annotated[str, StringConstraints(min_length=1, max_length=256)] | VoiceRef
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    instructions: str | None = None
    """Accepted; the voices here have one manner of speaking."""
    stream_format: Literal["audio", "sse"] = "audio"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Ours: another one is another take of the same text."""

    @property
    def voice_name(self) -> str:
        """Whichever way it was named."""
        return self.voice.id if isinstance(self.voice, VoiceRef) else self.voice


async def read_object(request: web.Request) -> dict[str, object]:
    """The JSON object of a body of bounded size. Raises `FieldInvalid`, `InputTooLarge`."""
    body = bytearray()
    async for block in request.content.iter_chunked(64 * 1024):
        body += block
        if len(body) > BODY_BYTES:
            raise InputTooLarge(f"The body is larger than {BODY_BYTES} bytes; send less input at once.", param="input")
    try:
        source = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FieldInvalid(f"The body is not UTF-8: byte {error.start} is wrong.", code="invalid_json") from None
    found: dict[str, object] = mended(json_object(source), source)
    return found


async def read_request(request: web.Request) -> SpeechRequest:
    """The request. Raises `FieldInvalid`, `InputTooLarge`."""
    fields = await read_object(request)
    given = fields.get("input")
    if isinstance(given, str) and len(given) > MOST_INPUT:
        raise FieldInvalid(
            f"input has {len(given)} characters and can have {MOST_INPUT}; split it, or stream it to /v1/speak.",
            code="string_above_max_length",
            param="input",
        )
    return checked(SpeechRequest, {name: value for name, value in fields.items() if value is not None})


def checked(model: type[Model], fields: dict[str, object]) -> Model:
    """The model made of the fields. Raises `FieldInvalid`."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise refusal(error.errors(include_url=False, include_input=False)[0]) from None
