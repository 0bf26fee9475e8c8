"""A collection to another model: embedded anew beside the old one, which is searched and written to meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from vision_text.ingest.pipeline import TIDY_WRITES, Embeds
from vision_text.store.collection import Collection
from vision_text.store.rows import Piece
from vision_text.store.scoring import Calibration
from vision_text.store.store import Store
from workers.errors import InputInvalid

BLOCK = 2000
"""Pieces that are embedded and written at once."""


@dataclass(frozen=True, slots=True)
class Moved:
    """`done` of `size` pieces are in the new space; `tokens` were embedded in this run."""

    done: int
    size: int
    tokens: int


class Migration:
    """One collection's way into another space; what an interrupted one has made is gone on with."""

    def __init__(
        self,
        store: Store,
        name: str,
        embeds: Embeds,
        *,
        owner: str = "",
        ranges: Calibration | None = None,
        on_progress: Callable[[Moved], None] = lambda _: None,
    ) -> None:
        self._store, self._name, self._owner, self._embeds = store, name, owner, embeds
        self._ranges, self._on_progress = ranges, on_progress
        self._tokens = self._writes = 0
        self.stop = asyncio.Event()
        """Set by whoever wants it to end early; the same call goes on then."""

    async def run(self) -> Moved | None:
        """Until the collection is of the new space; None when it was stopped. Raises InputInvalid, naming the first
        piece that the new model cannot take; the old collection stays as it is then."""
        old = await asyncio.to_thread(self._store.collection, self._name, owner=self._owner)
        if old.space == self._embeds.space:
            raise InputInvalid(f"The collection {self._name!r} is in this space already.", param="model")
        new = await asyncio.to_thread(
            self._store.begin_migration, self._name, self._embeds.space, owner=self._owner, ranges=self._ranges
        )
        # What is written to the old one meanwhile is found by looking again, until a look finds nothing.
        while True:
            changed = await self._copy(old, new)
            if self.stop.is_set():
                return None
            removed = await asyncio.to_thread(self._forget, old, new)
            if not changed and not removed and await asyncio.to_thread(self._switch, old, new):
                break
        await asyncio.to_thread(self._store.tidy, self._name, owner=self._owner)
        size = await asyncio.to_thread(new.count)
        return Moved(size, size, self._tokens)

    async def _copy(self, old: Collection, new: Collection) -> int:
        """Embed what the new one lacks; how many pieces that were."""
        copied = done = 0
        size = await asyncio.to_thread(old.count)
        blocks = self._missing(old, new)
        while not self.stop.is_set() and (block := await asyncio.to_thread(next, blocks, None)) is not None:
            seen, pieces = block
            if pieces:
                made = await self._embeds.embed([piece.text for piece in pieces])
                if made.errors:
                    n, reason = next(iter(made.errors.items()))
                    raise InputInvalid(
                        f"{pieces[n].id[:100]} cannot be embedded with the new model ({reason}), so the collection "
                        "stays as it is. Embed the source into a new collection, with --pieces that the model takes.",
                        param="model",
                    )
                await asyncio.to_thread(new.copy, pieces, made.vectors, self._embeds.space)
                self._tokens += made.tokens
                self._writes += 1
                if self._writes % TIDY_WRITES == 0:
                    await asyncio.to_thread(new.tidy)
            copied += len(pieces)
            done += seen
            self._on_progress(Moved(done, max(size, done), self._tokens))
        return copied

    def _switch(self, old: Collection, new: Collection) -> bool:
        """A last look while nobody writes, and then at once. False when something was written just before."""
        with old.writing():
            if self._forget(old, new) or any(pieces for _, pieces in self._missing(old, new)):
                return False
            self._store.finish_migration(self._name, owner=self._owner)
        return True

    @staticmethod
    def _missing(old: Collection, new: Collection) -> Iterator[tuple[int, list[Piece]]]:
        """Blocks of the old one: how many pieces were looked at, and those of them that the new one lacks."""
        waiting: list[Piece] = []
        seen = 0
        for pieces, _ in old.rows():
            there = new.present([piece.id for piece in pieces])
            waiting += [piece for piece in pieces if there.get(piece.id) != piece.hash]
            seen += len(pieces)
            while len(waiting) >= BLOCK:
                yield seen, waiting[:BLOCK]
                waiting, seen = waiting[BLOCK:], 0
        yield seen, waiting

    @staticmethod
    def _forget(old: Collection, new: Collection) -> int:
        """Remove from the new one what the old one has no longer; how many pieces that were."""
        removed = 0
        for hashes in new.hashes():
            there = old.present(list(hashes))
            gone: Sequence[str] = [id for id, hash in hashes.items() if there.get(id) != hash]
            if gone:
                removed += new.remove(gone)
        return removed
