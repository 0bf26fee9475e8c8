"""Words as they are compared: without case and punctuation, single characters where a script has no spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from batch_jobs.transcript import Segment
from speech.events import Word

_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003134f])"
)
"""Thai, Lao, Burmese, Khmer, Kana, Han."""
_APART = re.compile(r"[^\w']+|_+")
_STUTTER = re.compile(r"(.{1,6}?)\1{3,}", re.DOTALL)
"""Something said four times and more within one word: "hahahahaha", "noooooo"."""
_STUTTER_LETTERS = 10


@dataclass(frozen=True, slots=True)
class Unit:
    """`key` is what is compared; times in seconds; `word` counts the words of the channel from 0."""

    key: str
    start: float
    end: float
    word: int
    confidence: float

    @property
    def letters(self) -> int:
        return len(self.key)

    @property
    def unspaced(self) -> bool:
        return bool(_UNSPACED.match(self.key))


def words_of(segment: Segment) -> tuple[Word, ...]:
    """A segment's words; spread evenly over it where the model gave no times."""
    if segment.words or not segment.text.strip():
        return segment.words
    texts = segment.text.split()
    each = (segment.end - segment.start) / len(texts)
    return tuple(
        Word(f" {text}", segment.start + n * each, segment.start + (n + 1) * each, 1.0) for n, text in enumerate(texts)
    )


def units(words: Sequence[Word]) -> list[Unit]:
    """The units of words in order. A word of several ("8-12-8") shares its time among them by letters."""
    out: list[Unit] = []
    for number, word in enumerate(words):
        keys = _keys(word.text)
        letters = sum(map(len, keys))
        at, each = word.start, (word.end - word.start) / max(letters, 1)
        for key in keys:
            out.append(Unit(key, at, at + each * len(key), number, word.confidence))
            at += each * len(key)
    return out


def _keys(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    out: list[str] = []
    for part in _APART.split(plain):
        for piece in _UNSPACED.split(part):
            if key := piece.replace("'", ""):
                out += _stuttered(key)
    # A row of stops or notes is a loop as well.
    return out or ([text.strip()] if text.strip() else [])


def _stuttered(key: str) -> list[str]:
    found = _STUTTER.search(key)
    if found is None or len(found[0]) < _STUTTER_LETTERS:
        return [key]
    unit = found[1]
    out = [unit] * (len(found[0]) // len(unit))
    return [part for part in (key[: found.start()], *out, key[found.end() :]) if part]
