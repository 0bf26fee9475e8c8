"""Vectors from workers on other hosts, for a pipeline that does not know the difference."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from redis import Redis
from redis.exceptions import RedisError

from batch_jobs.embedding.batches import Order, load, put_texts, replies, stream
from batch_jobs.queue.clients import passes
from batch_jobs.queue.server import connect
from batch_jobs.settings import BatchSettings
from batch_jobs.spool import Spool
from vision_text.embeddings.space import Space
from vision_text.ingest.pipeline import Made
from workers.errors import BackendFailed

AHEAD = 16
"""Batches that workers may have at once: as many as keep some hosts busy, and no more than fit into memory."""
LISTEN = 1.0
LOOK = 10.0
"""Seconds after which the spool is looked into for vectors whose news was lost."""
AGAIN = 120.0
"""Seconds after which a batch that nobody has answered is handed in once more."""
REPLIES = 86_400
"""Seconds for which news are kept that nobody reads."""
MISSING = "missing"


@dataclass(slots=True)
class _Waiting:
    texts: Sequence[str]
    sent: float
    futures: list[asyncio.Future[Made]] = field(default_factory=list)


class RemoteEmbeds:
    """What `Ingest` embeds with. Made by `open`."""

    ahead = AHEAD

    def __init__(self, redis: Redis, spool: Spool, space: Space) -> None:
        self.space = space
        self._redis, self._spool = redis, spool
        self._run = secrets.token_hex(8)
        self._waiting: dict[str, _Waiting] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: BatchSettings, space: Space) -> AsyncIterator[RemoteEmbeds]:
        """Raises QueueUnavailable, OSError."""
        server = await asyncio.to_thread(connect, settings)
        spool = await asyncio.to_thread(Spool, settings.spool_url or settings.directory / "spool", settings.spool_bytes)
        embeds = cls(server.redis, spool, space)
        listening = asyncio.create_task(embeds._listen())
        try:
            yield embeds
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
            await asyncio.to_thread(server.close)

    async def embed(self, texts: Sequence[str]) -> Made:
        """Raises BackendFailed for a batch that no worker can do, SpoolFull, RedisError."""
        batch = await asyncio.to_thread(put_texts, self._spool, texts)
        order = self._order(batch)
        made = await asyncio.to_thread(load, self._spool, order)
        if made is None:
            future: asyncio.Future[Made] = asyncio.get_running_loop().create_future()
            waiting = self._waiting.setdefault(batch, _Waiting(texts, time.monotonic()))
            waiting.futures.append(future)
            await asyncio.to_thread(self._send, order)
            try:
                made = await future
            finally:
                waiting.futures.remove(future)
                if not waiting.futures:
                    self._waiting.pop(batch, None)
        # Stored soon; should this process die before, both are made again.
        await asyncio.to_thread(self._clean, order)
        return made

    def _order(self, batch: str) -> Order:
        return Order(batch, self.space, self._run)

    def _send(self, order: Order) -> None:
        self._redis.xadd(stream(self.space), order.fields())  # type: ignore[arg-type]

    def _clean(self, order: Order) -> None:
        self._spool.forget(order.result)
        self._spool.delete(order.batch)

    async def _listen(self) -> None:
        looked = time.monotonic()
        while True:
            try:
                news = await asyncio.to_thread(self._redis.blpop, [replies(self._run)], LISTEN)
                if news is not None:
                    told = json.loads(news[1])
                    await self._told(told["batch"], told.get("error"))
                if time.monotonic() - looked > LOOK:
                    looked = time.monotonic()
                    for batch in list(self._waiting):
                        await self._look(batch)
            except RedisError as error:
                if not passes(error):
                    self._fail_all(error)
                    raise
                await asyncio.sleep(LISTEN)
            except OSError as error:
                self._fail_all(error)
                raise

    async def _told(self, batch: str, error: str | None) -> None:
        waiting = self._waiting.get(batch)
        if waiting is None:
            return
        if error == MISSING:
            await self._again(waiting)
        elif error is not None:
            self._end(batch, BackendFailed(f"No worker can embed a batch: {error}"))
        else:
            await self._look(batch)

    async def _look(self, batch: str) -> None:
        waiting = self._waiting.get(batch)
        if waiting is None:
            return
        made = await asyncio.to_thread(load, self._spool, self._order(batch))
        if made is not None:
            self._end(batch, made)
        elif time.monotonic() - waiting.sent > AGAIN:
            await self._again(waiting)

    async def _again(self, waiting: _Waiting) -> None:
        waiting.sent = time.monotonic()
        batch = await asyncio.to_thread(put_texts, self._spool, waiting.texts)
        await asyncio.to_thread(self._send, self._order(batch))

    def _end(self, batch: str, result: Made | Exception) -> None:
        for future in self._waiting[batch].futures:
            if not future.done():
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _fail_all(self, error: Exception) -> None:
        for batch in list(self._waiting):
            self._end(batch, error)
