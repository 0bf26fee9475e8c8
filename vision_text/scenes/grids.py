"""Pictures of a few coloured shapes on a grid of nine cells, and clips of them, with questions that have one answer.

All objects of a picture differ in colour or shape, so "the red circle" is never ambiguous. Words, pixels and answers
come from the same description; nothing has to be labelled or judged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from vision_text.scenes.pictures import COLOURS, GROUND, SHAPES, distance

Picture = NDArray[np.uint8]
"""(height, width, 3), RGB."""
Frames = NDArray[np.uint8]
"""(frames, height, width, 3), RGB."""

SIDE = 3
"""Cells along each side."""
PLACES = ("top left", "top", "top right", "left", "centre", "right", "bottom left", "bottom", "bottom right")
"""Names of the cells, row by row."""
KINDS = tuple(product(COLOURS, SHAPES))
MOST = 5
"""Objects of a picture at most."""
SIZE = 72
"""Pixels of a side at which the small model sees everything it can see."""
DIRECTIONS: dict[str, tuple[int, int]] = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}
"""Steps from cell to cell as (rows, columns)."""

RADIUS = (0.082, 0.094)
"""Of an object, shares of the picture's side."""
OFFSET = 0.01
"""How far from the middle of its cell an object may lie along each axis, share of the side."""
HELD_OUT = 0.1
"""Share of the grids and clips that no model is trained on."""


@dataclass(frozen=True, slots=True)
class Object:
    """`cell` counts row by row from the upper left. `offset` (x, y) and `radius` are shares of the side."""

    colour: str
    shape: str
    cell: int
    offset: tuple[float, float] = field(default=(0.0, 0.0), compare=False)
    radius: float = field(default=sum(RADIUS) / 2, compare=False)

    @property
    def name(self) -> str:
        return f"{self.colour} {self.shape}"

    @property
    def place(self) -> str:
        return PLACES[self.cell]


@dataclass(frozen=True, slots=True)
class Grid:
    """Objects in the order of their cells, one a cell, no two alike."""

    objects: tuple[Object, ...]

    def __post_init__(self) -> None:
        cells = [one.cell for one in self.objects]
        if cells != sorted(set(cells)) or not set(cells) <= set(range(SIDE * SIDE)):
            raise ValueError("the objects of a grid come in the order of their cells, one a cell")
        if len({one.name for one in self.objects}) != len(cells):
            raise ValueError("no two objects of a grid are alike")
        if any((one.colour, one.shape) not in KINDS for one in self.objects):
            raise ValueError("a grid holds an object of no known kind")

    def at(self, cell: int) -> Object | None:
        return next((one for one in self.objects if one.cell == cell), None)

    def find(self, name: str) -> Object | None:
        return next((one for one in self.objects if one.name == name), None)

    @property
    def told(self) -> str:
        """As "red circle top left and blue square centre", row by row; "nothing" when it is empty."""
        return " and ".join(f"{one.name} {one.place}" for one in self.objects) or "nothing"

    @property
    def held_out(self) -> bool:
        """Whether the grid is kept from training: decided by the sha256 of its words."""
        return _held_out(self.told)


@dataclass(frozen=True, slots=True)
class Clip:
    """A grid at the start, and the one object of it that moves, a cell at a time, always in one direction."""

    start: Grid
    mover: str
    direction: str
    cells: int = 2
    """How many cells it moves from the first frame to the last."""

    def grid(self, moved: int) -> Grid:
        """After so many cells. Raises ValueError when the mover leaves the picture or meets another object."""
        rows, columns = (step * moved for step in DIRECTIONS[self.direction])
        objects = []
        for one in self.start.objects:
            if one.name == self.mover:
                row, column = one.cell // SIDE + rows, one.cell % SIDE + columns
                if not (0 <= row < SIDE and 0 <= column < SIDE):
                    raise ValueError(f"the {self.mover} leaves the picture")
                one = Object(one.colour, one.shape, row * SIDE + column, one.offset, one.radius)
            objects.append(one)
        return Grid(tuple(sorted(objects, key=lambda one: one.cell)))

    @property
    def held_out(self) -> bool:
        return _held_out(f"{self.start.told}; {self.mover} {self.direction} {self.cells}")


@dataclass(frozen=True, slots=True)
class Question:
    """`kind` groups questions of one form for reports."""

    text: str
    answer: str
    kind: str


def random_grid(rng: np.random.Generator, *, held_out: bool | None = None, most: int = MOST) -> Grid:
    """One to `most` objects; `held_out` asks for a grid that is kept from training, or one that is not."""
    while True:
        count = int(rng.integers(1, most + 1))
        cells = sorted(rng.choice(SIDE * SIDE, size=count, replace=False).tolist())
        kinds = rng.choice(len(KINDS), size=count, replace=False).tolist()
        grid = Grid(tuple(_random_object(rng, kind, cell) for kind, cell in zip(kinds, cells, strict=True)))
        if held_out is None or grid.held_out == held_out:
            return grid


def random_clip(rng: np.random.Generator, *, held_out: bool | None = None, most: int = 3) -> Clip:
    """One to `most` objects, one of which moves over one or two cells."""
    while True:
        start = random_grid(rng, most=most)
        mover = start.objects[int(rng.integers(len(start.objects)))].name
        clip = Clip(start, mover, str(rng.choice(list(DIRECTIONS))), int(rng.integers(1, SIDE)))
        try:
            for moved in range(clip.cells + 1):
                clip.grid(moved)
        except ValueError:
            continue
        if held_out is None or clip.held_out == held_out:
            return clip


def draw(grid: Grid, size: int = SIZE) -> Picture:
    """(size, size, 3); edges are antialiased."""
    middle = (np.arange(size, dtype=np.float32) + 0.5) / size
    picture = np.empty((size, size, 3), np.float32)
    picture[:] = GROUND
    for one in grid.objects:
        row, column = divmod(one.cell, SIDE)
        x = middle - ((column + 0.5) / SIDE + one.offset[0])
        y = middle - ((row + 0.5) / SIDE + one.offset[1])
        cover = np.clip(0.5 - distance(one.shape, x[None, :], y[:, None], one.radius) * size, 0, 1)[..., None]
        picture += cover * (np.asarray(COLOURS[one.colour], np.float32) - picture)
    return (picture + 0.5).astype(np.uint8)


def draw_clip(clip: Clip, frames: int, size: int = SIZE) -> Frames:
    """(frames, size, size, 3), spread evenly from start to end. Raises ValueError for fewer than two frames."""
    if frames < 2:
        raise ValueError("a clip has at least two frames")
    steps = np.rint(np.linspace(0, clip.cells, frames)).astype(int).tolist()
    drawn = {moved: draw(clip.grid(moved), size) for moved in set(steps)}
    return np.stack([drawn[moved] for moved in steps])


def questions(grid: Grid) -> list[Question]:
    """All questions about one picture."""
    asked = [Question("describe the picture.", grid.told, "describe")]
    for cell, place in enumerate(PLACES):
        one = grid.at(cell)
        asked.append(Question(f"what is at the {place}?", one.name if one else "nothing", "what"))
        if one:
            asked.append(Question(f"what colour is the object at the {place}?", one.colour, "colour"))
            asked.append(Question(f"what shape is the object at the {place}?", one.shape, "shape"))
    asked.append(Question("how many objects are there?", str(len(grid.objects)), "count"))
    for colour in COLOURS:
        found = sum(one.colour == colour for one in grid.objects)
        asked.append(Question(f"how many {colour} objects are there?", str(found), "count some"))
    for colour, shape in KINDS:
        one = grid.find(f"{colour} {shape}")
        asked.append(Question(f"is there a {colour} {shape}?", "yes" if one else "no", "is there"))
        asked.append(Question(f"where is the {colour} {shape}?", one.place if one else "nowhere", "where"))
    return asked


def questions_of_several(grids: Sequence[Grid]) -> list[Question]:
    """About pictures in one prompt, in their order: what one of them shows, and which of them shows it."""
    asked = [
        Question(f"in picture {number}, {question.text}", question.answer, f"{question.kind} of several")
        for number, grid in enumerate(grids, 1)
        for question in questions(grid)
    ]
    for colour, shape in KINDS:
        holding = [number for number, grid in enumerate(grids, 1) if grid.find(f"{colour} {shape}")]
        if len(holding) == 1:
            asked.append(Question(f"which picture has a {colour} {shape}?", f"picture {holding[0]}", "which picture"))
    return asked


def questions_of_clip(clip: Clip) -> list[Question]:
    """About a clip as a whole; its pictures are asked about as pictures."""
    first, last = clip.start, clip.grid(clip.cells)
    asked = [Question("what moves?", clip.mover, "what moves")]
    for one in first.objects:
        way = clip.direction if one.name == clip.mover else "nowhere"
        asked.append(Question(f"which way does the {one.name} move?", way, "which way"))
        asked.append(Question(f"where is the {one.name} at the start?", one.place, "start"))
        end = last.find(one.name)
        assert end is not None
        asked.append(Question(f"where is the {one.name} at the end?", end.place, "end"))
    return asked


FORMS: Mapping[str, float] = {
    "describe": 2, "what": 4, "colour": 1, "shape": 1, "count": 1, "count some": 2, "is there": 1, "where": 1,
    "which picture": 2, "what moves": 1, "which way": 1, "start": 1, "end": 1,
}  # fmt: skip
"""How often each form is asked, relative to the others."""


def ask(rng: np.random.Generator, among: Sequence[Question], count: int) -> list[Question]:
    """`count` questions at most, no two alike, by `FORMS`; a third of them, where it may be, about what is not."""
    forms: dict[str, list[Question]] = {}
    for question in among:
        forms.setdefault(question.kind, []).append(question)
    names = list(forms)
    weights = np.array([FORMS[name.removesuffix(" of several")] for name in names], float)
    chosen: dict[str, Question] = {}
    for name in rng.choice(names, size=count, p=weights / weights.sum()).tolist():
        question = _balanced(rng, forms[name])
        chosen.setdefault(question.text, question)
    return list(chosen.values())


def _balanced(rng: np.random.Generator, among: Sequence[Question]) -> Question:
    """Answers that say that there is nothing would else be most of those to places, kinds and counts."""
    plain = ("nothing", "no", "nowhere", "0")
    without = [question for question in among if question.answer in plain]
    withs = [question for question in among if question.answer not in plain]
    pick = withs if withs and (not without or rng.random() < 0.65) else without
    return pick[int(rng.integers(len(pick)))]


def _random_object(rng: np.random.Generator, kind: int, cell: int) -> Object:
    x, y = rng.uniform(-OFFSET, OFFSET, 2)
    colour, shape = KINDS[kind]
    return Object(colour, shape, cell, (float(x), float(y)), float(rng.uniform(*RADIUS)))


def _held_out(words: str) -> bool:
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") / 2**64 < HELD_OUT
