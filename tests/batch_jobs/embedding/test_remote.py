"""Batches of texts to workers and back, whatever dies on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from batch_jobs.embedding import remote
from batch_jobs.embedding.batches import GROUP, Order, load, put_texts, stream
from batch_jobs.embedding.remote import RemoteEmbeds
from batch_jobs.embedding.worker import EmbedWorker
from batch_jobs.queue.server import Server, connect
from batch_jobs.settings import BatchSettings
from batch_jobs.spool import Spool
from vision_text.embeddings.embedder import Embedder, EmbeddingSettings
from vision_text.ingest.embedding import LocalEmbeds
from workers.device import Device
from workers.errors import BackendFailed

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEASE = 1.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedder() -> AsyncIterator[Embedder]:
    device = Device("cpu:0")
    made = await Embedder.start([device], EmbeddingSettings(threads=1))
    device.start()
    yield made
    await made.close()
    await asyncio.to_thread(device.close)


class Hosts:
    """A queue and a spool, and workers on them."""

    def __init__(self, settings: BatchSettings, server: Server, embedder: Embedder) -> None:
        self.settings, self.redis, self._embedder = settings, server.redis, embedder
        self.spool = Spool(settings.directory / "spool", settings.spool_bytes)

    @asynccontextmanager
    async def worker(self, **more: Any) -> AsyncIterator[EmbedWorker]:
        worker, stop = EmbedWorker(self.redis, self.spool, self._embedder, lease=LEASE, **more), asyncio.Event()
        running = asyncio.create_task(worker.run(stop))
        try:
            yield worker
        finally:
            stop.set()
            await running


@pytest_asyncio.fixture(loop_scope="module")
async def hosts(tmp_path: Path, embedder: Embedder) -> AsyncIterator[Hosts]:
    settings = BatchSettings(directory=tmp_path / "b")
    settings.directory.mkdir()
    server = await asyncio.to_thread(connect, settings)
    yield Hosts(settings, server, embedder)
    await asyncio.to_thread(server.close)


def texts(n: int) -> list[str]:
    return [f"Text {n} about {word}." for word in ("rivers", "bread", "engines")]


async def test_vectors_are_those_of_the_model_in_order(hosts: Hosts, embedder: Embedder) -> None:
    space = embedder.space()
    async with RemoteEmbeds.open(hosts.settings, space) as embeds, hosts.worker(), hosts.worker():
        made = await asyncio.gather(*(embeds.embed(texts(n)) for n in range(6)))
    for n, one in enumerate(made):
        here = await LocalEmbeds(embedder, space).embed(texts(n))
        np.testing.assert_allclose(one.vectors, here.vectors, atol=1e-5)
        assert (one.tokens, one.errors) == (here.tokens, {})
    # Nothing is left of what was answered.
    assert hosts.redis.xlen(stream(space)) == 0
    assert hosts.spool.usage() == 0


async def test_what_is_wrong_with_a_text_is_told_by_its_number(hosts: Hosts, embedder: Embedder) -> None:
    async with RemoteEmbeds.open(hosts.settings, embedder.space()) as embeds, hosts.worker():
        made = await embeds.embed(["fine", "   ", "word " * 2000])
    assert set(made.errors) == {1, 2} and "tokens" in made.errors[2]


async def test_a_batch_of_a_dead_worker_is_taken_by_another(hosts: Hosts, embedder: Embedder) -> None:
    space = embedder.space()
    async with RemoteEmbeds.open(hosts.settings, space) as embeds:
        waiting = asyncio.create_task(embeds.embed(texts(1)))
        hosts.redis.xgroup_create(stream(space), GROUP, id="0", mkstream=True)
        taken: Any = []
        while not taken:
            taken = await asyncio.to_thread(hosts.redis.xreadgroup, GROUP, "dead", {stream(space): ">"}, 1, 500)
        async with hosts.worker():
            made = await asyncio.wait_for(waiting, 30)
    assert made.vectors.shape == (3, 384)


async def test_a_batch_that_kills_its_workers_is_given_up(hosts: Hosts, embedder: Embedder) -> None:
    space = embedder.space()
    async with RemoteEmbeds.open(hosts.settings, space) as embeds:
        waiting = asyncio.create_task(embeds.embed(texts(2)))
        hosts.redis.xgroup_create(stream(space), GROUP, id="0", mkstream=True)
        taken: Any = []
        while not taken:
            taken = await asyncio.to_thread(hosts.redis.xreadgroup, GROUP, "dead", {stream(space): ">"}, 1, 500)
        for _ in range(3):
            hosts.redis.xautoclaim(stream(space), GROUP, "dead", 0)
        # Garbage beside it harms nobody.
        hosts.redis.xadd(stream(space), {"batch": "nothing", "space": "{", "run": "x"})
        async with hosts.worker(deliveries=3):
            with pytest.raises(BackendFailed, match="workers died with it"):
                await asyncio.wait_for(waiting, 30)
            assert (await asyncio.wait_for(embeds.embed(texts(3)), 30)).vectors.shape == (3, 384)
    assert hosts.redis.xlen(stream(space)) == 0


async def test_what_vanished_from_the_spool_is_handed_in_again(hosts: Hosts, embedder: Embedder) -> None:
    async with RemoteEmbeds.open(hosts.settings, embedder.space()) as embeds:
        waiting = asyncio.create_task(embeds.embed(texts(4)))
        while not embeds._waiting:
            await asyncio.sleep(0.01)
        hosts.spool.delete(next(iter(embeds._waiting)))
        async with hosts.worker():
            assert (await asyncio.wait_for(waiting, 30)).vectors.shape == (3, 384)


async def test_news_that_were_lost_are_found_and_a_lost_order_is_given_again(
    hosts: Hosts, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LOOK", 0.3)
    monkeypatch.setattr(remote, "AGAIN", 0.5)
    space = embedder.space()
    async with RemoteEmbeds.open(hosts.settings, space) as embeds:
        waiting = asyncio.create_task(embeds.embed(texts(5)))
        while not hosts.redis.exists(stream(space)):
            await asyncio.sleep(0.01)
        hosts.redis.delete(stream(space))  # as by a server that forgot
        async with hosts.worker():
            assert (await asyncio.wait_for(waiting, 30)).vectors.shape == (3, 384)
            hosts.redis.delete(stream(space))
            assert (await asyncio.wait_for(embeds.embed(texts(7)), 30)).vectors.shape == (3, 384)


async def test_vectors_of_a_producer_that_died_are_found_by_the_next(hosts: Hosts, embedder: Embedder) -> None:
    space = embedder.space()
    order = Order(put_texts(hosts.spool, texts(6)), space, "gone")
    hosts.redis.xadd(stream(space), order.fields())  # type: ignore[arg-type]
    async with hosts.worker():
        while load(hosts.spool, order) is None:
            await asyncio.sleep(0.05)
    async with RemoteEmbeds.open(hosts.settings, space) as embeds:  # without any worker
        assert (await asyncio.wait_for(embeds.embed(texts(6)), 10)).vectors.shape == (3, 384)
