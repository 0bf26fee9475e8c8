"""Tokens of a segment as one text again, for voices that take text, and which token each of its characters is of."""

from __future__ import annotations

import re
from collections.abc import Sequence

from speech.text.spoken import Spoken

_CLOSING = frozenset(".,;:!?…)]}»”’%")
_LONE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which no encoder takes."""
_OPENING = frozenset("([{«“‘¿¡")


def join(tokens: Sequence[Spoken], text_of: Sequence[str] | None = None) -> tuple[str, list[int]]:
    """The text, and for each of its characters the index of its token; -1 for the spaces between.

    `text_of` replaces what is written for each token.
    """
    text: list[str] = []
    owners: list[int] = []
    opened = True
    for i, token in enumerate(tokens):
        written = token.text if text_of is None else text_of[i]
        if not written:
            continue
        written = _LONE.sub("\ufffd", written)
        if not opened and token.text not in _CLOSING:
            text.append(" ")
            owners.append(-1)
        text.append(written)
        owners += [i] * len(written)
        opened = token.text in _OPENING
    return "".join(text), owners


def has_sound(token: Spoken) -> bool:
    """Whether there is anything to say in it: a letter, a digit, or phonemes from a lexicon."""
    return bool(token.phonemes) or any(character.isalnum() for character in token.text)
