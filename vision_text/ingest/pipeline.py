"""The pipeline: read, cut, embed a few batches at a time, store them in order, note how far it is."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from vision_text.embeddings.space import Space
from vision_text.ingest.checkpoint import START, Checkpoint, Counts, FaultFile, Note, Position
from vision_text.ingest.document import Fault
from vision_text.ingest.pieces import Cutter
from vision_text.ingest.sources import Source
from vision_text.store.collection import Collection
from vision_text.store.rows import Piece
from vision_text.store.scoring import Vectors
from workers.errors import InputInvalid

BATCH_PIECES = 2000
"""Written at once: each write leaves a file in the store."""
SIFTED = 500
"""Documents after which the store is asked which of them it has."""
BATCH_DOCUMENTS = 20_000
"""Read at once when nearly all of them are stored already."""
AHEAD = 2
"""Batches that are embedded at once, beside the one that is stored."""
TIDY_WRITES = 32
"""Writes after which the files of the collection are brought in order."""


@dataclass(frozen=True, slots=True)
class Made:
    """Vectors of texts, and by index what is wrong with the texts that have none."""

    vectors: Vectors
    tokens: int
    errors: dict[int, str]


class Embeds(Protocol):
    """What makes vectors, here or elsewhere. `ahead` batches may be given to it at once."""

    space: Space
    ahead: int

    async def embed(self, texts: Sequence[str]) -> Made:
        """Raises ServingError when it cannot go on."""


@dataclass(slots=True)
class Batch:
    """Documents that are stored together, by id. `position` is where the next batch begins, `done` how far that is.

    `again` counts documents whose id came again in the batch: as everywhere, the later one stands.
    """

    documents: dict[str, list[Piece]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    unchanged: int = 0
    again: int = 0
    position: Position = START
    done: float = 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """How far it is. `done` and `size` in the source's own unit; `rate`: tokens a second of this run; `left`: seconds
    to the end at this run's speed."""

    counts: Counts
    done: float
    size: float | None
    rate: float
    left: float | None


def batches(source: Source, cutter: Cutter, collection: Collection, position: Position) -> Generator[Batch]:
    """The source from there on, without what is stored already. Blocks; a generator for one thread at a time."""
    batch = Batch(position=position)
    waiting: dict[str, list[Piece]] = {}
    pieces = read = 0

    def sift() -> int:
        """Only documents that are new or have changed go on; how many pieces they have."""
        known = collection.known(list(waiting))
        wanted = {id: found for id, found in waiting.items() if known.get(id) != found[0].hash}
        batch.unchanged += len(waiting) - len(wanted)
        batch.documents.update(wanted)
        waiting.clear()
        return sum(map(len, batch.documents.values()))

    for one in source.read(position):
        read += 1
        batch.position, batch.done = one.next, one.done
        if isinstance(one.found, Fault):
            batch.faults.append(one.found)
        else:
            id = one.found.id
            try:
                cut = cutter.cut(one.found)
            except InputInvalid as error:
                batch.faults.append(Fault(id, error.message))
                continue
            batch.again += id in waiting or id in batch.documents
            batch.documents.pop(id, None)
            waiting[id] = cut
            pieces += len(cut)
        if pieces >= BATCH_PIECES or len(waiting) >= SIFTED:
            pieces = sift()
        if pieces >= BATCH_PIECES or read >= BATCH_DOCUMENTS:
            sift()
            yield batch
            batch, pieces, read = Batch(position=one.next, done=one.done), 0, 0
    sift()
    yield batch


async def embed_documents(
    documents: Sequence[Sequence[Piece]], embeds: Embeds
) -> tuple[list[Piece], Vectors | None, int, list[Fault]]:
    """Pieces and vectors of those that can be stored whole, tokens, and what is wrong with the others."""
    pieces = [piece for document in documents for piece in document]
    if not pieces:
        return [], None, 0, []
    made = await embeds.embed([piece.text for piece in pieces])
    bad = {pieces[n].document: error for n, error in made.errors.items()}
    kept = [n for n, piece in enumerate(pieces) if piece.document not in bad]
    faults = [Fault(document, reason) for document, reason in bad.items()]
    return [pieces[n] for n in kept], made.vectors[kept], made.tokens, faults


class Ingest:
    """One source into one collection. Bounded: no more than a few batches are in memory, whatever the size."""

    def __init__(
        self,
        source: Source,
        collection: Collection,
        cutter: Cutter,
        embeds: Embeds,
        checkpoint: Checkpoint,
        faults: Callable[[int], FaultFile],
        on_progress: Callable[[Standing], None] = lambda _: None,
    ) -> None:
        """`faults` opens the file of faults at the length that the checkpoint knows of."""
        self._source, self._collection, self._cutter, self._embeds = source, collection, cutter, embeds
        self._checkpoint, self._open_faults, self._on_progress = checkpoint, faults, on_progress
        self.stop = asyncio.Event()
        """Set by whoever wants it to end early; the same call goes on then."""
        self._first: tuple[float, float] | None = None
        self._began, self._tokens = 0.0, 0

    async def run(self) -> Counts:
        """To the end, or to the stop. Raises ServingError, OSError; what is stored by then stays and is noted."""
        self._collection.check(self._embeds.space, "add to")
        digest = f"{self._source.digest()} {self._cutter.settings.name} {self._embeds.space.fingerprint}"
        note = await asyncio.to_thread(self._checkpoint.load, f"{digest} {self._collection.info.created}")
        self._faults = await asyncio.to_thread(self._open_faults, note.faults)
        self._began, self._tokens = time.monotonic(), note.counts.tokens
        reading = batches(self._source, self._cutter, self._collection, note.position)
        working: deque[tuple[Batch, asyncio.Task[tuple[list[Piece], Vectors | None, int, list[Fault]]]]] = deque()
        tidying: asyncio.Task[None] | None = None
        writes, ended = 0, False
        try:
            while not self.stop.is_set():
                if not ended and len(working) < self._embeds.ahead:
                    batch = await asyncio.to_thread(next, reading, None)
                    if batch is None:
                        ended = True
                    else:
                        working.append(
                            (batch, asyncio.create_task(embed_documents(list(batch.documents.values()), self._embeds)))
                        )
                    continue
                if not working:
                    break
                batch, task = working[0]
                await self._unless_stopped(task)
                if not task.done():
                    break
                working.popleft()
                note = await asyncio.to_thread(self._store, note, batch, *task.result())
                writes += 1
                if writes % TIDY_WRITES == 0 and (tidying is None or tidying.done()):
                    tidying = asyncio.create_task(asyncio.to_thread(self._collection.tidy))
            if ended and not working:
                await asyncio.to_thread(self._checkpoint.save, replace(note, done=True))
        finally:
            for _, task in working:
                task.cancel()
            await asyncio.gather(*(task for _, task in working), return_exceptions=True)
            if tidying is not None:
                await asyncio.gather(tidying, return_exceptions=True)
            with suppress(ValueError):  # it is read from in a thread that was cancelled
                reading.close()
        return note.counts

    async def _unless_stopped(self, task: asyncio.Task[object]) -> None:
        stopping = asyncio.create_task(self.stop.wait())
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()

    def _store(
        self, note: Note, batch: Batch, pieces: list[Piece], vectors: Vectors | None, tokens: int, faults: list[Fault]
    ) -> Note:
        """Rows, then faults, then the note: who dies in between does the last two again."""
        added = replaced = unchanged = 0
        if pieces and vectors is not None:
            written = self._collection.put(pieces, vectors, self._embeds.space)
            added, replaced, unchanged = written.added, written.replaced, written.unchanged
        every = [*batch.faults, *faults]
        self._faults.add(every)
        before = note.counts
        counts = Counts(
            before.added + added,
            before.replaced + replaced + batch.again,
            before.unchanged + unchanged + batch.unchanged,
            before.faulted + len(every),
            before.pieces + len(pieces),
            before.tokens + tokens,
        )
        noted = replace(note, position=batch.position, counts=counts, faults=self._faults.length)
        self._checkpoint.save(noted)
        self._tell(counts, batch.done)
        return noted

    def _tell(self, counts: Counts, done: float) -> None:
        now, size = time.monotonic(), self._source.size
        if self._first is None:
            self._first = (now, done)
        since, behind = self._first
        speed = (done - behind) / (now - since) if now > since else 0.0
        left = (size - done) / speed if size is not None and speed > 0 else None
        rate = (counts.tokens - self._tokens) / max(1e-3, now - self._began)
        self._on_progress(Standing(counts, done, size, rate, left))
