"""What the rules share: the readable text, and the tokens made of it so far."""

from __future__ import annotations

import re
from collections.abc import Callable

from speech.text.lexicon import Lexicon
from speech.text.options import TextOptions
from speech.text.source import BREAK, CELL, Source
from speech.text.spoken import Spoken
from speech.text.wordlists import listed

PUNCTUATION = "punctuation"
_ENDING = frozenset(".!?…:;,—")
_SPACE = re.compile(r"[\s\ue001\ue002]{0,64}")
_CLOSERS = "\"'”)]"
STARTERS = listed(
    "the a an this that these those it he she they we you i in on at but and so then there when if what who why how "
    "his her their our my your its as for after before now however meanwhile no yes not one some many most all each "
    "every let please also is are was were do does did can could would will should have has had"
)
"""Words that a sentence often begins with; after a point that may belong to an abbreviation they tell."""


class Reader:
    """Rules look at `text` and say what they found there; positions are those of the readable text."""

    def __init__(self, source: Source, options: TextOptions, lexicon: Lexicon) -> None:
        self.text = source.text()
        self.options = options
        self.lexicon = lexicon
        self.tokens: list[Spoken] = []
        self.last = ""
        """What was said last as it is written, in small letters; '' after punctuation."""
        self.last_rule = ""
        self._source = source

    def say(self, words: str, start: int, end: int, rule: str, phonemes: str = "") -> None:
        """Words for the characters `start` to `end`."""
        self.tokens.append(Spoken(words, *self._source.range(start, end), rule, phonemes))
        self.last, self.last_rule = self.text[start:end][:64].lower(), rule

    def mark(self, mark: str, start: int, end: int) -> None:
        """A punctuation mark. The same mark again, or a comma after any other, adds nothing."""
        first, stop = self._source.range(start, end)
        previous = self.tokens[-1] if self.tokens else None
        if previous is not None and previous.rule == PUNCTUATION:
            if previous.text == mark and mark not in '()“”"':
                self.tokens[-1] = Spoken(mark, previous.start, max(stop, previous.end), PUNCTUATION)
                return
            if mark == "," and previous.text in _ENDING:
                return
        self.tokens.append(Spoken(mark, first, stop, PUNCTUATION))
        self.last, self.last_rule = self.last if mark == ":" else "", PUNCTUATION

    def pause(self, mark: str, start: int, end: int) -> None:
        """A pause that nothing is written for; only where none is yet."""
        behind = next((one.text for one in reversed(self.tokens[-3:]) if one.text not in '”")'), "")
        if behind and behind not in _ENDING and behind not in "(“":
            self.mark(mark, start, end)

    def drop(self, start: int, end: int, policy: str) -> None:
        """The characters are not spoken."""
        self._source.drop(*self._source.range(start, end), policy)

    def char(self, at: int) -> str:
        """The character at `at`, a space outside the text."""
        return self.text[at] if 0 <= at < len(self.text) else " "

    def next_word(self, at: int) -> str:
        """The word that begins at `at` after spaces, '' when something else does."""
        found = _NEXT.match(self.text, at)
        return found[1] if found else ""

    def ends_sentence(self, at: int, *, sure: bool = False) -> bool:
        """Whether a point before `at`, which belongs to an abbreviation, ends the sentence as well.

        `sure`: any capital after it tells, for what is rarely followed by a name.
        """
        while self.char(at) in _CLOSERS and at < len(self.text):
            at += 1
        if at >= len(self.text):
            return True
        gap = _SPACE.match(self.text, at)
        behind = gap.end() if gap else at
        if behind >= len(self.text) or (gap and (BREAK in gap.group() or CELL in gap.group())):
            return True
        word = self.next_word(at)
        return behind > at and word[:1].isupper() and (sure or word.lower() in STARTERS)


_NEXT = re.compile(r"[ \u00a0\n\"“(']{0,8}([^\W\d_]{1,40}(?:'[a-z]{1,3})?)")
Rule = Callable[[Reader, int], int]
"""Says what begins at a position and returns where it ends; 0 when it is not this rule's."""
