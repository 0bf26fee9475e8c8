"""A user's lexicon: how certain words are to be said."""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from workers.errors import InputInvalid, InputTooLarge

ENTRIES = 10_000
WORD = 64
"""Longest word or phrase, in characters."""
SAID = 256
"""Longest respelling, in characters."""


class Lexicon:
    """Words and phrases with a respelling in plain words ("kay ate ees"), or their phonemes between slashes ("/kˈA/").

    A word written without capitals is meant in any case; one with a capital only as it is written. The longest entry
    wins, and an exact one before one that is meant in any case. Respellings are read by the same rules as text.
    Raises InputInvalid or InputTooLarge (param "lexicon") for entries that can not be used.
    """

    def __init__(self, entries: Mapping[str, str] | None = None) -> None:
        entries = {} if entries is None else entries
        if not isinstance(entries, Mapping):
            raise InputInvalid("A lexicon is a table of words and how they are said.", param="lexicon")
        if len(entries) > ENTRIES:
            raise InputTooLarge(f"A lexicon has at most {ENTRIES} words.", param="lexicon")
        self._exact: dict[str, tuple[str, str]] = {}
        self._any: dict[str, tuple[str, str]] = {}
        lengths: dict[str, set[int]] = {}
        for word, said in entries.items():
            key = _key(word)
            self._check(word, key, said)
            table = self._any if key == key.lower() else self._exact
            table[key] = ("", said[1:-1].strip()) if _is_phonemes(said) else (_words(word, said), "")
            lengths.setdefault(key[0].lower(), set()).add(len(key))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        """From a .json or .toml file that holds one table of words."""
        try:
            text = path.read_text("utf-8")
            table = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        except (OSError, ValueError) as error:
            raise InputInvalid(f"The lexicon {path.name} can not be read: {error}", param="lexicon") from error
        return cls(table)

    def __len__(self) -> int:
        return len(self._exact) + len(self._any)

    def find(self, text: str, at: int) -> tuple[int, str, str] | None:
        """The entry that `text` has at `at`: where it ends, its words, its phonemes (one of the two is '')."""
        for length in self._lengths.get(text[at].lower(), ()):
            end = at + length
            if end > len(text) or _inside_word(text, at) or _inside_word(text, end):
                continue
            written = text[at:end]
            if found := self._exact.get(written) or self._any.get(written.lower()):
                return end, *found
        return None

    @staticmethod
    def _check(word: str, key: str, said: object) -> None:
        if not key or len(key) > WORD:
            raise InputInvalid(f"A word of a lexicon has 1 to {WORD} characters: {word!r:.80}", param="lexicon")
        if not isinstance(said, str) or not said.strip(" /") or len(said) > SAID:
            raise InputInvalid(
                f"{word!r} needs a respelling, or phonemes between slashes, of 1 to {SAID} characters.", param="lexicon"
            )


def _key(word: object) -> str:
    if not isinstance(word, str):
        raise InputInvalid(f"A word of a lexicon is text, not {word!r:.80}", param="lexicon")
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", word).replace("’", "'")).strip()


def _is_phonemes(said: str) -> bool:
    return len(said) > 2 and said[0] == said[-1] == "/"


def _words(word: str, said: str) -> str:
    from speech.text.normaliser import normalise  # the normaliser needs lexicons to be there first

    words = " ".join(one.text for one in normalise(said) if one.rule != "punctuation")
    if not words:
        raise InputInvalid(f"The respelling of {word!r} has no words.", param="lexicon")
    return words


def _inside_word(text: str, at: int) -> bool:
    """Whether the border at `at` has letters or digits on both sides."""
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum()
