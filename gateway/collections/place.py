"""The collections of one service: the store opened behind everything else, work on it in threads of its own."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from gateway.batch.lane import batch_settings
from gateway.batch.places import Places, share
from gateway.settings import Settings
from workers.errors import Overloaded, ServingError

if TYPE_CHECKING:
    from vision_text.embeddings.space import Space
    from vision_text.ingest.pieces import Cutter
    from vision_text.store.store import Store

log = logging.getLogger("speechlane.collections")

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8
MAX_WAITING = 256
"""Calls that wait for a thread at most; more are refused, for then it is the disk or the database that is slow."""
WRITING = 16
"""Requests at once that write documents."""
BUSY_RETRY = 5.0
TIDY_SECONDS = 30.0
"""Between two looks at what was written to."""
REMEDY = "pip install 'speechlane[embeddings]'"


class CollectionsUnavailable(ServingError):
    """This service keeps no collections: what they need is not installed, or the store cannot be opened."""

    code = "collections_unavailable"
    status = 503


class Collections:
    """`store` and everything of it blocks: use `call`."""

    def __init__(self, settings: Settings) -> None:
        self._place = settings.collections or str(default_place(batch_settings(settings).directory))
        self._threads = ThreadPoolExecutor(THREADS, "collections")
        self._tidying = ThreadPoolExecutor(1, "collections-tidy")
        self._opening = asyncio.Lock()
        self._store: Store | None = None
        self._cutters: dict[Space, Cutter] = {}
        self._waiting = 0
        self._written: set[tuple[str, str]] = set()
        self.writers = Places(WRITING, share(WRITING, settings.key_count()), "requests are writing", BUSY_RETRY)

    async def store(self) -> Store:
        """Raises `CollectionsUnavailable`."""
        if self._store is not None:
            return self._store
        async with self._opening:
            if self._store is None:
                if not all(find_spec(name) for name in ("lancedb", "pyarrow")):
                    raise CollectionsUnavailable(
                        f"Collections are not installed here. Whoever runs this service adds them with: {REMEDY}"
                    )
                try:
                    self._store = await self._run(self._open)
                except ServingError as error:
                    log.error("the collections cannot be opened: %s", error.message)
                    raise CollectionsUnavailable(
                        "The collections of this service cannot be opened now; its log says why."
                    ) from error
        return self._store

    async def call(self, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Run something that blocks. Raises `Overloaded`, and what it raises."""
        if self._waiting >= MAX_WAITING:
            raise Overloaded("The collections answer slowly; try again later.", retry_after=BUSY_RETRY)
        self._waiting += 1
        try:
            return await self._run(partial(work, *args, **more))
        finally:
            self._waiting -= 1

    async def cutter(self, space: Space, most: int) -> Cutter:
        """What cuts documents for the model of a space, which takes so many tokens."""
        if space not in self._cutters:
            module: Any = await self._run(partial(importlib.import_module, "vision_text.ingest.pieces"))
            self._cutters[space] = await self._run(partial(module.Cutter.of_model, space.model, most))
        return self._cutters[space]

    def written(self, owner: str, name: str) -> None:
        """Something was written to a collection, whose files are brought in order when there is time."""
        self._written.add((owner, name))

    async def run(self) -> None:
        """Bring collections in order, one at a time, until cancelled."""
        try:
            while True:
                await asyncio.sleep(TIDY_SECONDS)
                for owner, name in sorted(self._written):
                    self._written.discard((owner, name))
                    await self._tidy(owner, name)
        finally:
            self._tidying.shutdown(wait=False, cancel_futures=True)
            self._threads.shutdown(wait=False, cancel_futures=True)
            if self._store is not None:
                self._store.close()

    async def _tidy(self, owner: str, name: str) -> None:
        store = await self.store()
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._tidying, partial(store.tidy, name, owner=owner))
        except ServingError as error:
            log.info("a collection was not brought in order: %s", error.message)  # it was dropped, or is tried again
        except Exception:
            log.exception("a collection could not be brought in order")

    def _open(self) -> Store:
        module: Any = importlib.import_module("vision_text.store.store")
        store: Store = module.Store.open(self._place)
        return store

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def default_place(directory: Path) -> Path:
    """Beside the queue and the files of jobs, in their `directory`."""
    return directory / "collections"
