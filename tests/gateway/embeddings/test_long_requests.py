"""A request that takes longer than a client may take for its head is answered, also when its body comes in parts."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web

from gateway import connections
from gateway.connections import PatientRunner


async def test_the_rest_of_a_body_is_not_taken_for_the_head_of_another_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)

    async def slow(request: web.Request) -> web.Response:
        body = await request.read()
        await asyncio.sleep(0.5)
        return web.Response(text=str(len(body)))

    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/", slow)
    runner = PatientRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        (address,) = runner.addresses
        async with aiohttp.ClientSession() as session:
            for size in (10, 100_000, 400_000, 3_000_000):
                async with session.post(f"http://127.0.0.1:{address[1]}/", data=bytes(size)) as answer:
                    assert await answer.text() == str(size)
        reader, writer = await asyncio.open_connection("127.0.0.1", address[1])
        writer.write(b"POST / HTTP/1.1\r\nHost:")
        assert await asyncio.wait_for(reader.read(), 5) == b""  # who does not finish a head is still not waited for
        writer.close()
    finally:
        await runner.cleanup()
