"""The text fields of POST /v1/audio/transcriptions, checked: every refusal names its field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, cast, get_args

from gateway.fields import Fields, choice, choices, language, nothing_else, number, one
from speech.asr import DecodeOptions
from workers.errors import InputInvalid

ResponseFormat = Literal["json", "text", "srt", "vtt", "verbose_json"]
FORMATS = get_args(ResponseFormat)
GRANULARITIES = ("segment", "word")
STREAMED: tuple[ResponseFormat, ...] = ("json", "text")


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
        response_format = choice(left, "response_format", FORMATS, "json")
        granularities = choices(left, "timestamp_granularities", GRANULARITIES)
        if granularities and response_format != "verbose_json":
            raise InputInvalid(
                "timestamp_granularities needs response_format verbose_json.", param="timestamp_granularities"
            )
        logprobs = bool(choices(left, "include", ("logprobs",)))
        if logprobs and response_format != "json":
            raise InputInvalid("include logprobs needs response_format json.", param="include")
        stream = choice(left, "stream", ("true", "false"), "false") == "true"
        if stream and response_format not in STREAMED:
            raise InputInvalid("stream needs response_format json or text.", param="stream")
        if one(left, "chunking_strategy") not in (None, "", "auto"):
            raise InputInvalid("chunking_strategy can only be auto.", param="chunking_strategy")
        temperature = number(left, "temperature", 0.0, 1.0, 0.0)
        options = DecodeOptions(
            language=language(left),
            prompt=one(left, "prompt") or "",
            keywords=tuple(word for word in left.pop("keywords", []) if word.strip()),
            # Like Whisper: 0 starts greedy and falls back to warmer; anything else is taken as it is.
            temperatures=(temperature,) if temperature else DecodeOptions().temperatures,
        )
        request = cls(
            model=one(left, "model") or None,
            options=options,
            response_format=cast(ResponseFormat, response_format),
            granularities=granularities or frozenset({"segment"}),
            stream=stream,
            logprobs=logprobs,
        )
        nothing_else(left)
        return request
