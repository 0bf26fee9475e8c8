"""Word times against voice: edges move to where the voice is, words stay in order, and none is invented."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_jobs.fitting import fit
from batch_jobs.seams import Placed
from speech.events import Word

RATE = 16_000
SPOKEN = Word(" word", 0.0, 0.0, 0.9)


def fitted(words: list[tuple[float, float]], voice: list[tuple[float, float]]) -> list[tuple[float, float]]:
    placed = [Placed(0, SPOKEN, round(start * RATE), round(end * RATE)) for start, end in words]
    spans = [(round(start * RATE), round(end * RATE)) for start, end in voice]
    return [(word.start / RATE, word.end / RATE) for word in fit(placed, spans)]


@pytest.mark.parametrize(
    ("words", "voice", "expected"),
    [
        # The word after the pause begins where the one before it ended; it is all behind the pause.
        ([(1.0, 1.5), (1.5, 6.0)], [(1.0, 1.5), (5.5, 6.0)], [(1.0, 1.5), (5.5, 6.0)]),
        # The last word before a pause lasts until the voice ends, when that is soon.
        ([(1.0, 1.2), (6.0, 6.5)], [(1.0, 1.5), (6.0, 6.5)], [(1.0, 1.5), (6.0, 6.5)]),
        ([(1.0, 1.2), (6.0, 6.5)], [(1.0, 3.0), (6.0, 6.5)], [(1.0, 1.2), (6.0, 6.5)]),
        # Between words nothing moves, and a short dip in the voice is a stop inside a word.
        ([(1.0, 1.4), (1.6, 2.0)], [(1.0, 1.2), (1.3, 2.0)], [(1.0, 1.4), (1.6, 2.0)]),
        # Without voice nearby there is nothing to fit to.
        ([(3.0, 3.4)], [(0.0, 1.0), (9.0, 9.5)], [(3.0, 3.4)]),
        ([(3.0, 3.4)], [], [(3.0, 3.4)]),
        ([], [(0.0, 1.0)], []),
    ],
)
def test_edges(
    words: list[tuple[float, float]], voice: list[tuple[float, float]], expected: list[tuple[float, float]]
) -> None:
    assert fitted(words, voice) == expected


points = st.lists(st.integers(0, 200), max_size=24).map(sorted)


def spans(cuts: list[int], *, empty: bool) -> list[tuple[float, float]]:
    return [(a / 10, b / 10) for a, b in zip(cuts[::2], cuts[1::2], strict=False) if a < b or empty]


@given(points, points)
def test_any_words_stay_in_order_and_near_where_they_were(said: list[int], heard: list[int]) -> None:
    words, voice = spans(said, empty=True), spans(heard, empty=False)
    found = fitted(words, voice)
    assert len(found) == len(words)
    assert all(start <= end for start, end in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    for (start, end), (first, last) in zip(words, found, strict=True):
        assert start - 0.4001 <= first <= last <= end + 0.4001
        assert any(start <= e and end >= s for s, e in voice) or (start, end) == (first, last)
