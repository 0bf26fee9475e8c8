"""The text side of a speaker: pieces of text in, segments to speak out, and all text given so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from speech.text.boundaries import Split
from speech.text.segmenter import TextSegment, TextSegmenter
from workers.clock import Clock
from workers.errors import InputInvalid, InputTooLarge

MOST_TEXT = 1 << 20
"""Characters that one stream takes, some 20 hours of speech."""
_SLICE = 4096
"""Characters that are looked through in one go, so that a long text does not hold the event loop up."""


class Script:
    """What is to be said, with the moment each segment was complete (seconds on the given clock)."""

    def __init__(self, split: Split, max_characters: int, clock: Clock) -> None:
        self._segmenter = TextSegmenter(split, max_characters=max_characters)
        self._clock = clock
        self._given: list[str] = []
        self._length = self._cut = 0
        self._inbox: deque[tuple[str | None, float]] = deque()
        self._segments: deque[tuple[TextSegment, float]] = deque()
        self._came = clock()
        self._stalled = False
        self.ended = False

    @property
    def text(self) -> str:
        """All text given."""
        self._given = ["".join(self._given)]
        return self._given[0]

    def give(self, text: str) -> None:
        """More text. Raises InputInvalid, InputTooLarge."""
        if self.ended:
            raise InputInvalid("the text of this stream has ended; open another one", param="text")
        if self._length + len(text) > MOST_TEXT:
            raise InputTooLarge(f"a stream takes at most {MOST_TEXT} characters", param="text")
        if not text:
            return
        self._length += len(text)
        self._given.append(text)
        self._came, self._stalled = self._clock(), False
        for first in range(0, len(text), _SLICE):
            self._inbox.append((text[first : first + _SLICE], self._came))

    def flush(self) -> None:
        """What was given so far is to be spoken as it is."""
        self._inbox.append((None, self._clock()))

    def end(self) -> None:
        """No more text comes."""
        if not self.ended:
            self.ended = True
            self.flush()

    def next(self) -> tuple[TextSegment, float] | None:
        """The next segment and when it was complete; None when there is none so far."""
        return self._segments.popleft() if self._segments else None

    def look(self) -> bool:
        """Look for segments in the next piece. False when everything has been looked through."""
        if not self._inbox:
            return False
        piece, came = self._inbox.popleft()
        self._add(self._segmenter.flush() if piece is None else self._segmenter.feed(piece), came)
        return True

    @property
    def stalled_since(self) -> float | None:
        """Since when text waits here for the rest of its sentence; None when there is none, or no way to speak it."""
        return self._came if self._cut < self._length and not self._stalled else None

    def early(self) -> None:
        """The text stalls: speak what makes sense of it."""
        self._stalled = True
        segment = self._segmenter.early()
        if segment is not None:
            self._add((segment,), self._clock())

    def _add(self, segments: Iterable[TextSegment], came: float) -> None:
        for segment in segments:
            self._cut = segment.end
            self._segments.append((segment, came))
