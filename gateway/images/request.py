"""The body of POST /v1/images/generations, checked: every refusal names its field."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from gateway.vision.fields import Drawing
from vision_text.media.encode import PictureFormat

MOST_IMAGES = 10
MOST_PARTIAL = 3


class ImageRequest(Drawing):
    """What a client wants drawn."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    n: Annotated[int, Field(ge=1, le=MOST_IMAGES)] = 1
    size: Annotated[str, StringConstraints(max_length=32)] = "auto"
    response_format: Literal["b64_json", "url"] = "b64_json"
    """A URL is a data URL: nothing is kept here that could be fetched later."""
    output_format: PictureFormat = "png"
    output_compression: Annotated[int, Field(ge=0, le=100)] = 100
    stream: bool = False
    partial_images: Annotated[int, Field(ge=0, le=MOST_PARTIAL)] = 0
    background: Literal["auto", "opaque"] = "auto"
    lane: Literal["interactive", "bulk"] = "interactive"
    """Ours."""

    quality: Any = None
    style: Any = None
    moderation: Any = None
    user: Any = None
    """Taken, and of no consequence."""
