"""Fields that requests for pictures and clips share."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf

from gateway.speak.request import Length
from vision_text.denoise.request import MOST_CHARACTERS, MOST_GUIDANCE, MOST_STEPS
from workers.errors import InputInvalid

MOST_SIDE = 8192
MOST_OPTIONS = 32

_SIZE = re.compile(r"(\d{1,5})\s*[xX×]\s*(\d{1,5})")


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("a text with something in it")
    return text


def _listed(value: object) -> object:
    """JSON has lists where there are pairs."""
    return tuple(value) if isinstance(value, list) else value


def _ordered(interval: tuple[float, float]) -> tuple[float, float]:
    if interval[0] > interval[1]:
        raise ValueError("[start, stop] with start not behind stop")
    return interval


def _few(options: dict[str, Any]) -> dict[str, Any]:
    if len(options) > MOST_OPTIONS:
        raise ValueError(f"at most {MOST_OPTIONS} options")
    return options


Prompt = Annotated[InstanceOf[str], Length(1, MOST_CHARACTERS, "; say it shorter"), AfterValidator(_not_blank)]
Negative = Annotated[InstanceOf[str], Length(0, MOST_CHARACTERS, "; say it shorter")]
Seed = Annotated[int, Field(ge=0, lt=2**53)]
Steps = Annotated[int, Field(ge=1, le=MOST_STEPS)]
Guidance = Annotated[float, Field(ge=0, le=MOST_GUIDANCE)]
Share = Annotated[float, Field(ge=0, le=1)]
Interval = Annotated[tuple[Share, Share], BeforeValidator(_listed), AfterValidator(_ordered)]
Options = Annotated[dict[Annotated[str, Field(max_length=64)], Any], AfterValidator(_few)]


class Drawing(BaseModel):
    """What is asked of pictures and clips alike; None: as the model has it by itself. Ours, but for the prompt."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    prompt: Prompt
    negative_prompt: Negative = ""
    seed: Seed | None = None
    steps: Steps | None = None
    guidance: Guidance | None = None
    interval: Interval = (0.0, 1.0)
    """Part of the steps that are guided, from and until."""
    exact: bool = False
    """Without any approximation, whatever the service is set to."""
    options: Options = Field(default_factory=dict)


def sides(size: str | None, default: tuple[int, int]) -> tuple[int, int]:
    """Width and height of "WIDTHxHEIGHT"; of "auto" or nothing the model's own. Raises InputInvalid."""
    if size is None or size == "auto":
        return default
    found = _SIZE.fullmatch(size.strip())
    if found is None:
        raise InputInvalid(f"size is {size[:40]!r} but should be WIDTHxHEIGHT, as in 24x24, or auto.", param="size")
    width, height = int(found[1]), int(found[2])
    if not (1 <= width <= MOST_SIDE and 1 <= height <= MOST_SIDE):
        raise InputInvalid(f"size is {size[:40]!r}; each side has 1 to {MOST_SIDE} pixels.", param="size")
    return width, height
