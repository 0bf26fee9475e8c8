"""Which models and voices are loaded."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from gateway.openapi.here import Here
from gateway.openapi.operation import Operation, Room, answer, in_path
from gateway.openapi.rooms.elevenlabs import ElevenLabsVoice
from gateway.openapi.shapes import answered


class Model(TypedDict):
    """A model that is loaded. `created` is when the service started, in seconds since 1970. One that listens has
    `languages`, one for embeddings `dimensions` of its vectors, `sizes` that they may be cut to, and `max_tokens`.
    One that sees or draws may be `loaded` by the first request for it only."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: Literal["speechlane"]
    task: str
    aliases: list[str]
    languages: NotRequired[list[str]]
    dimensions: NotRequired[int]
    sizes: NotRequired[list[int]]
    max_tokens: NotRequired[int]
    pictures: NotRequired[bool]
    loaded: NotRequired[bool]


class Models(TypedDict):
    """All that are loaded."""

    object: Literal["list"]
    data: list[Model]


class Voice(TypedDict):
    """A voice that is loaded. `rate` in Hz; `exact`: it sounds the same however it is streamed."""

    id: str
    object: Literal["voice"]
    model: str
    languages: list[str]
    rate: Annotated[int, Field(ge=8000, le=48_000)]
    exact: bool
    aliases: list[str]
    description: str


class Voices(TypedDict):
    """All that are loaded, the default one first; `voices` has them as ElevenLabs' clients read them."""

    object: Literal["list"]
    data: list[Voice]
    voices: list[ElevenLabsVoice]


def room(here: Here) -> Room:
    """The routes."""
    return Room(
        tag="Models and voices",
        about="What can be named in requests. Nothing is loaded by asking for it.",
        operations=[
            Operation(
                method="GET",
                path="/v1/models",
                id="listModels",
                tag="Models and voices",
                summary="List the models that are loaded",
                answers={200: answer("The models.", answered(Models))},
                fails=(503,),
            ),
            Operation(
                method="GET",
                path="/v1/models/{model}",
                id="getModel",
                tag="Models and voices",
                summary="Look at one model",
                parameters=[in_path("model", "Its name or an alias.", **here.all_model_names())],
                answers={200: answer("The model, under the name that was asked for.", answered(Model))},
                fails=(404, 503),
                at="/v1/models/whisper-1",
            ),
            Operation(
                method="GET",
                path="/v1/voices",
                id="listVoices",
                tag="Models and voices",
                summary="List the voices that are loaded",
                answers={200: answer("The voices.", answered(Voices))},
                fails=(503,),
            ),
        ],
    )
