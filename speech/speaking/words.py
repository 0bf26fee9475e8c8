"""Which character of the text is heard when: the words of a stream with their times, in both directions."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from speech.speaking.events import SpokenWord
from speech.text.spoken import Spoken
from speech.tts import TimedToken

_ROUNDING = 1e-6


class Words:
    """The words of one stream. Characters are code points of all text given, times seconds of its sound."""

    def __init__(self) -> None:
        self._text = ""
        self._first = 0
        self._offset = 0.0
        self._tokens: Sequence[Spoken] = ()
        self._known: dict[tuple[int, int], SpokenWord] = {}
        self._waiting: deque[SpokenWord] = deque()
        self._moments: list[float] = []
        self._borders: list[int] = []

    def begin(self, text: str, first: int, tokens: Sequence[Spoken], offset: float) -> None:
        """A segment: its `text` from character `first` on, sounding from `offset` seconds on."""
        self._text, self._first, self._tokens, self._offset = text, first, tokens, offset
        self._known.clear()

    def learn(self, times: Iterable[TimedToken]) -> None:
        """When tokens of the segment sound. Several that came from the same characters are one word."""
        for time in times:
            token = self._tokens[time.token]
            if token.rule == "punctuation" or token.end <= token.start:
                continue
            key = token.start, token.end
            start, end = self._offset + time.start, self._offset + time.end
            known = self._known.get(key)
            if known is not None:
                word = replace(known, start=min(known.start, start), end=max(known.end, end))
                if known in self._waiting:
                    self._waiting[self._waiting.index(known)] = word
            else:
                text = self._text[token.start : token.end]
                word = SpokenWord(text, self._first + token.start, self._first + token.end, start, end)
                self._waiting.append(word)
            self._known[key] = word
            self._mark(word.end, self._first + self._end_with_punctuation(token))

    def before(self, moment: float) -> tuple[SpokenWord, ...]:
        """The words that begin before `moment` and have not been asked for yet."""
        begun = []
        while self._waiting and self._waiting[0].start < moment:
            begun.append(self._waiting.popleft())
        return tuple(begun)

    def end(self, moment: float) -> tuple[SpokenWord, ...]:
        """The segment's sound ends at `moment`: the words left over."""
        rest = tuple(self._waiting)
        self._waiting.clear()
        self._mark(moment, self._first + len(self._text))
        return rest

    def border(self, heard: float) -> int:
        """Up to which character the text has been heard, when `heard` seconds of sound have. Whole words count."""
        place = bisect_right(self._moments, heard + _ROUNDING)
        return self._borders[place - 1] if place else 0

    def _mark(self, moment: float, border: int) -> None:
        if self._moments:
            moment, border = max(moment, self._moments[-1]), max(border, self._borders[-1])
        self._moments.append(moment)
        self._borders.append(border)

    def _end_with_punctuation(self, token: Spoken) -> int:
        """A word's end and the punctuation that clings to it."""
        end = token.end
        while end < len(self._text) and not self._text[end].isspace() and not self._text[end].isalnum():
            end += 1
        return end
