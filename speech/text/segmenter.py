"""Text that comes in pieces becomes segments that can be spoken, as early as it is sure where one ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from speech.text.boundaries import LOOKAHEAD, Boundary, Split, block_boundary, clean_prefix, fallback, judge
from speech.text.fences import Fence, fence_after
from workers.errors import InputInvalid

LONGEST = 300
"""Characters of a segment if nothing else is said; of a voice's windows about forty."""
_CANDIDATE = re.compile(r"[.!?…。！？｡।؟,;:—、，；：]|\n")
_FIRST_WORDS, _FIRST_CHARACTERS = 3, 25


@dataclass(frozen=True, slots=True)
class TextSegment:
    """A piece of a stream's text. `start` and `end` are code points of all text fed; the segments cover it in order.

    `last`: nothing fed before the flush is left after it. `code`: it begins inside a fenced block of code.
    """

    text: str
    start: int
    end: int
    last: bool = False
    code: bool = False


class TextSegmenter:
    """Cuts a stream of text at sentences, at clauses as well, or not at all; never in a word shorter than the cap.

    A boundary is believed when what comes after it has been seen, so "$29." waits for "95". The result does not depend
    on how the text is cut into pieces. The first segment may end at a clause of three words and 25 characters, so that
    speech begins early. A segment has at most `max_characters`: without a boundary it ends at a clause, else between
    words, else anywhere. What is held back is bounded by that and the look-ahead. Raises InputInvalid for bad limits.
    """

    def __init__(self, split: Split = "sentence", max_characters: int = LONGEST) -> None:
        if split not in get_args(Split):
            raise InputInvalid(f"split must be one of {', '.join(get_args(Split))}.", param="split")
        if isinstance(max_characters, bool) or not isinstance(max_characters, int) or not 20 <= max_characters <= 5000:
            raise InputInvalid("max_characters must be from 20 to 5000.", param="max_characters")
        self._split: Literal["sentence", "clause", "none"] = split
        self._cap = max_characters
        self._text = ""
        self._at = 0
        """Where in `_text` the next segment begins."""
        self._looked = 0
        """Up to here `_text` has been searched for boundaries."""
        self._offset = 0
        """Code points of the stream before `_text`."""
        self._first = True
        self._fence: Fence | None = None
        """The block of code that the text at `_looked` is in, as of its line's begin."""
        self._code = False
        """Whether the next segment begins in a block of code."""
        self._line_start = True
        """Whether the next segment begins at the begin of a line."""

    @property
    def pending(self) -> int:
        """Code points fed that are in no segment yet."""
        return len(self._text) - self._at

    def feed(self, piece: str) -> list[TextSegment]:
        """The segments that are complete with `piece`."""
        self._text += piece
        return self._segments(final=False)

    def flush(self) -> list[TextSegment]:
        """Everything that is left; the last of them says so."""
        segments = self._segments(final=True)
        if segments:
            last = segments[-1]
            segments[-1] = TextSegment(last.text, last.start, last.end, True, last.code)
        return segments

    def early(self) -> TextSegment | None:
        """The text stalled: whole words that can be spoken as they are, None when there are none.

        What may go on is held back: a word without a space after it, an abbreviation, a number.
        """
        if self._fence is not None:
            return None
        size = clean_prefix(self._text[self._at : self._at + self._cap])
        if not size:
            return None
        segment = self._take(self._at + size)
        self._compact()
        return segment

    def _segments(self, *, final: bool) -> list[TextSegment]:
        segments = []
        while (end := self._next_end(final)) is not None:
            segments.append(self._take(end))
        self._compact()
        return segments

    def _next_end(self, final: bool) -> int | None:
        """Where the next segment ends, None when that can not be told yet."""
        text, start = self._text, self._at
        if start >= len(text):
            return None
        limit = start + self._cap
        view = min(len(text), limit + LOOKAHEAD)
        closed = final or len(text) >= limit + LOOKAHEAD
        stop = min(view, limit)
        while self._split != "none" or "\n" in text[self._looked : stop]:
            candidate = _CANDIDATE.search(text, self._looked, stop)
            if candidate is None:
                break
            at = candidate.start()
            if candidate.group() == "\n":
                verdict = self._line(at, view, closed)
            elif self._fence is not None or self._split == "none":
                verdict = Boundary.NO
            else:
                verdict = judge(text, start, at, view, closed)
                if verdict.kind == "clause" and not self._takes_clause(at + 1):
                    verdict = Boundary.NO
            if verdict.kind == "wait":
                return None
            if verdict.kind != "no":
                self._looked = max(at + 1, min(verdict.end, limit))
                return min(verdict.end, limit)
            self._looked = max(at + 1, verdict.end)
        if final and len(text) <= limit:
            return len(text)
        if not closed:
            self._looked = max(self._looked, stop) if self._split != "none" else self._looked
            return None
        return fallback(text, start, limit)

    def _line(self, at: int, view: int, closed: bool) -> Boundary:
        """The end of a line at `at`: blocks of code open and close there, paragraphs and items end."""
        text = self._text
        begin = text.rfind("\n", self._at, at) + 1 or self._at
        whole = begin > self._at or self._line_start
        line = text[begin:at]
        after = fence_after(line, self._fence) if whole else self._fence
        if after is not self._fence:
            opened = self._fence is None
            self._fence = after
            self._looked = at + 1
            if opened:
                return Boundary.NO
            return Boundary("sentence", at + 1) if self._split != "none" else Boundary.NO
        if self._fence is not None or self._split == "none":
            return Boundary.NO
        return block_boundary(text, begin, at, view, closed)

    def _takes_clause(self, end: int) -> bool:
        """Whether a segment may end at a clause here: by the client's wish, or because it is the first."""
        if self._split != "clause" and not self._first:
            return False
        piece = self._text[self._at : end]
        return len(piece.strip()) >= _FIRST_CHARACTERS and len(piece.split()) >= _FIRST_WORDS

    def _take(self, end: int) -> TextSegment:
        text = self._text[self._at : end]
        segment = TextSegment(text, self._offset + self._at, self._offset + end, code=self._code)
        self._at = end
        self._looked = max(self._looked, end) if self._fence is None else self._looked
        self._code = self._fence is not None
        self._line_start = text.endswith("\n")
        self._first = self._first and not text.strip()
        return segment

    def _compact(self) -> None:
        if self._at:
            self._offset += self._at
            self._text = self._text[self._at :]
            self._looked = max(0, self._looked - self._at)
            self._at = 0
