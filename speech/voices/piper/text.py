"""What a Piper voice is given: text, with the phonemes of a lexicon in double brackets."""

from __future__ import annotations

from collections.abc import Sequence

from speech.text.spoken import Spoken
from speech.voices.joined import join

TEXT_LIMIT = 4000
"""Characters of a segment, so that a request always fits in a pipe that is empty (64 KiB, 12 bytes a character)."""


def written(tokens: Sequence[Spoken]) -> tuple[str, list[int]]:
    """The text, and the token of each of its characters (-1: none). Brackets of the text itself mean nothing."""
    text, owners = join(tokens, [_written(token) for token in tokens])
    if text.endswith("]]"):  # else the voice ends with a burst
        text, owners = f"{text}.", [*owners, -1]
    return text, owners


def _written(token: Spoken) -> str:
    if token.phonemes:
        return f"[[{token.phonemes.replace('[', '').replace(']', '')}]]"
    return token.text.replace("[", "(").replace("]", ")")
