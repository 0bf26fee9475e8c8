"""POST /v1/audio/transcriptions."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from gateway.openapi.here import Here
from gateway.openapi.operation import Operation, Room, answer, body, size
from gateway.openapi.shapes import Json, answered
from gateway.transcription_request import FORMATS, GRANULARITIES, STREAMED
from gateway.uploads import FIELD_BYTES, MAX_PARTS

Seconds = Annotated[float, Field(ge=0)]


class Duration(TypedDict):
    """What was used: the seconds of audio."""

    type: Literal["duration"]
    seconds: Seconds


class TokenLogprob(TypedDict):
    """A token, its bytes, and how sure the model was of it."""

    token: str
    bytes: list[Annotated[int, Field(ge=0, le=255)]]
    logprob: float


class LanguageCode(TypedDict):
    """A language that was heard."""

    code: str


class Transcript(TypedDict):
    """response_format `json`."""

    text: str
    languages: list[LanguageCode]
    usage: Duration
    logprobs: NotRequired[list[TokenLogprob]]


class TranscriptionWord(TypedDict):
    """A word and when it was said."""

    word: str
    start: Seconds
    end: Seconds


class TranscriptionSegment(TypedDict):
    """A stretch of speech. `seek` counts feature frames of 10 ms."""

    id: int
    seek: int
    start: Seconds
    end: Seconds
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


class VerboseTranscription(TypedDict):
    """response_format `verbose_json`. `language` is its English name."""

    task: Literal["transcribe"]
    language: str
    duration: Seconds
    text: str
    usage: Duration
    segments: NotRequired[list[TranscriptionSegment]]
    words: NotRequired[list[TranscriptionWord]]


def room(here: Here) -> Room:
    """The route."""
    most = here.settings.max_upload_bytes
    return Room(
        tag="Transcription",
        about="A recording in, its text out, in OpenAI's formats. Errors have OpenAI's form.",
        operations=[
            Operation(
                method="POST",
                path="/v1/audio/transcriptions",
                id="createTranscription",
                tag="Transcription",
                summary="Transcribe a recording",
                description="WAV, FLAC, MP3, M4A, Ogg and WebM are read, also the sound of videos. With `stream` the "
                f"text comes as server-sent events while it is made. Files up to {size(most)} and "
                f"{here.settings.max_audio_seconds:g} s; longer ones are for `POST /v1/batch/jobs`. A form has at most "
                f"{MAX_PARTS} parts.",
                body=body(_form(here), "multipart/form-data"),
                answers={200: _answer()},
                fails=(400, 404, 408, 413, 429, 500, 503),
                curl="-F model=whisper-1 -F file=@talk.wav",
            )
        ],
    )


def _form(here: Here) -> Json:
    fields: Json = {
        "file": {"type": "string", "format": "binary", "description": "The recording."},
        "model": here.model_names() | _text("A model that is loaded, or one of its aliases; else the default one."),
        "language": here.languages() | _text("What is spoken, as ISO-639-1 code, with a region if you like (en-GB), or "
            "as English name; else it is found."),
        "prompt": {"maxLength": FIELD_BYTES} | _text("What was said before the recording."),
        "keywords": _list({"type": "string"}, "Words to expect."),
        "response_format": _text("The form of the answer.") | {"enum": [*FORMATS], "default": "json"},
        "temperature": {"type": "number", "minimum": 0, "maximum": 1, "default": 0,
            "description": "0 begins greedy and becomes warmer where that fails."},
        "timestamp_granularities[]": _list({"type": "string", "enum": [*GRANULARITIES]},
            "Times of what, with `verbose_json`; segments unless said otherwise."),
        "include[]": _list({"type": "string", "enum": ["logprobs"]}, "How sure the model was, with `json`."),
        "stream": {"type": "boolean", "default": False,
            "description": "Events while it is made, with `json` or `text`."},
        "chunking_strategy": _text("Cut at silences, which is always so.") | {"enum": ["auto"]},
    }  # fmt: skip
    return {
        "type": "object",
        "properties": fields,
        "required": ["file"],
        "additionalProperties": False,
        "anyOf": [_form_of(name) for name in FORMATS],
    }


def _form_of(name: str) -> Json:
    """What may be asked for in one of the formats."""
    chosen: Json = {"response_format": {"const": name}}
    if name not in STREAMED:
        chosen["stream"] = {"const": False}
    if name != "verbose_json":
        chosen["timestamp_granularities[]"] = {"maxItems": 0}
    if name != "json":
        chosen["include[]"] = {"maxItems": 0}
    return {"title": name, "properties": chosen} | ({} if name == "json" else {"required": ["response_format"]})


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


def _list(items: Json, description: str, **more: Any) -> Json:
    return {"type": "array", "items": items, "description": description} | more


def _answer() -> Json:
    found = answer("The transcript.", {"anyOf": [answered(Transcript), answered(VerboseTranscription)]})
    found["content"] |= {
        "text/plain": {"schema": {"type": "string"}},
        "application/x-subrip": {"schema": {"type": "string"}},
        "text/vtt": {"schema": {"type": "string"}},
        "text/event-stream": {
            "schema": {
                "description": "`transcript.text.delta` with `delta`, at last `transcript.text.done` with `text`; what "
                "fails on the way is an event with `error`.",
            }
        },
    }
    return found
