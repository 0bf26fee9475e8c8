"""Limits of a key that hold over gateways, and what becomes of them while Redis is away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from aiohttp import ClientSession, web
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from gateway.app import build_app
from gateway.keys.budget import Budget
from gateway.keys.record import KeyLimits, made
from gateway.keys.store import open_store
from gateway.settings import load_settings
from gateway.shared import limits as module
from gateway.shared.limits import PREFIX, SharedLimits
from gateway.shared.link import Link
from gateway.shared.metrics import SharedMetrics
from tests.gateway.shared.conftest import Valkey
from tests.load.fixed_service import QUIET, engine
from workers.errors import Overloaded


@asynccontextmanager
async def counting(valkey: Valkey) -> AsyncIterator[SharedLimits]:
    """The limits as one gateway counts them."""
    from prometheus_client import CollectorRegistry

    limits = SharedLimits(Link(valkey.url, "limits of keys", SharedMetrics(CollectorRegistry()), 0.3))
    running = asyncio.create_task(limits.run())
    try:
        yield limits
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def budget(owner: str, **limits: float) -> Budget:
    return Budget(KeyLimits(**limits), owner=owner)  # type: ignore[arg-type]


async def test_requests_are_counted_over_gateways_and_by_each_while_redis_is_away(valkey: Valkey) -> None:
    async with counting(valkey) as here, counting(valkey) as there:
        mine, yours = (budget("requests", requests_per_minute=4) for _ in range(2))
        for limits, own in ((here, mine), (there, yours)) * 2:
            await limits.admit(own, None)
        for limits, own in ((here, mine), (there, yours)):
            with pytest.raises(Overloaded, match="4 requests a minute") as refused:
                await limits.admit(own, None)
            assert 0 < refused.value.retry_after <= 16
        valkey.freeze()
        try:
            for _ in range(2):  # its own count had room for so many
                await here.admit(mine, None)
            with pytest.raises(Overloaded):
                await here.admit(mine, None)
        finally:
            valkey.go_on()
        assert 0 < valkey.redis.pttl(f"{PREFIX}requests:requests") <= 62_000


async def test_sessions_are_counted_over_gateways_and_those_of_the_dead_are_not(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEAT_SECONDS", 1.0)
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.3)
    own = budget("sessions")
    async with counting(valkey) as here:
        async with counting(valkey) as dying:
            seats = [await here.admit(own, 2), await dying.admit(own, 2)]
            for seat in seats:
                assert seat is not None and seat.granted
                seat.take()
            refused = await here.admit(own, 2)
            assert refused is not None and not refused.granted
            await asyncio.sleep(1.5)  # they are renewed
            again = await here.admit(own, 2)
            assert again is not None and not again.granted
            # One that another gateway goes on with is counted once.
            came = here.go_on("sessions", seats[1].id)  # type: ignore[union-attr]
            came.take()
            seats[1].leave()  # type: ignore[union-attr]
            await asyncio.sleep(0.6)
            assert valkey.redis.zcard(f"{PREFIX}sessions:sessions") == 2
        came.give_back()
        await asyncio.sleep(0.6)
        free = await here.admit(own, 2)
        assert free is not None and free.granted
        free.give_back()


async def test_audio_is_counted_over_gateways(valkey: Valkey) -> None:
    async with counting(valkey) as here, counting(valkey) as there:
        mine, yours = (budget("audio", audio_seconds_per_minute=60) for _ in range(2))
        await here.admit(mine, None)
        await there.admit(yours, None)
        mine.audio(50.0)
        assert mine.audio_wait() == 0 and yours.audio_wait() == 0
        await asyncio.sleep(0.8)
        yours.audio(20.0)
        await asyncio.sleep(0.8)
        assert 5 < yours.audio_wait() < 11
        await here.admit(mine, None)
        assert 5 < mine.audio_wait() < 11


@asynccontextmanager
async def gateways(store: str, count: int) -> AsyncIterator[list[str]]:
    """Addresses of gateways in this process, on one engine whose model hears nothing."""
    loaded = await asyncio.to_thread(engine, 0.01, "level")

    async def start(_: object) -> object:
        return loaded

    async with AsyncExitStack() as held:
        held.push_async_callback(loaded.close)
        addresses = []
        for _ in range(count):
            app = build_app(load_settings(**QUIET, port=0, key_store=store), start)  # type: ignore[arg-type]
            runner = web.AppRunner(app)
            await runner.setup()
            held.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            addresses.append(f"127.0.0.1:{runner.addresses[0][1]}")
        yield addresses


async def test_over_the_wire(valkey: Valkey) -> None:
    key, record = made("office", limits=KeyLimits(sessions=2, requests_per_minute=7))
    await asyncio.to_thread(open_store(valkey.url).put, record)
    bearer = {"Authorization": f"Bearer {key}"}

    async def live(held: AsyncExitStack, address: str) -> ClientConnection:
        url = f"ws://{address}/v1/realtime?intent=transcription"
        socket = await held.enter_async_context(connect(url, additional_headers=bearer))
        assert json.loads(await socket.recv())["type"] == "session.created"
        return socket

    async with gateways(valkey.url, 2) as (here, there), AsyncExitStack() as held, ClientSession() as http:
        first = await live(held, here)
        await live(held, there)
        for address in (here, there):
            with pytest.raises(InvalidStatus) as refused:
                await live(held, address)
            assert refused.value.response.status_code == 503
            assert b"at other gateways" in (refused.value.response.body or b"")
        await first.close()
        await asyncio.sleep(1.2)
        await live(held, there)
        statuses = []
        for address in (here, there, here):
            async with http.get(f"http://{address}/v1/models", headers=bearer) as answer:
                statuses.append(answer.status)
        assert statuses == [200, 200, 429]
