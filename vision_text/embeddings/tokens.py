"""Texts to token ids, on all cores while others have the interpreter."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from vision_text.models import ModelUnusable
from workers.errors import InputInvalid

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")  # it is asked for knowingly, and nothing forks here

Ids = npt.NDArray[np.int64]


class Tokeniser:
    """A model's own. `most` tokens of a text, special ones included."""

    def __init__(self, directory: Path, most: int | None, vocabulary: int) -> None:
        path = directory / "tokenizer.json"
        if not path.is_file():
            raise ModelUnusable(f"{directory} has no tokenizer.json; save the model's fast tokeniser beside it")
        self._tokeniser = Tokenizer.from_file(str(path))
        self._tokeniser.no_truncation()
        self._tokeniser.no_padding()
        self.most = most or 1 << 30
        self.vocabulary = vocabulary
        self.before, self.after = self._around()

    def _around(self) -> tuple[list[int], list[int]]:
        """The special tokens at both ends of a text."""
        bare = self._tokeniser.encode("a", add_special_tokens=False).ids
        whole = self._tokeniser.encode("a").ids
        for start in range(len(whole) - len(bare) + 1):
            if whole[start : start + len(bare)] == bare:
                return whole[:start], whole[start + len(bare) :]
        return [], []

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of each, uncut. Blocks; the interpreter is free meanwhile."""
        if not texts:
            return []
        return [np.array(found.ids, np.int64) for found in self._tokeniser.encode_batch_fast(list(texts))]

    def count(self, text: str) -> int:
        """Tokens of a text without the special ones."""
        return len(self._tokeniser.encode(text, add_special_tokens=False).ids) if text else 0

    def cut(self, ids: Ids) -> Ids:
        """At most `most` of them, with the special tokens of the end kept."""
        if len(ids) <= self.most:
            return ids
        end = len(self.after)
        return np.concatenate([ids[: self.most - end], ids[len(ids) - end :]])

    def take(self, ids: Sequence[int], name: str) -> Ids:
        """Ids that a client made itself. Raises InputInvalid when they cannot be this tokeniser's.

        A client that counts in OpenAI's tokens sends numbers that would all be valid here, and mean something else.
        What tells them apart are the special tokens at both ends.
        """
        if not all(type(n) is int and 0 <= n < self.vocabulary for n in ids):
            raise InputInvalid(f"{name} holds what is no token id; they go from 0 to {self.vocabulary - 1}", param=name)
        given, before, after = list(ids), self.before, self.after
        if given[: len(before)] != before or (after and given[-len(after) :] != after):
            raise InputInvalid(
                f"{name} holds token ids that are not of this model's tokeniser, which begin with {before} and end "
                f"with {after}; they are probably OpenAI's. Send text (LangChain: check_embedding_ctx_length=False)",
                param=name,
            )
        return np.array(given, np.int64)
