"""From the fields of a request to what a model that draws is asked for."""

from __future__ import annotations

import secrets
from typing import Any

from gateway.vision.fields import Drawing, sides
from gateway.vision.names import on_the_wire
from vision_text.denoise.request import Asked
from workers.errors import InputInvalid, ServingError

SEED_BITS = 31


def new_seed() -> int:
    """For a request that names none; the answer says it."""
    return secrets.randbits(SEED_BITS)


def asked_of(info: Any, drawing: Drawing, size: str | None, seed: int, **more: Any) -> Asked:
    """What the model with this `info` is asked. Raises InputInvalid, which names the field as it is on the wire."""
    width, height = sides(size, info.default_size)
    steps = drawing.steps if drawing.steps is not None else info.default_steps
    if steps > info.max_steps:
        raise InputInvalid(f"steps is {steps} and can be 1 to {info.max_steps} for this model.", param="steps")
    guidance = drawing.guidance if drawing.guidance is not None else info.default_guidance
    try:
        return Asked(
            prompt=drawing.prompt,
            negative=drawing.negative_prompt,
            width=width,
            height=height,
            steps=steps,
            guidance=guidance,
            interval=drawing.interval,
            seed=seed,
            exact=drawing.exact,
            options=drawing.options,
            **more,
        )
    except ServingError as error:
        raise on_the_wire(error) from None
