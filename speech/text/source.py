"""The readable text of a text: one Unicode form, and for every character the range of the original it stands for."""

from __future__ import annotations

import re
import unicodedata
from array import array
from dataclasses import dataclass

from speech.text.emojis import EMOJI

BREAK = "\ue001"
"""Stands in the readable text where a paragraph, heading, list item or row ends."""
CELL = "\ue002"
"""Stands where a cell of a table ends, or a break was asked for."""
CODE = "\ue003"
"""Stands for a block of code that is announced instead of read."""

_PLAIN = re.compile(r"[\n -~]+")
_MARKS = 4
"""Marks on one letter that are looked at; more than any script stacks, and what bounds the cost of composing."""
_AS_IS = frozenset("…№™℠⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ′″—–“”•")
_MAPPED = {
    **dict.fromkeys("’‘ʼ‛", "'"),
    **dict.fromkeys("‐‑‒−﹣－", "-"),
    **dict.fromkeys("―⸺﹘", "—"),
    **dict.fromkeys("«„‟「『《〈‹", "“"),
    **dict.fromkeys("»」』》〉›", "”"),
    **dict.fromkeys("。｡।॥։።", "."),
    **dict.fromkeys("、､،﹑", ","),
    "؛": ";",
    "؟": "?",
    "⁄": "/",
    "∕": "/",
    "∶": ":",
    "⋅": "×",
    "∙": "×",
}
_SPACES = {
    "\n": "\n",
    "\u00a0": "\u00a0",
    "\u202f": "\u00a0",
    "\u2009": "\u00a0",
    "\u2028": "\n",
    "\u2029": "\n",
    "\x85": "\n",
}
_DROPPED = {"Cs": "surrogate", "Cc": "control", "Cf": "format", "Co": "private use", "Cn": "unassigned"}


@dataclass(frozen=True, slots=True)
class Removed:
    """Characters of the original, `start` to `end`, that are not spoken, and by which policy."""

    start: int
    end: int
    policy: str


class Source:
    """Built from left to right by whoever reads the markup; each call takes the next characters of the original."""

    def __init__(self, original: str, *, keep_emoji: bool) -> None:
        self.original = original
        self.removed: list[Removed] = []
        self._keep_emoji = keep_emoji
        self._parts: list[str] = []
        self._starts = array("L")
        self._ends = array("L")
        self._last = ""

    def text(self) -> str:
        """All readable characters so far."""
        return "".join(self._parts)

    def range(self, start: int, end: int) -> tuple[int, int]:
        """The range of the original that the characters `start` to `end` of the readable text came from."""
        return self._starts[start], self._ends[end - 1]

    def put(self, text: str, start: int, end: int) -> None:
        """`text` stands for the characters `start` to `end` of the original."""
        if text:
            self._parts.append(text)
            self._starts.extend([start] * len(text))
            self._ends.extend([end] * len(text))
            self._last = text[-1]

    def drop(self, start: int, end: int, policy: str) -> None:
        if end > start:
            self.removed.append(Removed(start, end, policy))

    def copy(self, start: int, end: int) -> None:
        """The characters `start` to `end` of the original, in one Unicode form."""
        at = start
        while at < end:
            if plain := _PLAIN.match(self.original, at, end):
                stop = plain.end()
                if stop < end and _joins(self.original[stop]):
                    stop -= 1
                if stop > at:
                    self._parts.append(self.original[at:stop])
                    self._starts.extend(range(at, stop))
                    self._ends.extend(range(at + 1, stop + 1))
                    self._last = self.original[stop - 1]
                    at = stop
                    continue
            at = self._character(at, end)

    def _character(self, at: int, end: int) -> int:
        """One character with what belongs to it; where the next one starts."""
        if emoji := EMOJI.match(self.original, at, end):
            if self._keep_emoji:
                self._parts.append(emoji.group())
                self._starts.extend([at] * len(emoji.group()))
                self._ends.extend([emoji.end()] * len(emoji.group()))
                self._last = emoji.group()[-1]
            else:
                self.put(" ", at, emoji.end())
                self.drop(at, emoji.end(), "emoji")
            return emoji.end()
        character = self.original[at]
        if character == "\r":
            self.put("" if self.original[at + 1 : at + 2] == "\n" else "\n", at, at + 1)
            return at + 1
        if character.isspace():
            self.put(_SPACES.get(character, " "), at, at + 1)
            return at + 1
        category = unicodedata.category(character)
        stop = at + 1
        while stop < end and not self.original[stop].isascii() and unicodedata.category(self.original[stop])[0] == "M":
            stop += 1
        if category in _DROPPED or category[0] == "M":
            self.drop(at, stop, _DROPPED.get(category, "mark"))
            return stop
        cluster = self.original[at : min(stop, at + 1 + _MARKS)]
        for one in unicodedata.normalize("NFC", cluster):
            self.put(self._form(one, latin=cluster[0] <= "\u024f"), at, stop)
        return stop

    def _form(self, character: str, *, latin: bool) -> str:
        """A composed character as the rules expect it."""
        if character.isascii() or character in _AS_IS:
            return character
        if mapped := _MAPPED.get(character):
            return mapped
        if unicodedata.category(character)[0] == "M":
            return "" if latin else character
        if (digit := unicodedata.decimal(character, None)) is not None:
            return str(digit)
        if "\u2150" <= character <= "\u215e" or character in "¼½¾↉":
            return (" " if self._last.isdecimal() else "") + unicodedata.normalize("NFKC", character).replace("⁄", "/")
        if "\u2160" <= character <= "\u2188" and (number := unicodedata.numeric(character, None)):
            return f" {int(number)} "
        form = unicodedata.normalize("NFKC", character)
        return " " if form.isspace() else "".join(_MAPPED.get(one, one) for one in form)


def _joins(character: str) -> bool:
    """Whether it may change the plain character before it: an accent, or what makes a keycap of a digit."""
    return unicodedata.category(character)[0] == "M"
