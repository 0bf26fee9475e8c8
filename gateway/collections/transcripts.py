"""Finished jobs come into their owner's collection of transcripts by themselves, and leave it with the job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from batch_jobs.job import Job, State
from gateway.batch.hub import Gone
from gateway.batch.lane import Lane
from gateway.collections.place import Collections
from gateway.collections.views import TRANSCRIPTS
from workers.errors import InputInvalid, ServingError

if TYPE_CHECKING:
    from vision_text.embeddings.embedder import Embedder
    from vision_text.store.collection import Collection
    from vision_text.store.store import Store

log = logging.getLogger("speechlane.collections")

READABLE = (State.DONE, State.PARTIAL)
RETRY_SECONDS = 30.0


class Transcripts:
    """Follows the jobs of one service."""

    def __init__(self, lane: Lane, collections: Collections) -> None:
        self._lane, self._collections = lane, collections
        self._later: dict[str, Job | Gone] = {}
        """What could not be done, and is tried again."""

    async def run(self, embedder: Callable[[], Awaitable[Embedder | None]]) -> None:
        """Until cancelled; ends at once where there is no queue or no embedder."""
        loaded = await embedder()
        if loaded is None or self._lane.state == "off":
            return
        while self._lane.state != "ready":  # noqa: ASYNC110, it is opened in a thread
            await asyncio.sleep(1.0)
        with self._lane.hub.surveying() as watcher:
            while True:
                try:
                    async with asyncio.timeout(RETRY_SECONDS):
                        news = await watcher.news()
                except TimeoutError:
                    news = {}
                waiting, self._later = {**self._later, **news}, {}
                for id, job in waiting.items():
                    await self._follow(id, job, loaded)

    async def _follow(self, id: str, job: Job | Gone, embedder: Embedder) -> None:
        try:
            if isinstance(job, Gone):
                await self._forget(id, job.owner)
            elif job.state in READABLE:
                await self._keep(job, embedder)
        except InputInvalid as error:
            log.info("the transcript of job %s is not searchable: %s", id, error.message)
        except ServingError as error:
            log.warning("the transcript of job %s will be made searchable later: %s", id, error.message)
            self._later[id] = job
        except Exception:
            log.exception("the transcript of job %s could not be made searchable", id)

    async def _keep(self, job: Job, embedder: Embedder) -> None:
        from vision_text.ingest.document import Document
        from vision_text.ingest.embedding import LocalEmbeds
        from vision_text.ingest.pipeline import embed_documents
        from vision_text.ingest.transcripts import transcript_document

        collection = await self._collection(job.owner, embedder)
        most = next(info.most_tokens for info in embedder.models() if info.name == collection.space.model)
        cutter = await self._collections.cutter(collection.space, most)
        revision = f"{job.ended}"
        hash = Document(job.id, (), revision=revision).hash(cutter.settings.name)
        if (await self._collections.call(collection.known, [job.id])).get(job.id) == hash:
            return
        text = await self._lane.call(self._lane.jobs.render, job.id, "json")
        try:
            document = await self._collections.call(transcript_document, job.id, job.name, text, revision)
        except InputInvalid:
            return  # nobody speaks in it
        pieces = await self._collections.call(cutter.cut, document)
        kept, vectors, _, faults = await embed_documents([pieces], LocalEmbeds(embedder, collection.space))
        if faults:
            raise InputInvalid(faults[0].reason)
        if vectors is not None:
            await self._collections.call(collection.put, kept, vectors, collection.space)
            self._collections.written(job.owner, TRANSCRIPTS)

    async def _forget(self, id: str, owner: str | None) -> None:
        store = await self._collections.store()
        for info in await self._collections.call(store.list, owner):
            if info.name == TRANSCRIPTS:
                collection = await self._collections.call(store.collection, TRANSCRIPTS, owner=info.owner)
                await self._collections.call(collection.delete, source=id)
                self._collections.written(info.owner, TRANSCRIPTS)

    async def _collection(self, owner: str, embedder: Embedder) -> Collection:
        """The owner's, made when it is not there, and moved to the service's model when that is another by now."""
        from vision_text.ingest.embedding import LocalEmbeds, document_space
        from vision_text.ingest.migration import Migration
        from vision_text.ingest.transcripts import FIELDS
        from vision_text.store.errors import CollectionExists, CollectionNotFound

        store: Store = await self._collections.store()
        space = document_space(embedder)
        try:
            found = await self._collections.call(store.collection, TRANSCRIPTS, owner=owner)
        except CollectionNotFound:
            try:
                return await self._collections.call(store.create, TRANSCRIPTS, space, FIELDS, owner=owner)
            except CollectionExists:  # another service was faster
                return await self._collections.call(store.collection, TRANSCRIPTS, owner=owner)
        if found.space != space:
            log.info("a collection of transcripts moves to %s", space.model)
            await Migration(store, TRANSCRIPTS, LocalEmbeds(embedder, space), owner=owner).run()
            found = await self._collections.call(store.collection, TRANSCRIPTS, owner=owner)
        return found
