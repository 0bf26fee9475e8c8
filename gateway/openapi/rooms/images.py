"""Pictures made of texts."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from gateway.images.request import ImageRequest
from gateway.openapi.here import Here
from gateway.openapi.operation import Operation, Room, answer, body, described
from gateway.openapi.shapes import Json, answered
from vision_text.denoise.request import MOST_CHARACTERS

TAG = "Images"
JSON_TYPE = "-H 'Content-Type: application/json'"
EXAMPLE: Json = {"prompt": "a red circle top left", "seed": 1}

DRAWING = {
    "prompt": "What is to be seen.",
    "negative_prompt": "What is not.",
    "seed": "The same one, the same picture. The second picture of a request has the next one, and so on.",
    "steps": "Of denoising; else the model's own number.",
    "guidance": "How closely the prompt is followed; 0: not at all beyond what the model does by itself.",
    "interval": "Part of the steps that are guided, [start, stop) from 0 to 1.",
    "exact": "Without any approximation.",
    "options": "Approximations by name.",
}
FIELDS = DRAWING | {
    "model": "A model that draws, or one of OpenAI's names; else the default one.",
    "n": "So many pictures.",
    "size": "`WIDTHxHEIGHT`, or `auto`.",
    "response_format": "`url` is a data URL; nothing is kept here.",
    "output_format": "Of the file.",
    "output_compression": "Quality of JPEG and WebP; 100 is without loss in WebP.",
    "stream": "Server-sent events.",
    "partial_images": "How often a stream tells what the picture looks like so far.",
    "background": "It is opaque.",
    "lane": "`bulk` waits for whatever else there is to do.",
    **dict.fromkeys(("quality", "style", "moderation", "user"), "Taken, without effect."),
}


class Image(TypedDict):
    """A file, in base64 or as a data URL."""

    b64_json: NotRequired[str]
    url: NotRequired[str]


class ImageNotes(TypedDict):
    """How a picture was made: evaluations run and skipped, cached steps, precision, kernel, options, and why it was
    made again exactly, if it was."""

    seed: int
    seconds: float
    approximation: dict[str, Any]


class ImagesNotes(TypedDict):
    """How the pictures were made, in their order."""

    model: str
    images: list[ImageNotes]


class Images(TypedDict):
    """Pictures, in the order of their seeds."""

    created: int
    data: list[Image]
    background: Literal["opaque"]
    output_format: Literal["png", "jpeg", "webp"]
    size: str
    speechlane: ImagesNotes


def size_field() -> Json:
    """Of pictures and clips."""
    return {"pattern": r"^(auto|\d{1,4}x\d{1,4})$"}


def drawing_fields() -> dict[str, Json]:
    """What pydantic's own schema does not say of the fields that pictures and clips share."""
    share: Json = {"type": "number", "minimum": 0, "maximum": 1}
    return {
        "prompt": {"type": "string", "minLength": 1, "maxLength": MOST_CHARACTERS, "pattern": "\\S"},
        "negative_prompt": {"type": "string", "maxLength": MOST_CHARACTERS},
        "interval": {"type": "array", "items": share, "prefixItems": None, "minItems": 2, "maxItems": 2},
        "size": size_field(),
    }


def room(here: Here) -> Room:
    """The routes."""
    whole = answer("The pictures.", answered(Images))
    whole["content"]["text/event-stream"] = {
        "schema": {"description": "`image_generation.partial_image` and `image_generation.completed`, with `index`; an "
            "error is the last event."}
    }  # fmt: skip
    wanted = described(ImageRequest, FIELDS, drawing_fields() | {"model": here.image_names()}, nullable=True)
    return Room(
        tag=TAG,
        about="Pictures made of texts, in OpenAI's form. Every answer says how it was made, approximations included.",
        operations=[
            Operation(
                method="POST", path="/v1/images/generations", id="createImage", tag=TAG, summary="Make pictures",
                body=body(wanted, example=EXAMPLE), answers={200: whole},
                fails=(400, 404, 408, 413, 429, 500, 501, 503),
                curl=f'{JSON_TYPE} -d \'{{"prompt": "a red circle top left"}}\'',
            ),
        ],
    )  # fmt: skip
