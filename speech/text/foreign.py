"""Letters outside the Latin alphabet: transliterated, or called by their names, never dropped."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from anyascii import anyascii

from speech.text import numbers

_HAN = "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_JOINED = (
    rf"[^\W\d_A-Za-zÀ-ſ{_HAN}]"  # any other letter; the marks of Indic scripts count as parts of words, too
    "|[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0dff\u0e30-\u0e4e]"
)
FOREIGN = re.compile(rf"[{_HAN}]|(?:{_JOINED}){{1,48}}")
"""One ideograph, or a word in another script (a piece of it when it is very long)."""


@lru_cache(maxsize=8192)
def transliterated(text: str) -> str:
    """Latin letters for `text`; its Unicode name where there are none. Never ''."""
    if len(text) == 1 and (name := _greek(text)):
        return name
    latin = anyascii(text)
    latin = "" if re.search(r"\d", latin) else re.sub(r"[^A-Za-z' ]+", "", latin).strip(" '")
    if latin:
        return latin.lower() if not text[0].isupper() else latin.capitalize()
    return named(text)


def _greek(letter: str) -> str:
    name = unicodedata.name(letter, "")
    found = re.match(r"GREEK (?:SMALL|CAPITAL) LETTER (?:FINAL )?(\w+)$", name)
    return found[1].lower().replace("lamda", "lambda") if found else ""


@lru_cache(maxsize=4096)
def named(text: str) -> str:
    """The names of characters as words: "♜" is "black chess rook". Never ''."""
    words = []
    for one in text:
        name = unicodedata.name(one, "")
        if not name and one.isalnum():
            name = "unknown letter"
        for word in re.findall(r"[A-Z]+|\d+", name):
            words.append(numbers.digits(word) if word.isdecimal() else word.lower())
    return " ".join(words) or "unknown sign"
