"""Pictures of one or two coloured shapes: the words for them, the drawing, and the checker.

A picture is square and cut into four quarters; a quarter holds one object or none. The words name shape, colour and
quarter. Where exactly in its quarter an object lies and how large it is, the words leave open: a model has to choose.

The checker decides from pixels, by measure and comparison; no model has a part. Each quarter is looked at alone: how
much of it stands out from the ground, which colour that is, and which of the shapes, drawn with the same area at the
same middle, covers it best. A blurred or two-coloured object is of no kind, so what is roughly right is not right.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
"""(height, width, 3), RGB."""
Reals = NDArray[np.floating[Any]]

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (222, 48, 48),
    "green": (48, 184, 72),
    "blue": (56, 96, 232),
    "yellow": (240, 208, 48),
    "white": (240, 240, 240),
}
SHAPES = ("circle", "square", "triangle")
PLACES: dict[str, tuple[float, float]] = {
    "top left": (0.25, 0.25),
    "top right": (0.75, 0.25),
    "bottom left": (0.25, 0.75),
    "bottom right": (0.75, 0.75),
}
"""Middle of the quarter as (x, y), shares of the picture's side, from the upper left corner."""
GROUND = (24, 24, 32)
WORDS = ("a", ",", *COLOURS, *SHAPES, "top", "bottom", "left", "right")
"""All words that prompts are made of."""
SIZE = 48
"""Pixels of a side that the small model draws."""

RADIUS = (0.140, 0.172)
"""Of an object, shares of the side."""
OFFSET = 0.028
"""How far from the middle of its quarter an object may lie along each axis, share of the side."""
HELD_OUT = 0.2
"""Share of the combinations that no model is trained on."""
STANDS_OUT = 90.0
"""Distance in RGB from the ground that counts as an object: more than half way to blue, a quarter to white."""
OCCUPIED = 0.06
"""Share of a quarter that has to stand out; the smallest object covers 0.24."""
OF_ONE_COLOUR = 0.75
"""Share of an object, without its edge, that has to be nearest to its colour."""
NEAR = 64.0
"""Distance in RGB that the middle of an object may have from its colour; two colours are 161 apart at least."""
COVERED = 0.87
"""Overlap over union with the drawn shape. Drawn objects have 0.92 and more, a circle taken as a square 0.84."""

_HALF_SQUARE, _RISE, _HALF_BASE = 0.89, 2.55, 1.25
"""Half a square's side, a triangle's height and half its base, for a radius of 1."""
AREAS = {"circle": float(np.pi), "square": (2 * _HALF_SQUARE) ** 2, "triangle": _RISE * _HALF_BASE}
"""Of shapes of radius 1."""
_PALETTE = np.array([GROUND, *COLOURS.values()], np.float32)


@dataclass(frozen=True, slots=True)
class Object:
    """One thing in a picture. `offset` (x, y) from the middle of its quarter and `radius` are shares of the side."""

    colour: str
    shape: str
    place: str
    offset: tuple[float, float] = (0.0, 0.0)
    radius: float = 0.156


@dataclass(frozen=True, slots=True)
class Scene:
    """One or two objects in different quarters, in the order in which the words name them."""

    objects: tuple[Object, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.objects) <= 2 or len({one.place for one in self.objects}) != len(self.objects):
            raise ValueError("a scene has one or two objects, each in a quarter of its own")
        for one in self.objects:
            if one.colour not in COLOURS or one.shape not in SHAPES or one.place not in PLACES:
                raise ValueError(f"no such object: {one.colour} {one.shape} {one.place}")

    @property
    def held_out(self) -> bool:
        """Whether the combination, in whichever order it is told, is kept from training: decided by its sha256."""
        told = ", ".join(sorted(_words(one) for one in self.objects))
        return int.from_bytes(hashlib.sha256(told.encode()).digest()[:8], "big") / 2**64 < HELD_OUT


@dataclass(frozen=True, slots=True)
class Seen:
    """What is in a quarter; None for a colour or a shape that is none of those known."""

    place: str
    colour: str | None
    shape: str | None


@dataclass(frozen=True, slots=True)
class Checked:
    """A picture against its scene. Places: exactly the quarters that are told hold an object."""

    colours_right: bool
    shapes_right: bool
    places_right: bool

    @property
    def all_right(self) -> bool:
        return self.colours_right and self.shapes_right and self.places_right


def prompt(scene: Scene) -> str:
    """As "a red circle top left, a blue square bottom right"."""
    return ", ".join(_words(one) for one in scene.objects)


def parse(text: str) -> Scene:
    """The scene of a prompt, its objects in the middle of their quarters. Raises ValueError for other words."""
    objects = []
    for part in text.lower().split(","):
        match part.split():
            case ["a", colour, shape, vertical, horizontal]:
                objects.append(Object(colour, shape, f"{vertical} {horizontal}"))
            case _:
                raise ValueError(f"not an object of a scene: {part.strip()[:100]!r}")
    return Scene(tuple(objects))


def random_scene(rng: np.random.Generator, *, held_out: bool | None = None) -> Scene:
    """One object in a fifth of the scenes, two in the others; `held_out` asks for those kept from training or not."""
    while True:
        count = 1 if rng.random() < 0.2 else 2
        places = rng.choice(list(PLACES), size=count, replace=False)
        scene = Scene(tuple(_random_object(rng, str(place)) for place in places))
        if held_out is None or scene.held_out == held_out:
            return scene


def combinations_of(count: int) -> Iterator[Scene]:
    """All scenes of so many objects, once each, objects in the middle of their quarters."""
    kinds = list(product(COLOURS, SHAPES))
    for places in combinations(PLACES, count):
        for chosen in product(kinds, repeat=count):
            yield Scene(tuple(Object(*kind, place) for kind, place in zip(chosen, places, strict=True)))


def draw(scene: Scene, size: int = SIZE) -> Picture:
    """(size, size, 3); edges are antialiased."""
    middle = (np.arange(size, dtype=np.float32) + 0.5) / size
    picture = np.empty((size, size, 3), np.float32)
    picture[:] = GROUND
    for one in scene.objects:
        at = PLACES[one.place]
        x, y = middle - (at[0] + one.offset[0]), middle - (at[1] + one.offset[1])
        if one.shape == "triangle":  # its middle here is that of its height, so that its tip stays in the quarter
            y = y - _RISE * one.radius / 6
        cover = np.clip(0.5 - distance(one.shape, x[None, :], y[:, None], one.radius) * size, 0, 1)[..., None]
        picture += cover * (np.asarray(COLOURS[one.colour], np.float32) - picture)
    return (picture + 0.5).astype(np.uint8)


def check(picture: Picture, scene: Scene) -> Checked:
    """An object that is missing has neither the right colour nor the right shape. `picture` as for `see`."""
    seen = {one.place: one for one in see(picture)}
    there = [(told, seen.get(told.place)) for told in scene.objects]
    return Checked(
        colours_right=all(found is not None and found.colour == told.colour for told, found in there),
        shapes_right=all(found is not None and found.shape == told.shape for told, found in there),
        places_right=seen.keys() == {told.place for told in scene.objects},
    )


def see(picture: Picture) -> tuple[Seen, ...]:
    """The objects of a picture (height, width, 3), uint8, square, of at least 16 pixels. Raises ValueError."""
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise ValueError(f"a picture is uint8 (height, width, 3), this is {picture.dtype} {picture.shape}")
    if picture.shape[0] != picture.shape[1] or picture.shape[0] < 16:
        raise ValueError(f"a picture of a scene is square, of at least 16 pixels; this is {picture.shape[:2]}")
    found = []
    half = picture.shape[0] / 2
    for place, (x, y) in PLACES.items():
        left, top = round((x - 0.25) * 2 * half), round((y - 0.25) * 2 * half)
        quarter = picture[top : top + int(half), left : left + int(half)].astype(np.float32)
        if (one := _see(quarter, place)) is not None:
            found.append(one)
    return tuple(found)


def distance(shape: str, x: Reals, y: Reals, radius: float) -> Reals:
    """From points to a shape's edge, negative within, shares of the side, with the shape's centroid at the origin.

    Shapes of one radius have about one area. A triangle stands on its base.
    """
    if shape == "circle":
        return np.hypot(x, y) - radius
    if shape == "square":
        return np.maximum(np.abs(x), np.abs(y)) - _HALF_SQUARE * radius
    rise, half = _RISE * radius, _HALF_BASE * radius
    slant = float(np.hypot(rise, half))
    edge: Reals = np.maximum((np.abs(x) * rise - (y + rise * 2 / 3) * half) / slant, y - rise / 3)
    return edge


def _see(quarter: Reals, place: str) -> Seen | None:
    ground = _PALETTE[0]
    out = np.linalg.norm(quarter - ground, axis=-1) > STANDS_OUT
    if out.mean() < OCCUPIED:
        return None
    pixels = quarter[_within(out)]
    middle = np.median(pixels, axis=0)
    away = np.linalg.norm(_PALETTE[1:] - middle, axis=-1)
    nearest = int(away.argmin())
    of_it = np.linalg.norm(pixels[:, None] - _PALETTE[None], axis=-1).argmin(-1) == nearest + 1
    colour = tuple(COLOURS)[nearest] if away[nearest] <= NEAR and of_it.mean() >= OF_ONE_COLOUR else None
    way = middle - ground
    cover = np.clip((quarter - ground) @ way / float(way @ way), 0, 1)
    return Seen(place, colour, _shape(np.where(cover > 0.08, cover, 0)))


def _within(out: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Without the edge, whose pixels are blends; all of it where there is nothing but edge."""
    inner = np.pad(out, 1)
    inner = out & inner[:-2, 1:-1] & inner[2:, 1:-1] & inner[1:-1, :-2] & inner[1:-1, 2:]
    return inner if inner.any() else out


def _shape(cover: Reals) -> str | None:
    """Of a share of each pixel that is covered."""
    size = len(cover)
    middle = (np.arange(size, dtype=np.float32) + 0.5) / size
    total = float(cover.sum())
    x, y = float((cover.sum(0) * middle).sum()) / total, float((cover.sum(1) * middle).sum()) / total
    overlap = {}
    for shape in SHAPES:
        radius = float(np.sqrt(total / size**2 / AREAS[shape]))
        drawn = np.clip(0.5 - distance(shape, (middle - x)[None, :], (middle - y)[:, None], radius) * size, 0, 1)
        overlap[shape] = float(np.minimum(cover, drawn).sum() / np.maximum(cover, drawn).sum())
    best = max(overlap, key=overlap.__getitem__)
    return best if overlap[best] >= COVERED else None


def _random_object(rng: np.random.Generator, place: str) -> Object:
    x, y = rng.uniform(-OFFSET, OFFSET, 2)
    radius = rng.uniform(*RADIUS)
    return Object(str(rng.choice(list(COLOURS))), str(rng.choice(SHAPES)), place, (float(x), float(y)), float(radius))


def _words(one: Object) -> str:
    return f"a {one.colour} {one.shape} {one.place}"
