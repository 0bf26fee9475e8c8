"""What `speechlane embed` does with its source: the collection made or opened, the work, what is told of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from batch_jobs.settings import BatchSettings
from gateway.cli.collection_options import DEFAULT_MODEL
from gateway.cli.console import err
from gateway.cli.embed_progress import EmbedBoard, summary
from gateway.cli.embed_sources import Sources
from vision_text.embeddings.embedder import Embedder, EmbeddingSettings
from vision_text.embeddings.space import Space, check_same
from vision_text.ingest.checkpoint import Checkpoint, Counts, FaultFile
from vision_text.ingest.embedding import LocalEmbeds, calibration, document_space
from vision_text.ingest.pieces import Cutter
from vision_text.ingest.pipeline import Embeds, Ingest
from vision_text.store.collection import Collection
from vision_text.store.errors import CollectionExists, CollectionNotFound
from vision_text.store.store import Store
from workers.device import Device

FAILED, SOME_FAILED, INTERRUPTED = 1, 3, 130


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options ask for. `fields` None: guessed."""

    into: str
    model: str | None
    dimensions: int | None
    precision: str
    fields: dict[str, str] | None
    pieces: int | None
    overlap: int | None
    errors: Path
    notes: Path
    """The directory of checkpoints."""
    device: str
    threads: int | None
    download: bool
    quiet: bool
    as_json: bool

    def embedding(self, model: str) -> EmbeddingSettings:
        return EmbeddingSettings(models=(model,), threads=self.threads, download=self.download)


class Embedding:
    """One command's work; `run` gives its exit code."""

    def __init__(self, store: Store, sources: Sources, wanted: Wanted, place: str) -> None:
        self._store, self._sources, self._wanted, self._place = store, sources, wanted, place
        self._board = EmbedBoard(wanted.into, quiet=wanted.quiet)
        self._stop = asyncio.Event()

    async def run(self, workers: BatchSettings | None) -> int:
        """Everything; 0, 1, 3 or 130. A second signal leaves at once. Raises ServingError, ModelUnusable, OSError."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._interrupt)
        wanted = self._wanted
        existing = await asyncio.to_thread(self._existing)
        model = wanted.model or (existing.space.model if existing is not None else DEFAULT_MODEL)
        async with AsyncExitStack() as held:
            held.enter_context(self._board)
            self._board.loading(f"Loading {model}")
            embedder = await held.enter_async_context(loaded(wanted.embedding(model), wanted.device))
            self._board.loading(None)
            collection = existing if existing is not None else await asyncio.to_thread(self._create, embedder)
            space = self._check(collection, embedder)
            embeds: Embeds = LocalEmbeds(embedder, space)
            if workers is not None:
                from batch_jobs.embedding.remote import RemoteEmbeds

                embeds = await held.enter_async_context(RemoteEmbeds.open(workers, space))
            counts = await self._ingest(collection, embedder, embeds)
            if not self._stop.is_set():
                self._board.loading("Bringing the collection in order")
                await asyncio.to_thread(self._store.tidy, wanted.into)
        return self._sum_up(counts)

    def _interrupt(self) -> None:
        if self._stop.is_set():
            err.show_cursor()
            os._exit(INTERRUPTED)
        self._stop.set()
        self._board.say("Stopping; once more ends at once.")

    def _existing(self) -> Collection | None:
        try:
            return self._store.collection(self._wanted.into)
        except CollectionNotFound:
            return None

    def _create(self, embedder: Embedder) -> Collection:
        wanted = self._wanted
        space = document_space(embedder, None, wanted.dimensions, wanted.precision)
        fields = wanted.fields if wanted.fields is not None else dict(self._sources.guess())
        ranges = calibration(space)
        try:
            return self._store.create(wanted.into, space, fields, ranges=ranges)
        except CollectionExists:  # another command was faster
            return self._store.collection(wanted.into)

    def _check(self, collection: Collection, embedder: Embedder) -> Space:
        """The collection's space. Raises SpaceMismatch when the options ask for another."""
        wanted, space = self._wanted, collection.space
        precision = wanted.precision if wanted.precision != "float32" else space.precision
        made = document_space(embedder, None, wanted.dimensions or space.dimensions, precision)
        check_same(space, made, f"add to the collection {wanted.into!r}")
        return space

    async def _ingest(self, collection: Collection, embedder: Embedder, embeds: Embeds) -> Counts:
        wanted = self._wanted
        most = embedder.models()[0].most_tokens
        cutter = await asyncio.to_thread(
            Cutter.of_model, wanted.model or collection.space.model, most, wanted.pieces, wanted.overlap
        )
        source = self._sources.open(collection.info.fields)
        key = f"{self._place}\0{wanted.into}\0{self._sources.key}"
        with Checkpoint(wanted.notes, key) as checkpoint:
            ingest = Ingest(
                source,
                collection,
                cutter,
                embeds,
                checkpoint,
                lambda length: FaultFile(wanted.errors, length),
                self._board.show,
            )
            ingest.stop = self._stop
            return await ingest.run()

    def _sum_up(self, counts: Counts) -> int:
        wanted = self._wanted
        if wanted.as_json:
            typer.echo(json.dumps({"collection": wanted.into, **asdict(counts), "interrupted": self._stop.is_set()}))
        elif not wanted.quiet:
            err.print(summary(wanted.into, counts))
        if counts.faulted:
            err.print(f"{counts.faulted} documents could not be stored; {wanted.errors} says why.", markup=False)
        if self._stop.is_set():
            err.print("Interrupted; the same command goes on where it was.", markup=False)
            return INTERRUPTED
        return SOME_FAILED if counts.faulted else 0


@asynccontextmanager
async def loaded(settings: EmbeddingSettings, where: str) -> AsyncIterator[Embedder]:
    """An embedder on a device of its own. Raises ModelUnusable, ValueError."""
    device = Device(f"{where}:0" if where == "cpu" else where, where)
    embedder = await Embedder.start([device], settings)
    device.start()
    try:
        yield embedder
    finally:
        await embedder.close()
        await asyncio.to_thread(device.close)
