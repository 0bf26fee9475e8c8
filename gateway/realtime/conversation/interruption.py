"""Whether what a listener lets out while somebody speaks to them is meant to interrupt. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_HUM = re.compile(r"(?:m+|h+m+|m+h+m*|u+h*|a+h*|o+h*|e+h*|u+h+u+h+|a+h+a+|hu+h|u+m+|e+r+m?|h+a+|(?:ha){2,}|(?:he){2,})")
_ASSENT = frozenset(
    re.findall(
        r"\w+",
        "yeah yep yes yup ya okay ok right sure alright exactly indeed totally wow nice cool good great interesting "
        "i see got it of course ja genau stimmt klar gut oui ouais voilà sí vale claro sì certo",
    )
)
_MOST_ASSENT = 3
"""Words of assent in a row; more of them are somebody talking."""
_AT_ONCE = frozenset(
    re.findall(r"\w+", "stop wait no hey sorry pause quiet enough halt nein warte arrête attends non para espera")
)
"""Single words that interrupt before it is known whether others follow."""
UNSURE = 0.35
"""Confidence of a transcript under which a short noise is not taken for words."""
SHORT = 1.0


def is_backchannel(text: str) -> bool:
    """Nothing, or only "mm-hmm", "yeah" and their like."""
    words = _words(text)
    return all(_HUM.fullmatch(word) for word in words) or (
        len(words) <= _MOST_ASSENT and all(word in _ASSENT or _HUM.fullmatch(word) for word in words)
    )


def interrupts_already(text: str) -> bool:
    """Whether the beginning of what is being said is enough to tell. What may still change must be two real words."""
    words = [word for word in _words(text) if word not in _ASSENT and not _HUM.fullmatch(word)]
    return len(words) > 1 or any(word in _AT_ONCE for word in words)


def is_interruption(text: str, confidence: float, seconds: float) -> bool:
    """Whether a whole utterance was one, `seconds` of speech transcribed with `confidence`."""
    return not is_backchannel(text) and not (confidence < UNSURE and seconds < SHORT)


def _words(text: str) -> list[str]:
    return list(_letters(text.lower().replace("-", " ").split()))


def _letters(words: Iterable[str]) -> Iterable[str]:
    for word in words:
        letters = "".join(character for character in word if character.isalpha())
        if letters:
            yield letters
