"""What is asked of a model that draws, and what it gives: the same for pictures and clips. No torch here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workers.errors import InputInvalid, InputTooLarge

MOST_CHARACTERS, MOST_STEPS, MOST_SIDE, MOST_FRAMES, MOST_GUIDANCE, MOST_PREVIEWS = (
    10_000,
    1000,
    16_384,
    10_000,
    100,
    16,
)

Frames = NDArray[np.uint8]
"""(frames, height, width, 3), RGB; a picture is one frame."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One picture or clip. Raises InputInvalid, InputTooLarge when it cannot be right for any model.

    `width` and `height` in pixels. `guidance` 1 or less is none. `interval`: the share of the steps in which guidance
    is on, from start until before stop. The same `seed` gives the same picture. `exact`: without any option that may
    change the picture. `previews`: how many pictures on the way are wanted. `options` by name, over those that the
    model was started with: see `vision_text.denoise.options`.
    """

    prompt: str
    negative: str = ""
    width: int = 0
    height: int = 0
    frames: int = 1
    fps: float = 8.0
    steps: int = 50
    guidance: float = 3.5
    interval: tuple[float, float] = (0.0, 1.0)
    seed: int = 0
    exact: bool = False
    previews: int = 0
    options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_text(self.prompt, "prompt")
        _check_text(self.negative, "negative")
        if not self.prompt.strip():
            raise InputInvalid("prompt is empty; say what is to be drawn", param="prompt")
        for name, least, most in (
            ("width", 1, MOST_SIDE),
            ("height", 1, MOST_SIDE),
            ("frames", 1, MOST_FRAMES),
            ("steps", 1, MOST_STEPS),
            ("seed", 0, (1 << 63) - 1),
            ("previews", 0, MOST_PREVIEWS),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise InputInvalid(f"{name} is {_shown(value)}; give a whole number, {least} to {most}", param=name)
        for name, low, high in (("guidance", 0.0, float(MOST_GUIDANCE)), ("fps", 0.1, 240.0)):
            value = getattr(self, name)
            if not is_number(value) or not low <= value <= high:
                raise InputInvalid(f"{name} is {_shown(value)}; give a number, {low:g} to {high:g}", param=name)
        object.__setattr__(self, "interval", interval(self.interval, "interval"))
        if not isinstance(self.options, Mapping):
            raise InputInvalid("options are names with values", param="options")


def interval(value: object, param: str) -> tuple[float, float]:
    """(start, stop) with 0 <= start <= stop <= 1. Raises InputInvalid."""
    pair = tuple(value) if isinstance(value, tuple | list) else ()
    if len(pair) != 2 or not all(is_number(edge) for edge in pair) or not 0 <= pair[0] <= pair[1] <= 1:
        raise InputInvalid(
            f"{param} is {_shown(value)}; give start and stop, shares of the steps from 0 to 1", param=param
        )
    return float(pair[0]), float(pair[1])


def is_number(value: object) -> bool:
    """Finite, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_text(text: object, param: str) -> None:
    if not isinstance(text, str):
        raise InputInvalid(f"{param} is no text", param=param)
    if len(text) > MOST_CHARACTERS:
        raise InputTooLarge(f"{param} has {len(text):,} characters; at most {MOST_CHARACTERS:,}", param=param)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputInvalid(
            f"{param} is no text: the character at {error.start} is half of a pair", param=param
        ) from None


def _shown(value: object) -> str:
    return repr(value)[:40]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a model makes. `sizes`: (width, height) in pixels that it was made for; others that are multiples of
    `multiple` work as well as the model generalises. `max_frames` 1 is a model of pictures."""

    name: str
    revision: str
    sizes: tuple[tuple[int, int], ...]
    default_size: tuple[int, int]
    multiple: int
    default_steps: int
    max_steps: int
    default_guidance: float
    max_frames: int
    default_frames: int
    options: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Approximation:
    """How a picture was made. `evaluations`: how often the model was called for it, of both branches; `skipped`: how
    often less than with guidance at every step of the request; `cached_steps`: evaluations in which blocks were left
    out or guessed from those before. `options`: those that held, by name. `fallback` says why it was made again
    exactly; the evaluations of the first try are in `evaluations` too."""

    evaluations: int
    skipped: int
    cached_steps: int
    precision: str
    kernel: str
    options: dict[str, Any] = field(default_factory=dict)
    fallback: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """What the model makes of it after `step` of `steps`."""

    step: int
    steps: int
    frames: Frames


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """The end. `seconds` of the steps it was in, batch mates included."""

    frames: Frames
    seed: int
    seconds: float
    approximation: Approximation
