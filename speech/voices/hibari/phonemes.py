"""From normalised text to the voice's symbols, by the package's grapheme-to-phoneme rules, token by token.

The rules look at the whole sentence ("the apple", "used to", "read" by its part of speech), so they are given the
tokens joined, and every phoneme is traced back to the token it came from. The package's own normaliser is never run.
"""

from __future__ import annotations

import json
import logging
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hibari.g2p import G2P
from hibari.g2p.token import Tok

from speech.text.spoken import Spoken
from speech.tts import Phonemes

log = logging.getLogger(__name__)

PAD = 0
_SPACE = " "
_NO_SOUND = frozenset(';:,.!?—…"()“” ')
_SPOKEN_MARKS = {mark: mark for mark in ';:,.!?—…"()“”'} | {"-": "—", "–": "—", "„": "“", "«": "“", "»": "”"}
_LETTER_A = "ˈA"
"""The rules would take an A that is spelled for the article."""
_PUNCTUATION = frozenset("'‘’‚‹›[]{}") | frozenset(_SPOKEN_MARKS)


class _Piece(Tok):  # type: ignore[misc]
    """A word of the rules' own tokeniser that remembers which of our tokens it lies in."""

    __slots__ = ("source",)

    def copy(self, **changes: Any) -> _Piece:
        made = _Piece(*(getattr(self, name) for name in Tok.__slots__))
        made.source = self.source
        for name, value in changes.items():
            setattr(made, name, value)
        return made


class Phonemizer:
    """American English. Thread-safe: the rules and dictionaries are only read."""

    def __init__(self, directory: Path) -> None:
        self.vocabulary: dict[str, int] = json.loads((directory / "vocab.json").read_text("utf-8"))
        self._rules = G2P()
        self._rules.oov("speechlane")  # the network for unknown words is loaded on its first use

    def __call__(self, tokens: Sequence[Spoken]) -> Phonemes:
        """Symbols of the tokens, a silence before and after. No token with sound: no symbols."""
        try:
            sound = self._sound(tokens)
        except (ValueError, TypeError, LookupError) as error:
            # The rules stumble over some letters that few languages have (a capital I with a dot).
            log.warning("the phoneme rules failed (%s); letters are spoken without their marks", error)
            sound = self._sound([replace(token, text=_bare(token.text)) for token in tokens])
        known = [(self.vocabulary[c], -1 if c == _SPACE else source, c) for c, source in sound if c in self.vocabulary]
        while known and known[0][2] == _SPACE:
            known.pop(0)
        while known and known[-1][2] == _SPACE:
            known.pop()
        text = [""] * len(tokens)
        for _, source, character in known:
            if source >= 0:
                text[source] += character
        if all(character in _NO_SOUND for _, _, character in known):
            return Phonemes((), (), tuple(text))
        ids, sources = (PAD, *(i for i, _, _ in known), PAD), (-1, *(s for _, s, _ in known), -1)
        return Phonemes(ids, sources, tuple(text))

    def _sound(self, tokens: Sequence[Spoken]) -> list[tuple[str, int]]:
        """Phonemes in order, each with its token, -1 for a space."""
        pieces = self._pieces(tokens)
        if not pieces:
            return []
        sound: list[tuple[str, int]] = []
        cut = self._rules.retokenize([piece.copy() for piece in pieces])
        for words, made in zip(cut, self._rules.phonemize_tokens(pieces), strict=True):
            source = (words[0] if isinstance(words, list) else words).source
            sound += [(character, source) for character in made.phonemes or ""]
            sound += [(_SPACE, -1)] * bool(made.whitespace)
        return sound

    def _pieces(self, tokens: Sequence[Spoken]) -> list[_Piece]:
        """The tokens as the rules cut them further, with parts of speech."""
        pieces: list[_Piece] = []
        for n, token in enumerate(tokens):
            after = tokens[n + 1] if n + 1 < len(tokens) else None
            # Punctuation stays where the text has it: without a space where there was none.
            touching = after is not None and after.start <= token.end and not (_is_word(token) and _is_word(after))
            given = token.phonemes or None
            if given is None and _PUNCTUATION.issuperset(token.text):
                given = _mark(token.text, opening=touching and after is not None and _is_word(after))
            for word, space in self._rules.tokenizer("".join(map(_plain_digit, token.text))):
                if given is None and word == "A" and _spelled(token):
                    given = _LETTER_A
                piece = _Piece(word, whitespace=space, phonemes=given, rating=None if given is None else 5)
                piece.source = n
                pieces.append(piece)
                given = None if given is None or given is _LETTER_A else ""
            if pieces and after is not None and not touching:
                pieces[-1].whitespace = _SPACE
        for piece, tag in zip(pieces, self._rules.tagger([piece.text for piece in pieces]), strict=True):
            piece.tag = tag
        return pieces


def _mark(text: str, *, opening: bool) -> str:
    """The phonemes of punctuation, '' for marks the voice does not know. The rules themselves would take a mark that
    touches a word for a part of it, and lose the mark or what they know about the word."""
    quote = "“" if opening else "”"
    return "".join(_SPOKEN_MARKS.get(character, "") for character in text).replace('"', quote)


def _plain_digit(character: str) -> str:
    """Superscript and circled digits as digits: the rules take them for such and then can't read them."""
    odd = character.isdigit() and not character.isdecimal()
    return str(unicodedata.digit(character)) if odd else character


def _bare(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def _spelled(token: Spoken) -> bool:
    words = token.text.split()
    return token.rule == "letters" or (len(words) > 1 and all(len(word) == 1 and word.isupper() for word in words))


def _is_word(token: Spoken) -> bool:
    return any(map(str.isalnum, token.text))
