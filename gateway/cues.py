"""Segments as subtitle cues that can be read: at most two lines of 42 characters and seven seconds."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from speech.events import Word

if TYPE_CHECKING:
    from speech.engine import Segment
    from speech.subtitles import Cue

LINE = 42
LONGEST = 2 * LINE
LONGEST_SECONDS = 7.0
PAUSE_SECONDS = 1.0
"""A silence between two words that ends a cue."""
_TITLES = frozenset(("Mr.", "Mrs.", "Ms.", "Dr.", "St.", "Prof.", "Mme.", "Jr.", "Sr."))
"""Their point ends no sentence."""


def cues(segments: Iterable[Segment]) -> list[Cue]:
    """Cues (start, end, text; seconds) in order. A segment without words becomes one cue, wrapped."""
    found: list[Cue] = []
    for segment in segments:
        if not segment.words:
            found.append((segment.start, segment.end, _lines(segment.text.strip())))
        for words in _groups(segment.words):
            found.append((words[0].start, words[-1].end, _lines(_text(words))))
    return found


def _groups(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """The words as they are when they fit one cue, else cut where it hurts least, and each part again."""
    if len(words) < 2 or _fits(words):
        if words:
            yield words
        return
    cut = max(range(1, len(words)), key=lambda index: _merit(words, index))
    yield from _groups(words[:cut])
    yield from _groups(words[cut:])


def _fits(words: Sequence[Word]) -> bool:
    return (
        len(_text(words)) <= LONGEST
        and words[-1].end - words[0].start <= LONGEST_SECONDS
        and all(after.start - before.end <= PAUSE_SECONDS for before, after in pairwise(words))
    )


def _merit(words: Sequence[Word], index: int) -> float:
    """How good a cut before the word is: a pause (seconds) counts, a full stop and a comma too, and so does balance."""
    before = words[index - 1]
    ending = before.text.strip()[-1:]
    if before.text.strip() in _TITLES:
        ending = ""
    stop = 1.0 if ending in tuple(".?!。？！") else 0.5 if ending in tuple(",;:，、；：") else 0.0
    return max(0.0, words[index].start - before.end) + stop - abs(index / len(words) - 0.5)


def _text(words: Sequence[Word]) -> str:
    # A word brings the space before it along, where its language has one.
    return "".join(word.text for word in words).strip()


def _lines(text: str) -> str:
    """Two lines of about equal length where one does not do."""
    if len(text) <= LINE:
        return text
    lines = textwrap.wrap(text, max(LINE, len(text) // 2 + 8), break_long_words=False)
    return "\n".join(lines)
