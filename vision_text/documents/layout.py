"""Reading order: words to lines, lines to columns, tables and paragraphs. Pure geometry, no model.

Columns are found by their gutter, a strip that nearly no line crosses; the lines that do cross it (headings over both
columns) part the page into bands that are read one after the other. Columns whose lines stand side by side in rows,
and do not fill them as text does, are a table and read by rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from vision_text.documents.page import Kind, Line, Region, Word, around

_WORD_GAP = 1.6
"""Of a line's height: a wider gap is one between columns or cells, not between words."""
_GUTTER = 0.8
_CROSSING = 0.2
"""The share of lines that may cross a gutter."""
_PARAGRAPH = 0.75
"""Of a line's height: a wider gap than this beyond the usual one begins a paragraph."""
_IN_ROWS = 0.7
_FULL = 0.75
"""Lines of a text column fill this much of its width; cells of a table do not."""


def lines_of(words: Sequence[Word]) -> list[Line]:
    """Words of a text layer, in any order, as lines from top to bottom."""
    rows: list[list[Word]] = []
    for word in sorted(words, key=lambda word: word.box.middle):
        for row in reversed(rows[-4:]):
            last = row[-1].box
            if abs(word.box.middle - last.middle) < 0.5 * min(word.box.height, last.height) or (
                last.top < word.box.middle < last.bottom and word.box.top < last.middle < word.box.bottom
            ):
                row.append(word)
                break
        else:
            rows.append([word])
    lines = []
    for row in rows:
        row.sort(key=lambda word: word.box.left)
        line = [row[0]]
        for before, word in pairwise(row):
            if word.box.left - before.box.right > _WORD_GAP * max(before.box.height, word.box.height):
                lines.append(line)
                line = []
            line.append(word)
        lines.append(line)
    return [Line(tuple(line), around(word.box for word in line)) for line in lines]


def regions_of(lines: Sequence[Line]) -> list[Region]:
    """Lines in any order as regions in reading order."""
    if not lines:
        return []
    height = median(line.box.height for line in lines)
    gutter = _gutter(lines, height)
    if gutter is None:
        return _paragraphs(sorted(lines, key=lambda line: (line.box.top, line.box.left)), height)
    regions: list[Region] = []
    for band, split in _bands(lines, gutter):
        if not split:
            regions += _paragraphs(band, height)
        else:
            above, both, below = _beside_each_other(band, gutter)
            table = _table(both, height, gutter)
            if table is not None:
                regions += [*regions_of(above), table, *regions_of(below)]
            else:
                regions += regions_of([line for line in band if line.box.right <= gutter])
                regions += regions_of([line for line in band if line.box.left >= gutter])
    return regions


def _gutter(lines: Sequence[Line], height: float) -> float | None:
    """Where the widest strip runs that divides the lines, if there is one."""
    allowed = _CROSSING * len(lines)
    edges = sorted({line.box.left for line in lines} | {line.box.right for line in lines})
    best: tuple[float, float] | None = None
    begin: float | None = None
    for left, right in pairwise(edges):
        at = (left + right) / 2
        crossing = sum(line.box.left < at < line.box.right for line in lines)
        if crossing > allowed:
            begin = None
            continue
        begin = left if begin is None else begin
        before = sum(line.box.right <= at for line in lines)
        after = sum(line.box.left >= at for line in lines)
        width = right - left
        if width >= _GUTTER * height and min(before, after) >= 2 and (best is None or width > best[0]):
            best = width, at
    return None if best is None else best[1]


def _bands(lines: Sequence[Line], gutter: float) -> list[tuple[list[Line], bool]]:
    """From top to bottom: lines that cross the gutter (False), and what is between them beside it (True)."""
    bands: list[tuple[list[Line], bool]] = []
    for line in sorted(lines, key=lambda line: (line.box.middle, line.box.left)):
        beside = not line.box.left < gutter < line.box.right
        if not bands or bands[-1][1] is not beside:
            bands.append(([], beside))
        bands[-1][0].append(line)
    return bands


def _beside_each_other(band: Sequence[Line], gutter: float) -> tuple[list[Line], list[Line], list[Line]]:
    """The lines that have others on the other side of the gutter, and those above and below them."""
    left = [line for line in band if line.box.right <= gutter]
    right = [line for line in band if line.box.left >= gutter]
    if not left or not right:
        return list(band), [], []
    top = max(min(line.box.top for line in side) for side in (left, right))
    bottom = min(max(line.box.bottom for line in side) for side in (left, right))
    above = [line for line in band if line.box.middle < top]
    below = [line for line in band if line.box.middle > bottom and line.box.middle >= top]
    return above, [line for line in band if top <= line.box.middle <= bottom], below


def _table(lines: Sequence[Line], height: float, gutter: float) -> Region | None:
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: line.box.middle):
        if rows and line.box.middle - rows[-1][0].box.middle < 0.5 * height:
            rows[-1].append(line)
        else:
            rows.append([line])
    several = [row for row in rows if len(row) > 1]
    if len(several) < 2 or sum(len(row) for row in several) < _IN_ROWS * len(lines):
        return None
    sides = [[line for line in lines if (line.box.left < gutter) is left] for left in (True, False)]
    if median(len(row) for row in several) < 3 and min(_fullness(side) for side in sides if side) > _FULL:
        return None
    ordered = tuple(tuple(sorted(row, key=lambda line: line.box.left)) for row in rows)
    return Region(Kind.TABLE, ordered, around(line.box for line in lines))


def _fullness(column: Sequence[Line]) -> float:
    """How much of its column's width a line fills; the median."""
    return median(line.box.width for line in column) / max(around(line.box for line in column).width, 1e-9)


def _paragraphs(lines: Sequence[Line], height: float) -> list[Region]:
    """Lines of one column, from top to bottom."""
    gaps = [after.box.middle - before.box.middle for before, after in pairwise(lines)]
    usual = median(sorted(gaps)[: max(1, len(gaps) * 3 // 4)]) if gaps else 0.0
    groups: list[list[Line]] = []
    for line in lines:
        if groups:
            last = groups[-1][-1].box
            apart = line.box.middle - last.middle > usual + _PARAGRAPH * height
            other_size = not 0.7 < line.box.height / max(last.height, 1e-9) < 1.4
            if not apart and not other_size:
                groups[-1].append(line)
                continue
        groups.append([line])
    return [_region(group) for group in groups]


def _region(lines: Sequence[Line]) -> Region:
    return Region(Kind.TEXT, tuple((line,) for line in lines), around(line.box for line in lines))
