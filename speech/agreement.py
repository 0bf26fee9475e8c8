"""Local agreement: which words of a growing utterance will not change any more.

Each partial decodes the whole tail behind the stable words again. A word becomes stable when every hypothesis of the
last `APART` seconds of audio has it at the same place, and at least one of them was made before those seconds: so no
word rests on the cut-off end of the audio alone. The newest word of a hypothesis is always held back.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from speech.asr import Hypothesis

APART = 0.75
"""Seconds of audio between the hypotheses that must agree; Whisper guesses at words cut off shorter than this."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """A word with the punctuation around it, and the tokens it takes."""

    text: str
    tokens: tuple[int, ...]

    @property
    def key(self) -> str:
        return "".join(c for c in self.text if c.isalnum()).casefold()


class LocalAgreement:
    """The stable words of one piece of audio: `text` and `tokens` belong to each other and only grow."""

    def __init__(self) -> None:
        self.text = ""
        self.tokens: tuple[int, ...] = ()
        self.tail: tuple[int, ...] = ()
        """Tokens of the newest hypothesis behind the stable ones."""
        self._earlier: deque[tuple[float, list[_Unit]]] = deque()

    def update(self, hypothesis: Hypothesis, heard: float, *, settled: bool = True) -> tuple[str, str]:
        """Take the hypothesis over the first `heard` seconds; it continues behind `tokens`.

        Returns (new stable text to append, unstable text behind it). Not `settled`: nothing becomes stable.
        """
        units = _units(hypothesis)
        while len(self._earlier) > 1 and self._earlier[1][0] <= heard - APART:
            self._earlier.popleft()
        agreed = 0
        if settled and self._earlier and self._earlier[0][0] <= heard - APART:
            agreed = min(_agreed(units, earlier) for _, earlier in self._earlier)
        stable, rest = units[:agreed], units[agreed:]
        self._earlier = deque((at, earlier[agreed:]) for at, earlier in self._earlier)
        self._earlier.append((heard, rest))
        new = "".join(unit.text for unit in stable)
        self.text += new
        self.tokens += tuple(token for unit in stable for token in unit.tokens)
        self.tail = tuple(token for unit in rest for token in unit.tokens)
        return new, "".join(unit.text for unit in rest)

    def rest(self, text: str) -> str:
        """What the final `text` has beyond the stable words: to append when the audio is complete."""
        if text.startswith(self.text.strip()):
            return text[len(self.text.strip()) :]
        return "".join(f" {word}" for word in text.split()[len(self.text.split()) :])


def _agreed(units: list[_Unit], earlier: list[_Unit]) -> int:
    """Words in common from the left, the newest held back; the last must be punctuated alike, for it may end there."""
    limit = min(len(units) - 1, len(earlier))
    count = 0
    while count < limit and units[count].key == earlier[count].key:
        count += 1
    while count and units[count - 1].text.strip() != earlier[count - 1].text.strip():
        count -= 1
    return count


def _units(hypothesis: Hypothesis) -> list[_Unit]:
    """Pieces as words: closing punctuation joins the word before it, opening punctuation the one behind it."""
    units: list[_Unit] = []
    opening = _Unit("", ())
    at = 0
    for text, count in hypothesis.pieces:
        piece = _Unit(text, hypothesis.tokens[at : at + count])
        at += count
        if piece.key:
            units.append(_join(opening, piece))
            opening = _Unit("", ())
        elif units and not text.startswith(" ") and not opening.text:
            units[-1] = _join(units[-1], piece)
        else:
            opening = _join(opening, piece)
    if opening.text:
        units.append(opening)
    return units


def _join(a: _Unit, b: _Unit) -> _Unit:
    return _Unit(a.text + b.text, a.tokens + b.tokens)
