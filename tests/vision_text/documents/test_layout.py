"""Reading order, on boxes alone."""

from __future__ import annotations

import random

import pytest

from vision_text.documents.layout import lines_of, regions_of
from vision_text.documents.page import Box, Kind, Line, Word


def line(text: str, left: float, top: float, width: float = 200.0, height: float = 10.0) -> Line:
    """A line of one word, as far as layout is concerned."""
    box = Box(left, top, left + width, top + height)
    return Line((Word(text, box),), box)


def read(*lines: Line) -> list[str]:
    """The text of the regions, whatever the order in which the lines came."""
    found = [region.text for region in regions_of(lines)]
    for seed in range(5):
        mixed = list(lines)
        random.Random(seed).shuffle(mixed)
        assert [region.text for region in regions_of(mixed)] == found
    return found


def test_lines_of_a_column_are_a_paragraph_until_there_is_a_gap() -> None:
    assert read(line("a", 0, 0), line("b", 0, 14), line("c", 0, 28), line("d", 0, 60), line("e", 0, 74)) == [
        "a\nb\nc",
        "d\ne",
    ]


def test_columns_are_read_one_after_the_other_below_what_stands_over_both() -> None:
    left = [line(f"l{n}", 0, 40 + 14 * n) for n in range(4)]
    right = [line(f"r{n}", 230, 47 + 14 * n) for n in range(4)]
    assert read(line("heading", 50, 0, 300), *left, *right, line("foot", 0, 140, 430)) == [
        "heading",
        "l0\nl1\nl2\nl3",
        "r0\nr1\nr2\nr3",
        "foot",
    ]


def test_columns_on_one_grid_are_still_columns_when_their_lines_fill_them() -> None:
    left = [line(f"l{n}", 0, 14 * n, 195 + n) for n in range(6)]
    right = [line(f"r{n}", 230, 14 * n, 195 + n) for n in range(6)]
    assert read(*left, *right) == ["\n".join(f"l{n}" for n in range(6)), "\n".join(f"r{n}" for n in range(6))]


def test_a_table_is_read_by_rows() -> None:
    cells = [
        line(f"{row}{column}", 100.0 * column, 20.0 * row, 30.0 + 20 * (row == 0))
        for row in range(4)
        for column in range(3)
    ]
    (region,) = regions_of(cells)
    assert region.kind is Kind.TABLE
    assert region.text == "\n".join("\t".join(f"{row}{column}" for column in range(3)) for row in range(4))


def test_a_table_of_two_columns_and_one_with_holes() -> None:
    names = [
        line(name, 0, 20.0 * n, width) for n, (name, width) in enumerate([("pens", 40), ("paper", 120), ("sum", 30)])
    ]
    prices = [line(price, 300, 20.0 * n, 30) for n, price in enumerate(["9.60", "21.00", "30.60"])]
    assert read(*names, *prices) == ["pens\t9.60\npaper\t21.00\nsum\t30.60"]


def test_a_paragraph_above_a_table_is_not_part_of_it() -> None:
    paragraph = [line(f"p{n}", 0, 14.0 * n, 190) for n in range(5)]
    cells = [line(f"{r}{c}", 130.0 * c, 90 + 20.0 * r, 30) for r in range(3) for c in range(3)]
    after = [line(f"q{n}", 0, 170 + 14.0 * n, 190) for n in range(3)]
    assert read(*paragraph, *cells, *after) == [
        "p0\np1\np2\np3\np4",
        "00\t01\t02\n10\t11\t12\n20\t21\t22",
        "q0\nq1\nq2",
    ]


def test_words_of_a_text_layer_become_lines_that_end_at_wide_gaps() -> None:
    words = [
        Word(text, Box(left, top, left + 8 * len(text), top + 10))
        for text, left, top in [
            ("world", 45, 0.4),
            ("Hello", 0, 0),
            ("over", 200, 0),
            ("there", 240, 0),
            ("below", 0, 14),
        ]
    ]
    assert sorted(found.text for found in lines_of(words)) == ["Hello world", "below", "over there"]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_next_to_nothing_on_a_page(count: int) -> None:
    assert read(*(line(str(n), 0, 14.0 * n) for n in range(count))) == (
        ["\n".join(map(str, range(count)))] if count else []
    )


def test_no_line_is_lost_or_doubled_however_they_lie() -> None:
    chance = random.Random(1)
    for _ in range(300):
        lines = [
            line(str(n), chance.uniform(0, 500), chance.uniform(0, 700), chance.uniform(1, 500), chance.uniform(4, 30))
            for n in range(chance.randint(1, 40))
        ]
        found = [word for region in regions_of(lines) for row in region.rows for one in row for word in [one.text]]
        assert sorted(found) == sorted(one.text for one in lines)
