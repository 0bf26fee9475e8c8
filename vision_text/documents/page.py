"""What a document says and where: pages of regions of lines of words, each with its place on the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on the page as it is shown, from its top left corner, in the page's `unit`."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        """Of its height."""
        return (self.top + self.bottom) / 2


def around(boxes: Iterable[Box]) -> Box:
    """The smallest box that holds all of them. At least one."""
    every = list(boxes)
    return Box(
        min(box.left for box in every),
        min(box.top for box in every),
        max(box.right for box in every),
        max(box.bottom for box in every),
    )


@dataclass(frozen=True, slots=True)
class Word:
    """`confidence` is the reader's own, from 0 to 1; 1 for text that the document itself carries."""

    text: str
    box: Box
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """Words that follow each other without a wide gap."""

    words: tuple[Word, ...]
    box: Box

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)


class Kind(StrEnum):
    TEXT = "text"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Region:
    """A paragraph, a heading or a table. `rows`: lines side by side, one in each row but in a table."""

    kind: Kind
    rows: tuple[tuple[Line, ...], ...]
    box: Box

    @property
    def text(self) -> str:
        """Rows as lines, the cells of a table's row with tabs between."""
        return "\n".join("\t".join(line.text for line in row) for row in self.rows)

    @property
    def confidence(self) -> float:
        """Of its least certain word."""
        return min(word.confidence for row in self.rows for line in row for word in line.words)


class Source(StrEnum):
    """Where a page's text comes from: what the document carries, or what was read from its picture."""

    LAYER = "text layer"
    OCR = "ocr"


@dataclass(frozen=True, slots=True)
class Page:
    """`number` counts from 1; `unit` is "point" (1/72 inch) for PDF and "pixel" for pictures. Regions in reading order.

    `turned`: degrees clockwise by which the picture had to be turned to be read; boxes are on the page as it came.
    `skew`: degrees by which its lines fall to the right after that.
    """

    number: int
    width: float
    height: float
    unit: str
    source: Source
    regions: tuple[Region, ...]
    turned: int = 0
    skew: float = 0.0

    @property
    def text(self) -> str:
        return "\n\n".join(region.text for region in self.regions)
