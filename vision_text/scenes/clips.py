"""Clips of one coloured ball that moves: the words for them, the drawing, and the checker.

A clip is square. The ball crosses its middle in a straight line at an even pace, in one of four directions, slowly or
quickly. How large the ball is, and how far beside the middle its line lies, the words leave open: a model chooses.

The checker decides from pixels, by measure and comparison; no model has a part. In every frame there has to be one
round ball of one known colour, the same in all; its middles, frame after frame, give direction and pace. A ball that
is missing in one frame, jumps, turns back or drifts to the side is wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vision_text.scenes.pictures import COLOURS, GROUND, NEAR, OF_ONE_COLOUR, STANDS_OUT, distance

Frames = NDArray[np.uint8]
"""(frames, height, width, 3), RGB."""
Reals = NDArray[np.floating[Any]]

DIRECTIONS: dict[str, tuple[int, int]] = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
"""As (x, y); y grows downwards."""
PACES: dict[str, float] = {"slowly": 0.22, "quickly": 0.5}
"""Way from the first frame's middle to the last one's, share of the side."""
WORDS = ("a", "ball", "moves", *COLOURS, *DIRECTIONS, *PACES)
"""All words that prompts are made of."""
SIZE = 24
"""Pixels of a side that the small model makes."""
FRAMES = 8
"""Frames that the small model makes."""
FPS = 8
"""Frames per second at which they are meant to be shown."""

RADIUS = (0.15, 0.18)
"""Of a ball, shares of the side."""
OFFSET = 0.05
"""How far from the clip's middle the middle of the way may lie along each axis, share of the side."""
HELD_OUT = 0.2
"""Share of the combinations that no model is trained on."""
AREA = (0.035, 0.16)
"""Share of a frame that has to stand out: a ball of the smallest radius covers 0.07, one of the largest 0.10."""
ROUND = 0.8
"""Overlap over union with a disc of the same area at the same middle: two balls or a smear have less."""
WAY = (0.12, 0.36, 0.64)
"""Shares of the side: less is no movement, from the first to the second is slow, from there to the third quick."""
ASTRAY = 0.08
"""How far a frame's middle may lie from the straight and even line through all of them, share of the side."""
_PALETTE = np.array([GROUND, *COLOURS.values()], np.float32)


@dataclass(frozen=True, slots=True)
class Scene:
    """What the words say, and what they leave open: `offset` (x, y) of the way's middle and `radius`, shares of side.

    Two scenes are equal when their words are. Raises ValueError for other words.
    """

    colour: str
    direction: str
    pace: str
    offset: tuple[float, float] = field(default=(0.0, 0.0), compare=False)
    radius: float = field(default=sum(RADIUS) / 2, compare=False)

    def __post_init__(self) -> None:
        if self.colour not in COLOURS or self.direction not in DIRECTIONS or self.pace not in PACES:
            raise ValueError(f"no such ball: {self.colour} {self.direction} {self.pace}")

    @property
    def held_out(self) -> bool:
        """Whether the combination is kept from training: decided by the sha256 of its words."""
        digest = hashlib.sha256(prompt(self).encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64 < HELD_OUT


@dataclass(frozen=True, slots=True)
class Seen:
    """What is in a clip; None for what is none of those known. `whole`: one round ball in every frame."""

    whole: bool
    colour: str | None
    direction: str | None
    pace: str | None


@dataclass(frozen=True, slots=True)
class Checked:
    """A clip against its scene."""

    whole: bool
    colour_right: bool
    direction_right: bool
    pace_right: bool

    @property
    def all_right(self) -> bool:
        return self.whole and self.colour_right and self.direction_right and self.pace_right


def prompt(scene: Scene) -> str:
    """As "a red ball moves left slowly"."""
    return f"a {scene.colour} ball moves {scene.direction} {scene.pace}"


def parse(text: str) -> Scene:
    """The scene of a prompt, its way through the middle. Raises ValueError for other words."""
    match text.lower().split():
        case ["a", colour, "ball", "moves", direction, pace]:
            return Scene(colour, direction, pace)
    raise ValueError(f"not a ball that moves: {text.strip()[:100]!r}")


def combinations() -> Iterator[Scene]:
    """All that words can say, once each."""
    for colour, direction, pace in product(COLOURS, DIRECTIONS, PACES):
        yield Scene(colour, direction, pace)


def random_scene(rng: np.random.Generator, *, held_out: bool | None = None) -> Scene:
    """`held_out` asks for those kept from training or not."""
    while True:
        x, y = rng.uniform(-OFFSET, OFFSET, 2)
        scene = Scene(
            str(rng.choice(list(COLOURS))),
            str(rng.choice(list(DIRECTIONS))),
            str(rng.choice(list(PACES))),
            (float(x), float(y)),
            float(rng.uniform(*RADIUS)),
        )
        if held_out is None or scene.held_out == held_out:
            return scene


def draw(scene: Scene, size: int = SIZE, frames: int = FRAMES) -> Frames:
    """(frames, size, size, 3); edges are antialiased."""
    middle = (np.arange(size, dtype=np.float32) + 0.5) / size
    share = (np.linspace(-0.5, 0.5, frames) * PACES[scene.pace]).astype(np.float32)
    to = DIRECTIONS[scene.direction]
    x = middle[None, :] - (0.5 + scene.offset[0] + to[0] * share)[:, None]
    y = middle[None, :] - (0.5 + scene.offset[1] + to[1] * share)[:, None]
    away = distance("circle", x[:, None, :], y[:, :, None], scene.radius)
    cover = np.clip(0.5 - away * size, 0, 1)[..., None]
    ground = np.asarray(GROUND, np.float32)
    clip = ground + cover * (np.asarray(COLOURS[scene.colour], np.float32) - ground)
    drawn: Frames = (clip + 0.5).astype(np.uint8)
    return drawn


def check(frames: Frames, scene: Scene) -> Checked:
    """`frames` as for `see`."""
    seen = see(frames)
    return Checked(seen.whole, seen.colour == scene.colour, seen.direction == scene.direction, seen.pace == scene.pace)


def see(frames: Frames) -> Seen:
    """Of a clip (frames, height, width, 3), uint8, square, 16 pixels and 3 frames at least. Raises ValueError."""
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3:
        raise ValueError(f"a clip is uint8 (frames, height, width, 3), this is {frames.dtype} {frames.shape}")
    if frames.shape[1] != frames.shape[2] or frames.shape[1] < 16 or frames.shape[0] < 3:
        raise ValueError(f"a clip of a ball is square, 16 pixels and 3 frames at least; this is {frames.shape[:3]}")
    found = [_see(frame) for frame in frames.astype(np.float32)]
    balls = [ball for ball in found if ball is not None]
    colours = {ball.colour for ball in balls}
    colour = colours.pop() if len(colours) == 1 else None
    if len(balls) < len(found):  # where it is not, it cannot be said whither it moves
        return Seen(False, colour, None, None)
    direction, pace = _movement(np.array([ball.middle for ball in balls]))
    return Seen(all(ball.round for ball in balls), colour, direction, pace)


@dataclass(frozen=True, slots=True)
class _Ball:
    middle: tuple[float, float]
    colour: str | None
    round: bool


def _see(frame: Reals) -> _Ball | None:
    """None where too little or too much stands out from the ground."""
    size = len(frame)
    out = np.linalg.norm(frame - _PALETTE[0], axis=-1) > STANDS_OUT
    if not AREA[0] <= out.mean() <= AREA[1]:
        return None
    pixels = frame[_within(out)]
    median = np.median(pixels, axis=0)
    away = np.linalg.norm(_PALETTE[1:] - median, axis=-1)
    nearest = int(away.argmin())
    of_it = np.linalg.norm(pixels[:, None] - _PALETTE[None], axis=-1).argmin(-1) == nearest + 1
    colour = tuple(COLOURS)[nearest] if away[nearest] <= NEAR and of_it.mean() >= OF_ONE_COLOUR else None
    way = median - _PALETTE[0]
    cover = np.clip((frame - _PALETTE[0]) @ way / float(way @ way), 0, 1)
    cover = np.where(cover > 0.12, cover, 0)
    total = float(cover.sum())
    at = (np.arange(size, dtype=np.float32) + 0.5) / size
    x, y = float((cover.sum(0) * at).sum()) / total, float((cover.sum(1) * at).sum()) / total
    radius = float(np.sqrt(total / size**2 / np.pi))
    disc = np.clip(0.5 - distance("circle", (at - x)[None, :], (at - y)[:, None], radius) * size, 0, 1)
    overlap = float(np.minimum(cover, disc).sum() / np.maximum(cover, disc).sum())
    return _Ball((x, y), colour, overlap >= ROUND)


def _within(out: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Without the edge, whose pixels are blends; all of it where there is nothing but edge."""
    inner = np.pad(out, 1)
    inner = out & inner[:-2, 1:-1] & inner[2:, 1:-1] & inner[1:-1, :-2] & inner[1:-1, 2:]
    return inner if inner.any() else out


def _movement(middles: Reals) -> tuple[str | None, str | None]:
    """Direction and pace of (frames, 2) middles: the line that lies nearest to them, and whether they keep to it."""
    time = np.linspace(-0.5, 0.5, len(middles))
    slope = (time @ (middles - middles.mean(0))) / (time @ time)
    line = middles.mean(0) + time[:, None] * slope
    axis = int(np.abs(slope).argmax())
    way, aside = float(abs(slope[axis])), float(abs(slope[1 - axis]))
    if way < WAY[0] or aside > way / 2 or np.abs(middles - line).max() > ASTRAY:
        return None, None
    to = [0, 0]
    to[axis] = 1 if slope[axis] > 0 else -1
    direction = next(name for name, step in DIRECTIONS.items() if list(step) == to)
    pace = "slowly" if way < WAY[1] else "quickly" if way <= WAY[2] else None
    return direction, pace
