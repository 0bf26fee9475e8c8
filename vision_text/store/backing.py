"""What a store has to be able to do: the rows of one collection, and the catalogue of all.

An adapter does what is said here and nothing else; what is common to all (the guard of the space, exactly once for each
document, rescoring, hybrid search) is in `Collection`. Everything blocks and is safe to call from several threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vision_text.embeddings.space import Space
from vision_text.store.filters import Filter
from vision_text.store.rows import CollectionInfo, FieldKind, Piece
from vision_text.store.scoring import Calibration, Vectors

Scored = list[tuple[Piece, float]]
"""The best first."""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows to be written: pieces, their vectors, and one bit for each number where the space is quantised."""

    pieces: Sequence[Piece]
    vectors: Vectors
    bits: NDArray[np.uint8] | None


class Backing(Protocol):
    """The rows of one generation of one collection."""

    def known(self, documents: Sequence[str]) -> dict[str, str]:
        """Of these documents those that are stored, with their hashes."""

    def present(self, ids: Sequence[str]) -> dict[str, str]:
        """Of these pieces those that are stored, with the hashes of their documents."""

    def writing(self) -> AbstractContextManager[None]:
        """Nobody else writes meanwhile, in whatever process. Raises CollectionBusy."""

    def add(self, block: Block) -> None:
        """All of them or none. Only within `writing`, and of documents that are not there."""

    def replace(self, block: Block, documents: Sequence[str]) -> None:
        """The same in place of everything of these documents. Only within `writing`."""

    def delete(self, where: Filter) -> int:
        """How many pieces went."""

    def count(self, where: Filter | None = None) -> int: ...

    def by_vector(self, query: NDArray[np.float32], where: Filter | None, limit: int) -> Scored:
        """The nearest by cosine similarity; only for float32 and float16."""

    def by_bits(self, bits: NDArray[np.uint8], where: Filter | None, limit: int) -> tuple[list[Piece], Vectors]:
        """Those with the fewest differing bits, and their stored vectors; only for int8 and binary."""

    def by_words(self, words: str, where: Filter | None, limit: int) -> Scored:
        """Those that hold the words, by BM25 or what the store has in its place."""

    def scan(self, where: Filter | None, rows: int, *, texts: bool = True) -> Iterator[tuple[list[Piece], Vectors]]:
        """Everything, so many rows at a time. Without `texts` pieces have their ids and hashes only."""

    def codes(self, where: Filter | None, rows: int) -> Iterator[tuple[list[str], Vectors]]:
        """The ids of all pieces and their stored vectors, so many at a time: what a search through all looks at."""

    def tidy(self) -> None:
        """Bring files and indexes in order; seconds to minutes, beside searches and writes."""


class Catalogue(Protocol):
    """All collections of a store, by owner and name. A name is switched from one generation to the next at once."""

    def create(
        self, name: str, owner: str, space: Space, fields: Mapping[str, FieldKind], ranges: Calibration | None
    ) -> CollectionInfo:
        """Raises CollectionExists."""

    def info(self, name: str, owner: str) -> CollectionInfo:
        """Raises CollectionNotFound."""

    def list(self, owner: str | None) -> list[CollectionInfo]:
        """By name; None: everybody's."""

    def rows(self, name: str, owner: str, *, next: bool = False) -> tuple[CollectionInfo, Backing, Calibration | None]:
        """The rows as they are now; with `next` those of the migration. Raises CollectionNotFound, StoreUnavailable."""

    def drop(self, name: str, owner: str) -> None:
        """Raises CollectionNotFound."""

    def begin(self, name: str, owner: str, space: Space, ranges: Calibration | None) -> None:
        """Make room for the next generation, unless it is there already in the same space."""

    def switch(self, name: str, owner: str) -> None:
        """From now on the next generation is the collection."""

    def give_up(self, name: str, owner: str) -> None:
        """Forget the next generation."""

    def sweep(self, name: str, owner: str) -> None:
        """Remove generations that were replaced some time ago."""

    def close(self) -> None: ...
