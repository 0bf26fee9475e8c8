"""Pictures as OpenAI's clients read them; how each was made is under `speechlane`."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gateway.images.request import ImageRequest

if TYPE_CHECKING:
    from vision_text.denoise.request import Made, Preview

Json = dict[str, Any]


def generated(asked: ImageRequest, model: str, made: Sequence[Made], files: Sequence[bytes]) -> bytes:
    """The whole answer."""
    data = []
    for file in files:
        packed = base64.b64encode(file).decode()
        if asked.response_format == "url":
            data.append({"url": f"data:image/{asked.output_format};base64,{packed}"})
        else:
            data.append({"b64_json": packed})
    body = {
        "created": int(time.time()),
        "data": data,
        "background": "opaque",
        "output_format": asked.output_format,
        "size": size_of(made[0]),
        "speechlane": {"model": model, "images": [notes(one) for one in made]},
    }
    return json.dumps(body).encode()


def partial(asked: ImageRequest, n: int, count: int, preview: Preview, file: bytes) -> Json:
    """A picture that is not yet done; `index` says which of several."""
    return _event(asked, "image_generation.partial_image", n, preview, file) | {
        "partial_image_index": count,
        "speechlane": {"step": preview.step, "steps": preview.steps},
    }


def completed(asked: ImageRequest, model: str, n: int, made: Made, file: bytes) -> Json:
    """One that is done."""
    return _event(asked, "image_generation.completed", n, made, file) | {"speechlane": {"model": model, **notes(made)}}


def notes(made: Made) -> Json:
    """How a picture was made."""
    return {"seed": made.seed, "seconds": round(made.seconds, 4), "approximation": made.approximation.as_dict()}


def size_of(made: Made | Preview) -> str:
    """As WIDTHxHEIGHT."""
    return f"{made.frames.shape[2]}x{made.frames.shape[1]}"


def _event(asked: ImageRequest, kind: str, n: int, found: Made | Preview, file: bytes) -> Json:
    return {
        "type": kind,
        "index": n,
        "b64_json": base64.b64encode(file).decode(),
        "created_at": int(time.time()),
        "background": "opaque",
        "output_format": asked.output_format,
        "quality": "auto",
        "size": size_of(found),
    }
