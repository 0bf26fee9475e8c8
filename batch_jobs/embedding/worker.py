"""A worker that embeds batches of whoever hands them in, until it is told to stop."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from batch_jobs.embedding.batches import GROUP, Order, load, replies, save, stream, texts_of
from batch_jobs.embedding.remote import MISSING, REPLIES
from batch_jobs.queue.clients import SOCKET_TIMEOUT, clone, passes
from batch_jobs.spool import BlobMissing, Spool, SpoolFull
from vision_text.embeddings.embedder import Embedder
from vision_text.ingest.embedding import LocalEmbeds
from workers.errors import ServingError

BLOCK = 1.0
PAUSE = 2.0
AT_ONCE = 2
"""Batches: while one runs the next is read and tokenised."""
_log = logging.getLogger(__name__)


class EmbedWorker:
    """A worker that is silent for `lease` seconds loses its batch to another; one that has killed `deliveries` workers
    is given up."""

    def __init__(
        self, redis: Redis, spool: Spool, embedder: Embedder, *, lease: float = 15.0, deliveries: int = 3
    ) -> None:
        self._redis = clone(redis, timeout=SOCKET_TIMEOUT)
        self._spool, self._embedder = spool, embedder
        self._lease, self._deliveries = lease, deliveries
        self._name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._streams = [stream(embedder.space(info.name)) for info in embedder.models()]
        self._held: dict[str, str] = {}
        """Entries in hand, and the streams that they are of."""
        self.done = 0
        """Batches so far."""

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`; what is in hand then goes to others at once. Raises RedisError that does not pass."""
        await self._patiently(self._make_groups)
        running: set[asyncio.Task[None]] = set()
        stopping = asyncio.create_task(stop.wait())
        renewing = asyncio.create_task(self._renew())
        try:
            while not stop.is_set():
                if len(running) >= AT_ONCE:
                    await asyncio.wait({*running, stopping}, return_when=asyncio.FIRST_COMPLETED)
                    running = {task for task in running if not task.done()}
                    continue
                found = await self._patiently(self._next)
                if found is not None and not stop.is_set():
                    running.add(asyncio.create_task(self._work(*found)))
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            stopping.cancel()
            renewing.cancel()
            with suppress(RedisError):
                await asyncio.to_thread(self._leave)
            self._redis.close()

    async def _work(self, at: str, entry: str, fields: Mapping[str, str]) -> None:
        try:
            order = Order.parse(dict(fields))
        except (ServingError, KeyError, ValueError) as error:
            _log.error("a batch is given up that cannot be read: %s", error)
            await self._patiently(self._end, at, entry, None, None)
            return
        try:
            await self._embed(order)
            told: str | None = None
        except BlobMissing:
            told = MISSING
        except SpoolFull as error:
            _log.warning("a batch waits: %s", error.message)
            await asyncio.sleep(PAUSE)
            self._held.pop(entry, None)  # it is taken again when its lease has run out
            return
        except ServingError as error:
            _log.error("a batch of %s cannot be embedded: %s", order.space.model, error.message)
            told = error.message
        await self._patiently(self._end, at, entry, order, told)
        self.done += 1

    async def _embed(self, order: Order) -> None:
        if await asyncio.to_thread(load, self._spool, order) is not None:
            return  # by one that died before it could say so
        texts = await asyncio.to_thread(texts_of, self._spool, order.batch)
        made = await LocalEmbeds(self._embedder, order.space).embed(texts)
        await asyncio.to_thread(save, self._spool, order, made)

    def _make_groups(self) -> None:
        for name in self._streams:
            try:
                self._redis.xgroup_create(name, GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise

    def _next(self) -> tuple[str, str, Mapping[str, str]] | None:
        """What `_take` takes, also from a server that has forgotten everything."""
        try:
            return self._take()
        except ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
            self._make_groups()
            return None

    def _take(self) -> tuple[str, str, Mapping[str, str]] | None:
        """A batch of one that died, or a new one; None when there is none for a second."""
        for name in self._streams:
            found: Any = self._redis.xautoclaim(name, GROUP, self._name, int(self._lease * 1000), count=1)
            for entry, fields in found[1]:
                if entry in self._held or fields is None:
                    continue
                tried: Any = self._redis.xpending_range(name, GROUP, entry, entry, 1)
                if tried and tried[0]["times_delivered"] > self._deliveries:
                    self._give_up(name, entry, fields)
                    continue
                self._held[entry] = name
                return name, entry, fields
        news: Any = self._redis.xreadgroup(
            GROUP, self._name, dict.fromkeys(self._streams, ">"), count=1, block=int(BLOCK * 1000)
        )
        for name, entries in news or []:
            for entry, fields in entries:
                self._held[entry] = name
                return name, entry, fields
        return None

    def _give_up(self, name: str, entry: str, fields: Mapping[str, str]) -> None:
        _log.error("a batch is given up: %d workers died with it", self._deliveries)
        with suppress(ServingError, KeyError, ValueError):
            reason = f"{self._deliveries} workers died with it"
            self._end(name, entry, Order.parse(dict(fields)), reason)
            return
        self._end(name, entry, None, None)

    def _end(self, at: str, entry: str, order: Order | None, error: str | None) -> None:
        """Tell whoever waits, and only then take it from the stream."""
        with self._redis.pipeline() as steps:
            if order is not None:
                told = {"batch": order.batch, **({"error": error} if error is not None else {})}
                steps.rpush(replies(order.run), json.dumps(told))
                steps.expire(replies(order.run), REPLIES)
            steps.xack(at, GROUP, entry)
            steps.xdel(at, entry)
            steps.execute()
        self._held.pop(entry, None)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            for entry, name in list(self._held.items()):
                with suppress(RedisError):
                    await asyncio.to_thread(self._redis.xclaim, name, GROUP, self._name, 0, [entry], justid=True)

    def _leave(self) -> None:
        """What is in hand looks as if it had been silent for long, so that others take it now."""
        for entry, name in self._held.items():
            self._redis.xclaim(name, GROUP, self._name, 0, [entry], idle=int(self._lease * 1000), justid=True)

    async def _patiently(self, work: Any, *arguments: Any) -> Any:
        """Try again for as long as the server may be well again by itself."""
        while True:
            try:
                return await asyncio.to_thread(work, *arguments)
            except RedisError as error:
                if not passes(error):
                    raise
                _log.warning("the queue's server does not answer, trying again: %s", error)
                await asyncio.sleep(PAUSE)
