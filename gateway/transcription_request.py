"""The text fields of POST /v1/audio/transcriptions, checked: every refusal names its field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, cast, get_args

from gateway.languages import language_code
from speech.asr import DecodeOptions
from workers.errors import InputInvalid

ResponseFormat = Literal["json", "text", "srt", "vtt", "verbose_json"]
FORMATS = get_args(ResponseFormat)
GRANULARITIES = ("segment", "word")
STREAMED: tuple[ResponseFormat, ...] = ("json", "text")

Fields = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class TranscriptionRequest:
    """What a client wants of its file."""

    model: str | None
    options: DecodeOptions
    response_format: ResponseFormat
    granularities: frozenset[str]
    stream: bool
    logprobs: bool

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        """From the form's text fields; raises `InputInvalid` with the field's name."""
        left = dict(fields)
        response_format = _choice(left, "response_format", FORMATS, "json")
        granularities = _choices(left, "timestamp_granularities", GRANULARITIES)
        if granularities and response_format != "verbose_json":
            raise InputInvalid(
                "timestamp_granularities needs response_format verbose_json.", param="timestamp_granularities"
            )
        logprobs = bool(_choices(left, "include", ("logprobs",)))
        if logprobs and response_format != "json":
            raise InputInvalid("include logprobs needs response_format json.", param="include")
        stream = _choice(left, "stream", ("true", "false"), "false") == "true"
        if stream and response_format not in STREAMED:
            raise InputInvalid("stream needs response_format json or text.", param="stream")
        if _one(left, "chunking_strategy") not in (None, "", "auto"):
            raise InputInvalid("chunking_strategy can only be auto.", param="chunking_strategy")
        temperature = _temperature(left)
        options = DecodeOptions(
            language=_language(left),
            prompt=_one(left, "prompt") or "",
            keywords=tuple(word for word in left.pop("keywords", []) if word.strip()),
            # Like Whisper: 0 starts greedy and falls back to warmer; anything else is taken as it is.
            temperatures=(temperature,) if temperature else DecodeOptions().temperatures,
        )
        request = cls(
            model=_one(left, "model") or None,
            options=options,
            response_format=cast(ResponseFormat, response_format),
            granularities=granularities or frozenset({"segment"}),
            stream=stream,
            logprobs=logprobs,
        )
        if left:
            name = next(iter(left))
            raise InputInvalid(f"There is no field {name} here; leave it out.", param=name)
        return request


def _one(fields: Fields, name: str) -> str | None:
    values = fields.pop(name, [])
    if len(values) > 1:
        raise InputInvalid(f"{name} was sent {len(values)} times; send it once.", param=name)
    return values[0] if values else None


def _choice(fields: Fields, name: str, allowed: tuple[str, ...], default: str) -> str:
    value = _one(fields, name) or default
    if value not in allowed:
        raise InputInvalid(f"{name} is {value[:60]!r} but can be {', '.join(allowed)}.", param=name)
    return value


def _choices(fields: Fields, name: str, allowed: tuple[str, ...]) -> frozenset[str]:
    values = fields.pop(name, [])
    for value in values:
        if value not in allowed:
            raise InputInvalid(f"{name} holds {value[:60]!r} but can hold {', '.join(allowed)}.", param=name)
    return frozenset(values)


def _temperature(fields: Fields) -> float:
    text = _one(fields, "temperature") or "0"
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise InputInvalid(f"temperature is {text[:60]!r} but must be a number from 0 to 1.", param="temperature")
    return value


def _language(fields: Fields) -> str | None:
    listed = fields.pop("languages", [])
    if len(listed) > 1:
        raise InputInvalid("languages takes one language; leave it out to have it detected.", param="languages")
    name = "languages" if listed else "language"
    given = listed[0] if listed else _one(fields, "language")
    if not given:
        return None
    code = language_code(given)
    if code is None:
        raise InputInvalid(f"{name} is {given[:60]!r}; give an ISO-639-1 code such as en, de or fr.", param=name)
    return code
