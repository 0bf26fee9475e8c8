"""A collection: documents in pieces, each document exactly once, found by meaning, by words or by both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from vision_text.embeddings.space import Space, check_same
from vision_text.store.backing import Backing, Block
from vision_text.store.filters import All, Compare, Filter, within
from vision_text.store.rows import MAX_ID, CollectionInfo, Hit, Piece, Written, fits
from vision_text.store.scoring import (
    Best,
    Calibration,
    Vectors,
    as_floats,
    check_vectors,
    floats_of,
    fuse,
    signs,
    similarities,
)
from workers.errors import InputInvalid

MAX_LIMIT = 1000
MAX_WORDS = 4000
"""Characters of a search for words."""
EXACT_ROWS = 100_000
"""Up to so many pieces every int8 vector is looked at; beyond, those whose bits are near are."""
OVERSAMPLE = 10
"""Candidates by bits for each hit that is asked for, before they are scored again."""
FUSED = 4
"""Hits of each kind of search for each that is asked for, before the two are made one."""
SCAN_ROWS = 8192
_WRITE = 500
"""Ids that are asked for at once."""


class Collection:
    """One generation of a collection, as it was opened. Blocking and thread-safe."""

    def __init__(self, info: CollectionInfo, backing: Backing, ranges: Calibration | None) -> None:
        self.info, self.ranges = info, ranges
        self._backing = backing

    @property
    def space(self) -> Space:
        """What all its vectors are."""
        return self.info.space

    def check(self, space: Space, doing: str) -> None:
        """Raises SpaceMismatch unless vectors of `space` may be stored here."""
        check_same(self.space, space, f"{doing} the collection {self.info.name!r}")

    def known(self, documents: Sequence[str]) -> dict[str, str]:
        """Of these documents those that are stored, with their hashes: who has the same need not be embedded again."""
        found: dict[str, str] = {}
        for at in range(0, len(documents), _WRITE):
            found |= self._backing.known(documents[at : at + _WRITE])
        return found

    def put(self, pieces: Sequence[Piece], vectors: Vectors, space: Space) -> Written:
        """Store whole documents, in place of what was stored under their ids; all of them or none.

        What is stored already with the same hash stays as it is. Write thousands of pieces at a time: every write
        leaves a file. Raises SpaceMismatch, InputInvalid, CollectionBusy.
        """
        self.check(space, "add to")
        found = check_vectors(vectors, space, len(pieces))
        self._check(pieces)
        hashes = {piece.document: piece.hash for piece in pieces}
        with self._backing.writing():
            known = self.known(list(hashes))
            wanted = [n for n, piece in enumerate(pieces) if known.get(piece.document) != piece.hash]
            replaced = [document for document, hash in known.items() if hashes[document] != hash]
            if wanted:
                block = self._block([pieces[n] for n in wanted], found[wanted])
                if replaced:
                    self._backing.replace(block, replaced)
                else:
                    self._backing.add(block)
        return Written(len(hashes) - len(known), len(replaced), len(known) - len(replaced))

    def copy(self, pieces: Sequence[Piece], vectors: Vectors, space: Space) -> None:
        """Store pieces of another generation, whatever documents they are parts of. Pieces that are there stay."""
        self.check(space, "add to")
        found = check_vectors(vectors, space, len(pieces))
        with self._backing.writing():
            there = self.present([piece.id for piece in pieces])
            wanted = [n for n, piece in enumerate(pieces) if there.get(piece.id) != piece.hash]
            changed = [pieces[n].id for n in wanted if pieces[n].id in there]
            for at in range(0, len(changed), _WRITE):
                self._backing.delete(within("id", changed[at : at + _WRITE]))
            if wanted:
                self._backing.add(self._block([pieces[n] for n in wanted], found[wanted]))

    def present(self, ids: Sequence[str]) -> dict[str, str]:
        """Of these pieces those that are stored, with the hashes of their documents."""
        found: dict[str, str] = {}
        for at in range(0, len(ids), _WRITE):
            found |= self._backing.present(ids[at : at + _WRITE])
        return found

    def delete(self, documents: Sequence[str] = (), source: str | None = None, where: Filter | None = None) -> int:
        """Remove documents by id, everything of a source, or what a filter finds; how many pieces went.

        Raises InputInvalid when nothing is named, for that would be everything.
        """
        if not documents and source is None and where is None:
            raise InputInvalid("Name documents, a source or a filter; to remove all, drop the collection.")
        removed = 0
        with self._backing.writing():
            for at in range(0, len(documents), _WRITE):
                removed += self._backing.delete(within("document", documents[at : at + _WRITE]))
            if source is not None:
                removed += self._backing.delete(Compare("source", "eq", source))
            if where is not None:
                removed += self._backing.delete(where)
        return removed

    def remove(self, ids: Sequence[str]) -> int:
        """Remove pieces, whatever documents they are parts of: for copies of another generation."""
        with self._backing.writing():
            return sum(self._backing.delete(within("id", ids[at : at + _WRITE])) for at in range(0, len(ids), _WRITE))

    def writing(self) -> AbstractContextManager[None]:
        """Nobody else writes meanwhile. Raises CollectionBusy."""
        return self._backing.writing()

    def count(self, where: Filter | None = None) -> int:
        """Pieces."""
        return self._backing.count(where)

    def documents(self, where: Filter | None = None) -> int:
        """Documents."""
        first = Compare("piece", "eq", 0.0)
        return self._backing.count(first if where is None else All((first, where)))

    def search(
        self,
        *,
        vector: NDArray[np.float32] | None = None,
        space: Space | None = None,
        words: str | None = None,
        where: Filter | None = None,
        limit: int = 10,
    ) -> list[Hit]:
        """The best pieces, the best first: by a vector and its `space`, by words, or by both.

        The vector is one of the collection's space, or of the same at float32. Raises SpaceMismatch, InputInvalid.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise InputInvalid(f"limit is {limit} but must be from 1 to {MAX_LIMIT}.", param="limit")
        if words is not None and len(words) > MAX_WORDS:
            raise InputInvalid(f"The query has over {MAX_WORDS} characters; ask for less.", param="query")
        if vector is None and (words is None or not words.strip()):
            raise InputInvalid("Nothing is searched for: give a text or a vector.", param="query")
        many = limit if vector is None or words is None else limit * FUSED
        near = self._nearest(vector, space, where, many) if vector is not None else []
        said = self._backing.by_words(words, where, many) if words is not None else []
        if words is None:
            return [Hit(piece, score, similarity=score) for piece, score in near[:limit]]
        if vector is None:
            return [Hit(piece, score, words=score) for piece, score in said[:limit]]
        pieces = {piece.id: piece for piece, _ in (*near, *said)}
        similarity = {piece.id: score for piece, score in near}
        matched = {piece.id: score for piece, score in said}
        fused = fuse(similarity, matched)
        return [
            Hit(pieces[id], score, similarity.get(id), matched.get(id)) for id, score in list(fused.items())[:limit]
        ]

    def rows(self, where: Filter | None = None, size: int = SCAN_ROWS) -> Iterator[tuple[list[Piece], Vectors]]:
        """Everything that is stored, in blocks, as it was stored."""
        return self._backing.scan(where, size)

    def hashes(self, size: int = SCAN_ROWS) -> Iterator[dict[str, str]]:
        """The ids of all pieces with the hashes of their documents, in blocks."""
        for pieces, _ in self._backing.scan(None, size, texts=False):
            yield {piece.id: piece.hash for piece in pieces}

    def tidy(self) -> None:
        """Bring files and indexes in order. It takes seconds to minutes: never while somebody waits for an answer."""
        self._backing.tidy()

    def _nearest(
        self, vector: NDArray[np.float32], space: Space | None, where: Filter | None, limit: int
    ) -> list[tuple[Piece, float]]:
        query = self._query(vector, space)
        if self.space.precision in ("float32", "float16"):
            return self._backing.by_vector(query, where, limit)
        if self.space.precision == "int8" and self._backing.count() <= EXACT_ROWS:
            best = Best(limit)
            for ids, codes in self._backing.codes(where, SCAN_ROWS):
                best.see(ids, similarities(query, self._floats(codes)))
            found = best.found
            pieces = [piece for some, _ in self._backing.scan(within("id", list(found)), SCAN_ROWS) for piece in some]
            return sorted(((piece, found[piece.id]) for piece in pieces), key=lambda one: -one[1]) if found else []
        pieces, codes = self._backing.by_bits(signs(query), where, limit * OVERSAMPLE)
        if not pieces:
            return []
        scores = similarities(query, self._floats(codes))
        order = np.argsort(-scores, kind="stable")[:limit]
        return [(pieces[n], float(scores[n])) for n in order]

    def _query(self, vector: NDArray[np.float32], space: Space | None) -> NDArray[np.float32]:
        if space is None:
            raise InputInvalid("A vector comes with the space that it is of.", param="space")
        wide = as_floats(self.space)
        # A query that is not rounded as the stored vectors are is of the same space, and finds more.
        check_same(self.space if space == self.space else wide, space, f"query the collection {self.info.name!r}")
        block = check_vectors(np.atleast_2d(vector), space, 1)
        found: NDArray[np.float32] = floats_of(block, space, self.ranges)[0]
        return found

    def _floats(self, vectors: Vectors) -> NDArray[np.float32]:
        return floats_of(vectors, self.space, self.ranges)

    def _block(self, pieces: list[Piece], vectors: Vectors) -> Block:
        if self.space.precision == "int8":
            return Block(pieces, vectors, signs(self._floats(vectors)))
        return Block(pieces, vectors, None)

    def _check(self, pieces: Sequence[Piece]) -> None:
        ids: set[str] = set()
        for piece in pieces:
            if not piece.document or len(piece.document) > MAX_ID or len(piece.source) > MAX_ID or "\0" in piece.id:
                raise InputInvalid(f"An id has 1 to {MAX_ID} characters, not {len(piece.document)}.", param="id")
            if piece.id in ids:
                raise InputInvalid(f"{piece.id[:80]} comes twice in one batch.", param="id")
            ids.add(piece.id)
            for name, value in piece.fields.items():
                kind = self.info.fields.get(name)
                if kind is None or not fits(value, kind):
                    raise InputInvalid(
                        f"The field {name} of {piece.document[:80]} is no {kind or 'field'}.", param=name
                    )
