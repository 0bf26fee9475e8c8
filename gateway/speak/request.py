"""The body of POST /v1/audio/speech, checked: every refusal names its field."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from aiohttp import web
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    InstanceOf,
    StringConstraints,
    ValidationError,
)
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from gateway.speak.fields import FieldInvalid, json_object, mended, refusal
from gateway.uploads import UploadStalled
from speech.encode.formats import Name
from workers.errors import InputTooLarge

Model = TypeVar("Model", bound=BaseModel)

MOST_INPUT = 4096
"""Characters of one request, as OpenAI has it."""
BODY_BYTES = 1024 * 1024
"""A body with as much input as is taken, every character an escaped pair, is 50 KiB; the rest is for instructions."""
BODY_SECONDS = 30.0

FORMAT_OF_NAME: dict[str, Name] = {
    "mp3": "mp3",
    "opus": "opus",
    "aac": "aac",
    "flac": "flac",
    "wav": "wav",
    "pcm": "pcm16",
}


@dataclass(frozen=True)
class Length:
    """Bounds a text of any characters, halves of surrogate pairs too, which pydantic would not take as a str."""

    least: int
    most: int
    remedy: str = ""

    def check(self, text: str) -> str:
        """The text. Raises what pydantic makes an error of the field."""
        if len(text) < self.least:
            raise ValueError(f"{self.least} to {self.most} characters")
        if len(text) > self.most:
            told = f"at most {self.most} characters, not {len(text)}{self.remedy}"
            raise PydanticCustomError("string_above_max_length", told)
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "minLength": self.least, "maxLength": self.most}


def _named(value: object) -> object:
    """A voice may be named by its id in an object."""
    if isinstance(value, dict):
        if set(value) != {"id"}:
            raise ValueError('the name of a voice, or {"id": name}')
        return value["id"]
    return value


class SpeechRequest(BaseModel):
    """What a client wants spoken."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    model: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    input: Annotated[InstanceOf[str], Length(1, MOST_INPUT, "; split it, or stream it to /v1/speak")]
    voice: Annotated[str, StringConstraints(min_length=1, max_length=256), BeforeValidator(_named)]
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    instructions: str | None = None
    """Accepted; the voices here have one manner of speaking."""
    stream_format: Literal["audio", "sse"] = "audio"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Ours: another one is another take of the same text."""


async def read_object(request: web.Request, text: str = "input") -> dict[str, Any]:
    """The JSON object of a body of bounded size, in which the field `text` is taken as it is.

    Raises `FieldInvalid`, `InputTooLarge`, `UploadStalled`.
    """
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _body(request, text)
    except TimeoutError:
        raise UploadStalled(f"The body did not come within {BODY_SECONDS:g} s.") from None
    try:
        source = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FieldInvalid(f"The body is not UTF-8: byte {error.start} is wrong.", code="invalid_json") from None
    found = json_object(source)
    given = found.pop(text, None)
    return {**mended(found, source), **({} if given is None else {text: given})}


async def _body(request: web.Request, text: str) -> bytes:
    body = bytearray()
    async for block in request.content.iter_chunked(64 * 1024):
        body += block
        if len(body) > BODY_BYTES:
            raise InputTooLarge(f"The body is larger than {BODY_BYTES} bytes; send less {text} at once.", param=text)
    return bytes(body)


async def read_request(request: web.Request) -> SpeechRequest:
    """The request. Raises `FieldInvalid`, `InputTooLarge`."""
    fields = await read_object(request)
    return checked(SpeechRequest, {name: value for name, value in fields.items() if value is not None})


def checked(model: type[Model], fields: dict[str, Any]) -> Model:
    """The model made of the fields. Raises `FieldInvalid`."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise refusal(error.errors(include_url=False, include_input=False)[0]) from None
