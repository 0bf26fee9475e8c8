"""Where two chunks meet: whose is a word that lies on the border, and is it one word or two?

Chunks usually meet in a silence, and there is nothing to decide. Speech without a pause is cut all the same, at its
quietest point; then a word may be heard on both sides. With tiny.en and cuts in the middle of words, a doubled word
shows in two ways: the model completes the text on the left with the word that comes next, and gives it no time; or it
hears the word on either side, in less time than one takes to say and unsure of one of them. A word that was said twice
has its time twice, and is heard clearly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from batch_jobs.transcript import Chunk
from speech.asr import SAMPLE_RATE
from speech.events import Word

_TOUCH = SAMPLE_RATE // 10
"""Samples between two chunks from which on they no longer touch."""
_NO_TIME = SAMPLE_RATE // 25
"""A word this short (samples) was not heard but added."""
_NEAR = 35 * SAMPLE_RATE // 100
"""How far the middles of one word may lie apart (samples) as two chunks heard it."""
_LETTER, _ONSET = 7 * SAMPLE_RATE // 100, 12 * SAMPLE_RATE // 100
"""Samples that a slow speaker takes for a letter, and for a word apart from its letters."""
_UNSURE = 0.6
_MARKS = ".…,;:?!- "
_ADDED = 3
"""The most words that a text is completed with."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A word of segment number `source`, and its samples on the file's clock."""

    source: int
    word: Word
    start: int
    end: int

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


Sides = tuple[list[Placed], list[Placed]]


def joined(before: list[Placed], after: list[Placed], first: Chunk, second: Chunk) -> Sides:
    """`before`, the words of `first`, and `after`, those of `second` behind it, with every word once."""
    if second.start < first.end:
        return _overlapping(before, after, second.start, first.end)
    if second.start - first.end < _TOUCH:
        return _touching(before, after)
    return before, after


def _overlapping(before: list[Placed], after: list[Placed], start: int, end: int) -> Sides:
    """Both chunks heard [start, end): each word in it is the one's in whose half its middle lies."""
    border = (start + end) / 2
    left = [n for n, word in enumerate(before) if word.end > start]
    right = [n for n, word in enumerate(after) if word.start < end]
    pairs = _pairs([before[n] for n in left], [after[n] for n in right])
    mine = {left[a]: (before[left[a]].middle + after[right[b]].middle) / 2 < border for a, b in pairs}
    theirs = {right[b]: not mine[left[a]] for a, b in pairs}
    return (
        [word for n, word in enumerate(before) if mine.get(n, word.middle < border)],
        [word for n, word in enumerate(after) if theirs.get(n, word.middle >= border)],
    )


def _pairs(left: Sequence[Placed], right: Sequence[Placed]) -> list[tuple[int, int]]:
    """Which words of both sides are one, in order: the most, and of those the nearest in time."""
    best: list[list[tuple[int, float, list[tuple[int, int]]]]] = [
        [(0, 0.0, []) for _ in range(len(right) + 1)] for _ in range(len(left) + 1)
    ]
    for a in range(len(left) - 1, -1, -1):
        for b in range(len(right) - 1, -1, -1):
            best[a][b] = max(best[a + 1][b], best[a][b + 1], key=lambda row: row[:2])
            if _same(left[a], right[b]):
                count, nearness, pairs = best[a + 1][b + 1]
                apart = abs(left[a].middle - right[b].middle)
                taken = (count + 1, nearness - apart, [(a, b), *pairs])
                best[a][b] = max(best[a][b], taken, key=lambda row: row[:2])
    return best[0][0][2]


def _same(one: Placed, other: Placed) -> bool:
    """Two hearings of one sound: the same word at about the same time, or another over most of that time."""
    if _plain(one) == _plain(other):
        return abs(one.middle - other.middle) <= _NEAR
    shared = min(one.end, other.end) - max(one.start, other.start)
    return shared > min(one.end - one.start, other.end - other.start) / 2


def _touching(before: list[Placed], after: list[Placed]) -> Sides:
    """No sound was heard twice; but words may have been added on the left, or one was cut in two halves."""
    for count in range(min(_ADDED, len(before), len(after)), 0, -1):
        left, right = before[-count:], after[:count]
        if [_plain(word) for word in left] != [_plain(word) for word in right]:
            continue
        if right[0].start - left[-1].end > _NEAR:
            continue
        if all(word.end - word.start <= _NO_TIME for word in left):
            spelled = [replace(b, word=replace(b.word, text=_text(a, b))) for a, b in zip(left, right, strict=True)]
            return before[:-count], [*spelled, *after[count:]]
        if count == 1 and _halves(left[0], right[0]):
            return [*before[:-1], _whole(left[0], right[0])], after[1:]
    return before, after


def _halves(one: Placed, other: Placed) -> bool:
    """The same word on either side of a cut was said once: too short for two, and one of them heard badly."""
    if other.end - other.start <= _NO_TIME:
        return True
    once = _ONSET + _LETTER * len(_plain(one))
    return other.end - one.start <= once and min(one.word.confidence, other.word.confidence) < _UNSURE


def _whole(one: Placed, other: Placed) -> Placed:
    """One word of two halves."""
    confidence = max(one.word.confidence, other.word.confidence)
    return replace(one, word=replace(one.word, text=_text(one, other), confidence=confidence), end=other.end)


def _text(one: Placed, other: Placed) -> str:
    """The left side knows whether a sentence begins with the word, the right side whether one ends."""
    last = other.word.text.rstrip()
    return one.word.text.rstrip(_MARKS) + last[len(last.rstrip(_MARKS)) :]


def _plain(one: Placed) -> str:
    return "".join(letter for letter in one.word.text.casefold() if letter.isalnum())
