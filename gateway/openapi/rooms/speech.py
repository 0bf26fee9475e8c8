"""Speech from text: /v1/audio/speech, /v1/text/explain, and the socket /v1/speak."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from gateway.openapi.here import Here
from gateway.openapi.operation import Operation, Room, Socket, answer, body, described
from gateway.openapi.shapes import Json, answered
from gateway.speak.explain import ExplainRequest
from gateway.speak.handler import SUBPROTOCOL
from gateway.speak.request import FORMAT_OF_NAME, SpeechRequest
from gateway.speak.spec import MOST_WORDS
from speech.encode.formats import OutputFormat
from speech.text.explain import ExplainedToken, LeftOut

Character = Annotated[int, Field(ge=0)]

SPEECH = {
    "model": "The model of a voice, or one of OpenAI's names.",
    "input": "What is to be said.",
    "voice": 'A voice or an alias, also as `{"id": NAME}`; OpenAI\'s names stand for the default one.',
    "response_format": "`pcm` is 16-bit little-endian mono at the voice's own rate.",
    "speed": "A factor of the voice's own pace.",
    "instructions": "Accepted, without effect: the voices have one manner of speaking.",
    "stream_format": "`sse`: `speech.audio.delta` events with base64, then `speech.audio.done`.",
    "seed": "Another one is another take of the same text; the same one gives the same samples.",
}
EXPLAIN = {
    "input": "The text.",
    "voice": "Whose phonemes are told; the default voice's.",
    "policy": "What becomes of markdown, code and emoji.",
    "lexicon": "Words, and what is said for them.",
    "split": "Where it would be cut.",
}


class Cut(TypedDict):
    """What is spoken in one piece: the characters `start` to `end`."""

    start: Character
    end: Character
    text: str


class TextExplanation(TypedDict):
    """How a text is read: `spoken` is all that is said, as one line."""

    object: Literal["text.explanation"]
    text: str
    spoken: str
    voice: str
    tokens: list[ExplainedToken]
    removed: list[LeftOut]
    segments: list[Cut]


def room(here: Here) -> Room:
    """The routes."""
    voices = here.voice_names()
    named = {"type": "object", "properties": {"id": {"type": "string"} | voices}, "required": ["id"],
        "additionalProperties": False}  # fmt: skip
    speech = described(SpeechRequest, SPEECH, {
        "model": here.voice_models(),
        "voice": {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 256} | voices, named]}
        | dict.fromkeys(("type", "minLength", "maxLength")),
    }, nullable=True)  # fmt: skip
    asked = described(ExplainRequest, EXPLAIN, {"voice": {"enum": ["", *voices["enum"]]} if voices else {}})
    return Room(
        tag="Speech",
        about="A text in, its sound out as it is made, in OpenAI's form; and why a text is read as it is.",
        operations=[
            Operation(
                method="POST",
                path="/v1/audio/speech",
                id="createSpeech",
                tag="Speech",
                summary="Speak a text",
                description="Sound leaves in chunks as it is made, as fast as it is read; hanging up cancels. A "
                "failure after the first sound breaks the connection off, so that half a speech does not pass for a "
                "whole one.",
                body=body(speech, example={"model": "tts-1", "voice": "alloy", "input": "Hello there."}),
                answers={200: sounds("The sound, mono.")},
                fails=(400, 404, 408, 413, 429, 500, 503),
                curl="-H 'Content-Type: application/json' "
                '-d \'{"model": "tts-1", "voice": "alloy", "input": "Hello there."}\' -o hello.mp3',
            ),
            Operation(
                method="POST",
                path="/v1/text/explain",
                id="explainText",
                tag="Speech",
                summary="Explain how a text is read",
                description="What is said for which of its characters, by what rule, in which phonemes, what is left "
                f"out, and where it is cut. A lexicon has at most {MOST_WORDS} words.",
                body=body(asked, example={"input": "Dr. Smith paid $3.50 on 10/12/2019."}),
                answers={200: answer("The explanation.", answered(TextExplanation))},
                fails=(400, 408, 413, 500, 503),
                curl="-H 'Content-Type: application/json' -d '{\"input\": \"Dr. Smith paid $3.50 on 10/12/2019.\"}'",
            ),
        ],
        sockets=[
            Socket(
                path="/v1/speak",
                name="Speechlane: speech as text is written",
                summary="Text in pieces, many speeches on one socket, the time of every word, cancelling with what was "
                "spoken and what was not.",
                guide="speak.md",
                subprotocols=[SUBPROTOCOL],
            )
        ],
    )


def sounds(description: str) -> Json:
    """A response in any of the forms that the route can give."""
    media = {OutputFormat(name, 24_000).media_type.partition(";")[0] for name in FORMAT_OF_NAME.values()}
    found: Json = {"description": description}
    found["content"] = {name: {"schema": {"type": "string", "format": "binary"}} for name in sorted(media)}
    found["content"]["text/event-stream"] = {}
    return found
