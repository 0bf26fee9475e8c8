"""What is asked of a model that sees, and what it answers. Pictures and clips are decoded already, or only measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workers.errors import InputInvalid, InputTooLarge

ROLES = ("system", "user", "assistant")
MOST_TURNS, MOST_CHARACTERS, MOST_MEDIA, MOST_STOPS, LONGEST_STOP = 256, 1_000_000, 64, 4, 256


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """`pixels` uint8 (height, width, 3), RGB."""

    pixels: NDArray[np.uint8]

    @property
    def size(self) -> tuple[int, int]:
        """(width, height)."""
        return self.pixels.shape[1], self.pixels.shape[0]


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """`frames` uint8 (frames, height, width, 3), RGB, already sampled: `fps` is what is left of them a second.
    `times` in seconds from the clip's start; without them they are evenly spaced by `fps`."""

    frames: NDArray[np.uint8]
    fps: float
    times: tuple[float, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        return self.frames.shape[2], self.frames.shape[1]

    @property
    def moments(self) -> tuple[float, ...]:
        """Seconds of each frame."""
        return self.times or tuple(n / self.fps for n in range(len(self.frames)))


@dataclass(frozen=True, slots=True)
class Unopened:
    """A picture (`seconds` 0) or a clip whose size is known and whose pixels are not decoded yet. For `plan` only."""

    width: int
    height: int
    seconds: float = 0.0
    fps: float = 0.0


Part = str | Picture | Clip | Unopened


@dataclass(frozen=True, slots=True)
class Turn:
    """`role`: system, user or assistant. Parts keep their order."""

    role: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class VisualBudget:
    """How much is looked at; None: as the model does by itself. `tokens_per_image` and `max_pixels` of a picture or a
    frame, `frames` and `fps` of a clip; each is a most."""

    tokens_per_image: int | None = None
    max_pixels: int | None = None
    frames: int | None = None
    fps: float | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is None:
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 < value < 1e9 or (one.name != "fps" and value != int(value)):
                raise InputInvalid(
                    f"{one.name} of the visual budget is {str(value)[:40]}; give a number above 0, or leave it out",
                    param=f"budget.{one.name}",
                )

    def within(self, cap: VisualBudget | None) -> VisualBudget:
        """The smaller of the two, field by field: what is asked for never exceeds the cap."""
        if cap is None:
            return self
        least = {}
        for one in fields(self):
            both = [value for value in (getattr(self, one.name), getattr(cap, one.name)) if value is not None]
            least[one.name] = min(both) if both else None
        return replace(self, **least)


@dataclass(frozen=True, slots=True)
class ChatAsked:
    """`temperature` 0 is greedy. The same `seed` gives the same text; None lets one be chosen. `tenant` salts every
    cache key, so that nobody learns from a fast answer what another has sent. `exact`: without any option that may
    change the answer. `options`: see `vision_text.vlm.options`; over those the Seer was started with."""

    messages: tuple[Turn, ...]
    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    budget: VisualBudget | None = None
    exact: bool = False
    tenant: str = ""
    options: Mapping[str, object] = field(default_factory=dict)

    def check(self) -> None:
        """Raises InputInvalid, InputTooLarge."""
        if not self.messages:
            raise InputInvalid("messages is empty; give at least one", param="messages")
        if len(self.messages) > MOST_TURNS:
            raise InputTooLarge(f"messages has {len(self.messages)} turns; at most {MOST_TURNS}", param="messages")
        media = characters = 0
        for n, turn in enumerate(self.messages):
            if turn.role not in ROLES:
                known = ", ".join(ROLES)
                raise InputInvalid(f"role is {str(turn.role)[:40]!r}; it can be {known}", param=f"messages[{n}].role")
            for m, part in enumerate(turn.parts):
                where = f"messages[{n}].content[{m}]"
                if isinstance(part, str):
                    characters += len(part)
                    _check_text(part, where)
                else:
                    media += 1
                    _check_media(part, where)
        if characters > MOST_CHARACTERS:
            raise InputTooLarge(
                f"messages has {characters:,} characters; at most {MOST_CHARACTERS:,}", param="messages"
            )
        if media > MOST_MEDIA:
            raise InputTooLarge(f"messages has {media} pictures and clips; at most {MOST_MEDIA}", param="messages")
        if not any(part if isinstance(part, str) else True for turn in self.messages for part in turn.parts):
            raise InputInvalid("messages has nothing in it; write a text or send a picture", param="messages")
        self._check_numbers()

    def _check_numbers(self) -> None:
        whole = isinstance(self.max_tokens, int) and not isinstance(self.max_tokens, bool)
        if not whole or self.max_tokens < 1:
            raise InputInvalid("max_tokens is a whole number above 0", param="max_tokens")
        for name, least, most in (("temperature", 0.0, 2.0), ("top_p", 0.0, 1.0)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
                raise InputInvalid(f"{name} is a number from {least:g} to {most:g}", param=name)
        if self.top_p == 0:
            raise InputInvalid("top_p is above 0; for the likeliest token give temperature 0", param="top_p")
        if len(self.stop) > MOST_STOPS or not all(
            isinstance(one, str) and 0 < len(one) <= LONGEST_STOP for one in self.stop
        ):
            raise InputInvalid(f"stop is up to {MOST_STOPS} texts of 1 to {LONGEST_STOP} characters", param="stop")
        if self.seed is not None and (not isinstance(self.seed, int) or not -(1 << 63) <= self.seed < 1 << 63):
            raise InputInvalid("seed is a whole number of 64 bits", param="seed")


def _check_text(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputInvalid(
            f"{where} is no text: the character at {error.start} is half of a pair", param=where
        ) from None


def _check_media(part: object, where: str) -> None:
    if isinstance(part, Unopened):
        if part.width < 1 or part.height < 1 or not 0 <= part.seconds < float("inf"):
            raise InputInvalid(f"{where} has no size", param=where)
        return
    if isinstance(part, Picture):
        array, dimensions = part.pixels, 3
    elif isinstance(part, Clip):
        array, dimensions = part.frames, 4
        if not 0 < part.fps < float("inf"):
            raise InputInvalid(f"{where} has {part.fps} frames a second; give how many it has", param=where)
        if part.times and len(part.times) != len(array):
            raise InputInvalid(f"{where} has {len(array)} frames and {len(part.times)} times", param=where)
    else:
        raise InputInvalid(f"{where} is neither text nor a picture nor a clip", param=where)
    if array.dtype != np.uint8 or array.ndim != dimensions or array.shape[-1] != 3 or 0 in array.shape:
        raise InputInvalid(f"{where} is no uint8 RGB with at least one pixel", param=where)


@dataclass(frozen=True, slots=True)
class Planned:
    """What is looked at of one picture or clip: `width` x `height` pixels as the model gets them, `tokens` in all.
    Of a clip `times` are the seconds at which frames are to be taken, before anything is decoded."""

    kind: str
    width: int
    height: int
    tokens: int
    frames: int = 1
    fps: float = 0.0
    times: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class VisualPlan:
    """`media` in the order of the request; `budget` the one that holds, after the cap."""

    visual_tokens: int
    media: tuple[Planned, ...]
    budget: VisualBudget


@dataclass(frozen=True, slots=True)
class Approximation:
    """How the answer was made. `kv` and `kv_bytes` (of this request's cache at its end), `kv_bytes_fp16` what the same
    cache takes in half precision; `cached_tokens` of the prompt that were not computed; `proposed` and `accepted`
    tokens of speculation, which never changes the text; `fallback` says why it was made again exactly."""

    precision: str
    kernel: str
    kv: str
    kv_bytes: int
    kv_bytes_fp16: int
    cached_tokens: int
    proposed: int
    accepted: int
    speculative: str
    visual_tokens: int
    frames: int
    seed: int
    budget: dict[str, Any]
    options: dict[str, Any]
    exact: bool
    fallback: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the text; whole characters only."""

    text: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The end. `text` is all deltas together; `finish_reason` "stop" or "length"; `prompt_tokens` include the visual
    ones, which `visual_tokens` tells apart, and `cached_tokens`, which were not computed again."""

    text: str
    finish_reason: str
    prompt_tokens: int
    visual_tokens: int
    cached_tokens: int
    completion_tokens: int
    seconds_to_first: float
    approximation: Approximation
