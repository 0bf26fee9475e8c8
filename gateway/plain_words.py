"""Words without capitals and punctuation, as protocols have them whose recognisers know neither."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace

from speech.events import Word

SAID = "%&@#"
"""Punctuation by Unicode's account, and yet said aloud."""
JOINERS = "-'’/$€£#@&."
"""A word goes on behind these when no space follows."""


def whole_words(pieces: Iterable[Word]) -> list[Word]:
    """Words as they are written: the model takes "ill-disposed" for two, the second of which is "-disposed"."""
    words: list[Word] = []
    for piece in pieces:
        begins, before = piece.text[:1], words[-1].text[-1:] if words else ""
        if words and begins and not begins.isspace() and (before in JOINERS or not begins.isalnum()):
            last = words[-1]
            confidence = min(last.confidence, piece.confidence)
            words[-1] = replace(last, text=last.text + piece.text, end=piece.end, confidence=confidence)
        else:
            words.append(piece)
    return words


def plain_word(text: str) -> str:
    """One word in lower case, without what surrounds it: "'Well," becomes "well", "don't" stays. May be ""."""
    first, last = 0, len(text)
    while first < last and _mute(text[first]):
        first += 1
    while first < last and _mute(text[last - 1]):
        last -= 1
    return text[first:last].lower()


def plain_text(text: str, words: Sequence[Word] = ()) -> str:
    """A text of plain words. `words`, whole, tell where languages without spaces divide them."""
    if not words:
        return " ".join(plain for piece in text.split() if (plain := plain_word(piece)))
    pieces = [(word.text[:1].isspace(), plain_word(word.text)) for word in words]
    return "".join(f" {plain}" if spaced else plain for spaced, plain in pieces if plain).strip()


def _mute(character: str) -> bool:
    return character.isspace() or (unicodedata.category(character).startswith("P") and character not in SAID)
