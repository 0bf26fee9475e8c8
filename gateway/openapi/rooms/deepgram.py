"""Deepgram's /v1/listen: recordings by POST, live sound on a socket."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from gateway.deepgram.errors import PATH
from gateway.deepgram.handler import SUBPROTOCOLS
from gateway.deepgram.options import LONGEST_SILENCE, MOST_CHANNELS, REFUSED, THEIR_MODELS, Query
from gateway.openapi.errors import DEEPGRAM
from gateway.openapi.here import Here, or_like
from gateway.openapi.operation import Operation, Room, Socket, answer, body, header, query_of
from gateway.openapi.shapes import Json, answered

TAG = "Deepgram"
Seconds = Annotated[float, Field(ge=0)]

BOTH = {
    "model": "A model that is loaded; Deepgram's names (`nova-3`…) stand for the default one.",
    "language": "A code such as `en` or `en-US`; `multi` lets the model find it.",
    "encoding": "Of raw sound, with `sample_rate` and `channels`; else it comes in a container.",
    "sample_rate": "Hz.",
    "channels": "Of raw sound.",
    "multichannel": f"Each channel apart, up to {MOST_CHANNELS}.",
    "keyterm": "Words to expect.",
    "keywords": "Words to expect; of a boost behind a colon only the sign counts.",
    "punctuate": "As the model writes it, and `punctuated_word`.",
    "smart_format": "The same, and paragraphs.",
    "tag": "Given back.",
    "extra": "Given back.",
}
RECORDED = BOTH | {
    "detect_language": "Tell which it was.",
    "paragraphs": "Sentences and paragraphs.",
    "utterances": "Stretches without a pause.",
    "utt_split": "Seconds of such a pause.",
}
LIVE = BOTH | {
    "interim_results": "The words so far, once a second of speech.",
    "utterance_end_ms": "`UtteranceEnd` comes so long after the last word.",
    "vad_events": "`SpeechStarted`.",
    "endpointing": "Milliseconds of silence that end an utterance, or false.",
}


class DeepgramWord(TypedDict):
    """A word and when it was said, in seconds."""

    word: str
    start: Seconds
    end: Seconds
    confidence: float
    punctuated_word: NotRequired[str]


class DeepgramSentence(TypedDict):
    """A sentence and when it was said."""

    text: str
    start: Seconds
    end: Seconds


class DeepgramParagraph(TypedDict):
    """Sentences together."""

    sentences: list[DeepgramSentence]
    num_words: int
    start: Seconds
    end: Seconds


class DeepgramParagraphs(TypedDict):
    """All of them."""

    transcript: str
    paragraphs: list[DeepgramParagraph]


class DeepgramReading(TypedDict):
    """What was heard."""

    transcript: str
    confidence: float
    words: list[DeepgramWord]
    paragraphs: NotRequired[DeepgramParagraphs]


class DeepgramChannel(TypedDict):
    """A channel, with the one reading that there is."""

    alternatives: list[DeepgramReading]
    detected_language: NotRequired[str]


class DeepgramUtterance(TypedDict):
    """A stretch of a channel without a pause."""

    start: Seconds
    end: Seconds
    channel: int
    id: str
    transcript: str
    confidence: float
    words: list[DeepgramWord]


class DeepgramResults(TypedDict):
    """What was heard in each channel."""

    channels: list[DeepgramChannel]
    utterances: NotRequired[list[DeepgramUtterance]]


class DeepgramMetadata(TypedDict):
    """Of the recording and how it was heard."""

    transaction_key: str
    request_id: str
    sha256: str
    created: str
    duration: Seconds
    channels: int
    models: list[str]
    model_info: dict[str, dict[str, str]]
    tags: NotRequired[list[str]]
    extra: NotRequired[list[str]]


class DeepgramTranscript(TypedDict):
    """The answer to a recording."""

    metadata: DeepgramMetadata
    results: DeepgramResults


def room(here: Here) -> Room:
    """The routes."""
    ids = {"dg-request-id": header("The request's id.")}
    refused = ", ".join(f"`{name}`" for name in REFUSED)
    sound: Json = {"schema": {"type": "string", "format": "binary"}}
    content: dict[str, Any] = body(None)
    content["content"] = {"application/octet-stream": sound, "audio/*": sound, "video/*": sound}
    return Room(
        tag=TAG,
        about="Clients of Deepgram can use this service as it is. Errors have the form that they know: `err_code`.",
        operations=[
            Operation(
                method="POST",
                path=PATH,
                id="deepgramListen",
                tag=TAG,
                summary="Transcribe a recording",
                description=f"The body is the recording; no URL is opened. {refused} are refused unless false; other "
                "parameters of Deepgram have no effect.",
                parameters=_query(here, RECORDED),
                body=content,
                answers={200: answer("What was heard.", answered(DeepgramTranscript), headers=ids)},
                fails=(400, 408, 413, 429, 500, 503),
                wire=DEEPGRAM,
                at=f"'{PATH}?smart_format=true'",
                curl="-H 'Content-Type: audio/wav' --data-binary @talk.wav",
            )
        ],
        sockets=[
            Socket(
                path=PATH,
                name="Deepgram: live",
                summary="Sound in binary frames, `Results` while it is spoken; `Finalize`, `KeepAlive`, `CloseStream`.",
                guide="protocols.md",
                subprotocols=SUBPROTOCOLS,
                parameters=_query(here, LIVE),
            )
        ],
    )


def _query(here: Here, about: dict[str, str]) -> list[Json]:
    changes: dict[str, Json] = {}
    pause = {"anyOf": [{"type": "number", "minimum": 0, "maximum": LONGEST_SILENCE * 1000}, {"const": False}]}
    languages = here.languages()
    changes["model"] = or_like(here.model_names(), f"({'|'.join(THEIR_MODELS)})(-.{{0,100}})?|base-.{{0,100}}")
    if languages:
        changes["language"] = {"enum": ["", *languages["enum"], "multi"]}
    if "endpointing" in about:
        changes["endpointing"] = pause
    return query_of(Query, about, changes)
