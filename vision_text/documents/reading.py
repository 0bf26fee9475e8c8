"""From a page's picture to its lines: the quads that were found, what they were read as, and how the page lies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vision_text.documents.layout import regions_of
from vision_text.documents.ocr import TALL, Pixels, Quad, Read
from vision_text.documents.page import Box, Line, Region, Word, around

_MOSTLY = 0.6
_DOUBT = 2.0
"""Degrees."""
_STRAIGHT = 0.3
"""Degrees of skew that layout need not know of."""


def lies_on_its_side(quads: Quad) -> bool:
    """Whether most lines run from top to bottom."""
    if len(quads) == 0:
        return False
    width = np.linalg.norm(quads[:, 0] - quads[:, 1], axis=1)
    height = np.linalg.norm(quads[:, 0] - quads[:, 3], axis=1)
    return float(np.sum(np.maximum(width, height) * (height >= TALL * width))) > _MOSTLY * float(
        np.sum(np.maximum(width, height))
    )


def stands_on_its_head(reads: Sequence[Read]) -> bool:
    """Whether most of what was read had to be turned by half a turn."""
    letters = [(sum(len(word[0]) for word in read.words), read.upside_down) for read in reads]
    return sum(count for count, turned in letters if turned) > _MOSTLY * max(1, sum(count for count, _ in letters))


def turn(pixels: Pixels, degrees: int) -> Pixels:
    """Clockwise, by a multiple of 90."""
    return np.ascontiguousarray(np.rot90(pixels, -degrees // 90))


def skew_of(quads: Quad) -> float:
    """Degrees by which lines fall to the right.

    Corners are whole pixels, so long lines tell it best. Short ones, such as the cells of a table, leave a doubt of a
    degree or two: then the angle near by is right that puts them into the fewest rows.
    """
    if len(quads) == 0:
        return 0.0
    along = quads[:, 1] - quads[:, 0]
    lengths = np.linalg.norm(along, axis=1)
    weights = lengths**2 * (lengths >= np.quantile(lengths, 0.5))
    angle = float(np.degrees(np.sum(weights * np.arctan2(along[:, 1], along[:, 0])) / np.sum(weights)))
    height = float(np.median(np.linalg.norm(quads[:, 3] - quads[:, 0], axis=1)))
    nearest_first = sorted(angle + _DOUBT * np.linspace(-1, 1, 17), key=lambda other: abs(other - angle))
    return float(min(nearest_first, key=lambda other: _rows(quads.mean(axis=1), float(other), height)))


def _rows(middles: Quad, degrees: float, height: float) -> int:
    """Rows into which lines fall, the page turned back by `degrees`. middles: [lines, 2]."""
    radians = math.radians(degrees)
    tops = np.sort(middles[:, 1] * math.cos(radians) - middles[:, 0] * math.sin(radians))
    return 1 + int(np.sum(np.diff(tops) > 0.4 * height))


def laid_out(
    quads: Quad, reads: Sequence[Read], shape: tuple[int, int], size: tuple[float, float], turned: int
) -> tuple[list[Region], float]:
    """Regions in reading order with boxes on the page as it came, and the skew in degrees.

    quads: in pixels of the turned picture, whose (height, width) is `shape`; `size`: (width, height) of the page in
    its unit as it came, before it was turned by `turned` degrees.
    """
    skew = skew_of(quads)
    straightened = -math.radians(skew) if abs(skew) > _STRAIGHT else 0.0
    matrix = np.array(
        [
            [math.cos(straightened), -math.sin(straightened)],
            [math.sin(straightened), math.cos(straightened)],
        ]
    )
    lines: list[Line] = []
    places: dict[int, Box] = {}  # a word's own box by its identity: layout sees the straightened one
    for quad, read in zip(quads, reads, strict=True):
        words = []
        for text, sure, begin, end in read.words:
            corners = _part(quad, *((1 - end, 1 - begin) if read.upside_down else (begin, end)))
            word = Word(text, _box(corners @ matrix.T), sure)
            places[id(word)] = _placed(corners, shape, size, turned)
            words.append(word)
        if words:
            lines.append(Line(tuple(words), _box(quad @ matrix.T)))
    return [_moved(region, places) for region in regions_of(lines)], skew


def _part(quad: Quad, begin: float, end: float) -> Quad:
    """The part of a line's quad between two shares of its length."""
    if np.linalg.norm(quad[0] - quad[3]) >= TALL * np.linalg.norm(quad[0] - quad[1]):
        quad = quad[[1, 2, 3, 0]]  # a standing line was read downwards, its letters' heads to the right
    top, bottom = quad[1] - quad[0], quad[2] - quad[3]
    return np.stack([quad[0] + begin * top, quad[0] + end * top, quad[3] + end * bottom, quad[3] + begin * bottom])


def _box(corners: Quad) -> Box:
    (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
    return Box(float(left), float(top), float(right), float(bottom))


def _placed(corners: Quad, shape: tuple[int, int], size: tuple[float, float], turned: int) -> Box:
    """A box in pixels of the turned picture as one on the page as it came, in its unit."""
    height, width = shape
    x, y = corners[:, 0], corners[:, 1]
    if turned == 90:
        x, y, width, height = y, width - x, height, width
    elif turned == 180:
        x, y = width - x, height - y
    elif turned == 270:
        x, y, width, height = height - y, x, height, width
    return _box(np.stack([x * (size[0] / width), y * (size[1] / height)], axis=1))


def _moved(region: Region, places: dict[int, Box]) -> Region:
    rows = tuple(tuple(_moved_line(line, places) for line in row) for row in region.rows)
    return Region(region.kind, rows, around(line.box for row in rows for line in row))


def _moved_line(line: Line, places: dict[int, Box]) -> Line:
    words = tuple(Word(word.text, places[id(word)], word.confidence) for word in line.words)
    return Line(words, around(word.box for word in words))
