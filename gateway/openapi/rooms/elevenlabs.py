"""ElevenLabs' routes: speech from text, and voices."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

from gateway.elevenlabs.formats import NAMES, named_format
from gateway.elevenlabs.http import SpeechBody
from gateway.elevenlabs.options import THEIR_MODELS, Query
from gateway.elevenlabs.routes import SPEECH
from gateway.openapi.errors import ELEVENLABS
from gateway.openapi.here import Here, or_like
from gateway.openapi.operation import Operation, Room, Socket, answer, body, described, in_path, in_query, query_of
from gateway.openapi.shapes import Json, answered

QUERY = {
    "output_format": "Codec, rate and bit rate; the last is part of the name alone.",
    "model_id": "The model of the voice; names that begin with `eleven_` stand for it.",
    "language_code": "One that the voice speaks.",
    "seed": "Another one is another take of the same text.",
}
BODY = {
    "text": "What is to be said.",
    "voice_settings": "Only `speed` has an effect.",
    "seed": "Goes before that of the query.",
    "model_id": "Goes before that of the query.",
    "language_code": "Goes before that of the query.",
    "pronunciation_dictionary_locators": "There are none here: refused unless empty.",
}
TAG = "ElevenLabs"


class ElevenLabsVoice(TypedDict):
    """A voice, as ElevenLabs' clients read it."""

    voice_id: str
    name: str
    category: Literal["premade"]
    description: str
    labels: dict[str, str]
    samples: None
    preview_url: None
    settings: dict[str, float]
    available_for_tiers: list[str]
    high_quality_base_model_ids: list[str]


class ElevenLabsVoices(TypedDict):
    """All on one page."""

    voices: list[ElevenLabsVoice]
    has_more: Literal[False]
    total_count: int
    next_page_token: None


class Alignment(TypedDict):
    """When each character of the text is heard, in seconds from the beginning of the sound."""

    characters: list[str]
    character_start_times_seconds: list[float]
    character_end_times_seconds: list[float]


class SpeechWithTimestamps(TypedDict):
    """Sound in base64, and its characters."""

    audio_base64: str
    alignment: Alignment | None
    normalized_alignment: Alignment | None


def room(here: Here) -> Room:
    """The routes."""
    voice = in_path("voice_id", "A voice or an alias.", **here.voice_names())
    nothing: Json = {"anyOf": None, "type": "array", "maxItems": 0}
    query = query_of(Query, QUERY, {"output_format": {"enum": [*NAMES]}, **_narrowed(here)})
    asked = described(
        SpeechBody, BODY, {**_narrowed(here), "pronunciation_dictionary_locators": nothing}, nullable=True
    )

    def speech(path: str, id: str, summary: str, response: Json, text: str = "") -> Operation:
        return Operation(
            method="POST", path=path, id=id, tag=TAG, summary=summary, description=text, wire=ELEVENLABS,
            parameters=[voice, *query], body=body(asked, example={"text": "Hello there."}), answers={200: response},
            fails=(400, 404, 408, 413, 422, 429, 500, 503),
            at=path.replace("{voice_id}", "heart"),
            curl="-H 'Content-Type: application/json' -d '{\"text\": \"Hello there.\"}' -o hello",
        )  # fmt: skip

    return Room(
        tag=TAG,
        about="Clients of ElevenLabs can use this service as it is. Errors have the form that they know: `detail`.",
        operations=[
            speech(SPEECH, "elevenlabsSpeech", "Speak a text", _sounds()),
            speech(f"{SPEECH}/stream", "elevenlabsSpeechStream", "Speak a text, in pieces", _sounds(),
                "The same: sound always leaves as it is made."),
            speech(f"{SPEECH}/with-timestamps", "elevenlabsTimed", "Speak a text, with the time of every character",
                answer("Sound and times.", answered(SpeechWithTimestamps))),
            speech(f"{SPEECH}/stream/with-timestamps", "elevenlabsTimedStream",
                "Speak a text in pieces, with the time of every character", _lines(),
                "One JSON object a line."),
            Operation(
                method="GET", path="/v1/voices/{voice_id}", id="elevenlabsVoice", tag=TAG, summary="Look at one voice",
                wire=ELEVENLABS, parameters=[voice], answers={200: answer("The voice.", answered(ElevenLabsVoice))},
                fails=(404, 503), at="/v1/voices/heart",
            ),
            Operation(
                method="GET", path="/v2/voices", id="elevenlabsVoices", tag=TAG, summary="Search the voices",
                wire=ELEVENLABS, parameters=[in_query("search", "Part of a name or description.")],
                answers={200: answer("Those that were found.", answered(ElevenLabsVoices))}, fails=(503,),
                at="/v2/voices?search=heart",
            ),
        ],
        sockets=[
            Socket(
                path=f"{SPEECH}/stream-input", name="ElevenLabs: one stream of speech", guide="protocols.md",
                summary="Text in pieces, sound in base64 with the time of every character.",
                parameters=[voice, *query],
            ),
            Socket(
                path=f"{SPEECH}/multi-stream-input", name="ElevenLabs: several streams", guide="protocols.md",
                summary="Up to five contexts on one socket.", parameters=[voice, *query],
            ),
        ],
    )  # fmt: skip


def _narrowed(here: Here) -> dict[str, Json]:
    """What only those values have that are loaded here."""
    spoken = sorted({code for voice in here.voices for code in voice.languages})
    theirs = "|".join(f"{name}.{{0,100}}" for name in THEIR_MODELS)
    found = {"model_id": {"anyOf": None, "type": "string", **or_like(here.voice_models(), theirs)}}
    if spoken:
        found["language_code"] = {"anyOf": None, "type": "string", "enum": ["", *spoken]}
    return found


def _media() -> list[str]:
    return sorted({named_format(name).media_type.partition(";")[0] for name in NAMES})


def _sounds() -> Json:
    content: dict[str, Any] = {name: {"schema": {"type": "string", "format": "binary"}} for name in _media()}
    return {"description": "The sound, mono, in chunks as it is made.", "content": content}


def _lines() -> Json:
    return {"description": "Sound and times, an object a line.", "content": {"application/json": {}}}
