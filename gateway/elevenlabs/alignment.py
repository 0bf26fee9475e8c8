"""When each character sounds: from times of words to the characters of every piece of sound."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from speech.speaking.events import SpokenWord

_CLINGS = re.compile(r"[^\w\s]*\s*")
"""What belongs to the word before it: its punctuation, and the space up to the next one."""


class TimedCharacter(NamedTuple):
    """A character of the text given, heard from `start` to `end` (seconds of the stream)."""

    character: str
    start: float
    end: float


class Aligner:
    """Spreads the time of a word over its characters, and that of a pause over what stands in it.

    The characters of a piece fill it up to its end, so a client that adds up their durations and one that adds up the
    sound arrive at the same time.
    """

    def __init__(self) -> None:
        self._rest = ""  # text from the first character on that has no time yet
        self._first = 0
        self._timed: deque[TimedCharacter] = deque()
        self._ended = 0.0  # when the last character that has a time ends

    def text(self, text: str) -> None:
        """More text was given."""
        self._rest += text

    def words(self, words: Iterable[SpokenWord]) -> None:
        """These words sound next."""
        for word in words:
            self._spread(word.start_char, word.start)
            self._spread(word.end_char, word.end)

    def take(self, start: float, end: float) -> list[TimedCharacter]:
        """The characters of the piece of sound from `start` to `end`; none when it is silent."""
        if self._first and self._ended < end:
            found = _CLINGS.match(self._rest)
            clings = len(found.group()) if found is not None else 0
            # A last space is kept for the next piece, which may have nothing else.
            if self._ended > start and clings and self._rest[clings - 1].isspace():
                clings -= 1
            if clings:
                self._ended = max(self._ended, start)
                self._spread(self._first + clings, end)
        taken: list[TimedCharacter] = []
        while self._timed and self._timed[0].start < end:
            taken.append(self._timed.popleft())
        if taken:
            taken[-1] = taken[-1]._replace(end=end)
        self._ended = max(self._ended, end)
        return taken

    def _spread(self, border: int, end: float) -> None:
        """Give the characters before `border` the time from the last one's end to `end`."""
        end = max(end, self._ended)
        count = border - self._first
        if count > 0:
            step = (end - self._ended) / count
            for number, character in enumerate(self._rest[:count]):
                begin = self._ended + number * step
                self._timed.append(TimedCharacter(character, begin, begin + step))
            self._rest, self._first = self._rest[count:], border
        self._ended = end


def in_milliseconds(characters: list[TimedCharacter], origin: float) -> dict[str, Any] | None:
    """As sockets have it: times from `origin` (seconds) on, where the piece begins."""
    if not characters:
        return None
    starts = [round((character.start - origin) * 1000) for character in characters]
    ends = [round((character.end - origin) * 1000) for character in characters]
    return {
        "chars": [character.character for character in characters],
        "charStartTimesMs": starts,
        "charDurationsMs": [end - start for start, end in zip(starts, ends, strict=True)],
    }


def in_seconds(characters: list[TimedCharacter]) -> dict[str, Any] | None:
    """As HTTP has it: times from the beginning of the sound on."""
    if not characters:
        return None
    return {
        "characters": [character.character for character in characters],
        "character_start_times_seconds": [round(character.start, 3) for character in characters],
        "character_end_times_seconds": [round(character.end, 3) for character in characters],
    }
