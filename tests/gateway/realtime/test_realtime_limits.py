"""Ends of sessions: refusals, expiry, silence, slow and dead clients, drain; and that nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.sockets import SocketLimits
from tests.gateway.realtime.client import (
    PCM,
    TRANSCRIPTION,
    Client,
    check_contract,
    recording,
    session,
    silence,
    update,
)
from tests.gateway.realtime.conftest import Running, Server
from tests.gateway.realtime.test_realtime_bad_input import frame, handshake

FAST = SocketLimits(heartbeat_seconds=0.2, send_seconds=0.5, queue_messages=64)


@asynccontextmanager
async def service(server: Server, limits: SocketLimits | None = None, **settings: Any) -> AsyncIterator[Running]:
    """A service of its own, with other limits."""
    running = await asyncio.to_thread(lambda: server.serve(limits, **settings))
    try:
        yield running
    finally:
        await asyncio.to_thread(running.stop)


async def becomes(condition: Callable[[], bool], timeout: float = 10) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.02)


async def closing(client: Client) -> int:
    """Receive until the server closes; its code."""
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            await client.receive()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


async def refusal(running: Running, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any], str | None]:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(running.url, additional_headers=headers):
            pass
    response = refused.value.response
    return response.status_code, json.loads(response.body)["error"], response.headers.get("Retry-After")


async def test_full_service_refuses_before_the_upgrade(server: Server) -> None:
    async with service(server, max_sessions=1) as running:
        async with session(running.url):
            status, error, retry = await refusal(running)
            assert status == 503
            assert (error["code"], error["type"]) == ("overloaded", "server_error")
            assert retry is not None and int(retry) >= 1
        await becomes(lambda: running.service.sessions == 0)
        async with session(running.url) as client:
            await client.alive()


async def test_a_full_device_refuses_before_the_upgrade(server: Server) -> None:
    async with service(server) as running, AsyncExitStack() as open_sessions:
        server.admitted_share(0.85)
        try:
            for _ in range(200):
                if running.service.engine.status().devices[0].free_streams == 0:
                    break
                await open_sessions.enter_async_context(session(running.url))
            status, error, retry = await refusal(running)
            assert (status, error["code"]) == (503, "overloaded")
            assert retry is not None and int(retry) >= 1
            assert running.service.sessions >= 1
        finally:
            server.admitted_share(1000.0)
        await open_sessions.aclose()
        await becomes(lambda: running.service.engine.status().devices[0].streams == 0)


async def test_a_key_has_its_own_limit(server: Server) -> None:
    async with service(server, api_keys=("first", "second"), max_sessions_per_key=1) as running:
        first, second = ({"Authorization": f"Bearer {key}"} for key in ("first", "second"))
        async with session(running.url, additional_headers=first):
            assert (await refusal(running, first))[0] == 503
            async with session(running.url, additional_headers=second) as client:
                await client.alive()
        assert (await refusal(running))[0] == 401
        assert (await refusal(running, {"Authorization": "Bearer wrong"}))[0] == 401
        browser = ["realtime", "openai-insecure-api-key.first"]
        await becomes(lambda: running.service.sessions == 0)
        async with session(running.url, subprotocols=browser) as client:
            assert client.socket.subprotocol == "realtime"


async def test_requests_that_are_no_session(running: Running) -> None:
    async with aiohttp.ClientSession(f"http://{running.address}") as http:
        async with http.get("/v1/realtime") as response:
            assert response.status == 426
            assert (await response.json())["error"]["code"] == "upgrade_required"
        for query in ("intent=singing", "include=everything"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await http.ws_connect(f"/v1/realtime?{query}")
            assert refused.value.status == 400
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect("/v1/realtime", protocols=["openai-insecure-api-key.secret"])
        assert refused.value.status == 400


async def test_the_end_of_a_session_finalises_what_is_open(server: Server) -> None:
    limits = replace(FAST, session_seconds=1.0)
    async with service(server, limits) as running, session(running.url, update(format=PCM)) as client:
        await client.append(recording("austen-0880.wav"), 0.1)
        assert await closing(client) == 1001
        ends = check_contract(client.seen)
        assert len(ends) == 1 and ends[0]["transcript"]
        assert client.of("input_audio_buffer.committed")


async def test_drain_finalises_what_is_open(server: Server) -> None:
    async with service(server, FAST) as running, session(running.url, update(format=PCM)) as client:
        await client.append(recording("austen-0880.wav"), 0.1)
        await client.alive()  # all of it has been heard
        server.loop.call_soon_threadsafe(running.service.draining.set)
        assert await closing(client) == 1012
        ends = check_contract(client.seen)
        assert len(ends) == 1 and ends[0]["transcript"]
        status, error, retry = await refusal(running)
        assert (status, error["code"]) == (503, "draining")
        assert retry is not None


async def test_a_client_that_says_nothing(server: Server) -> None:
    """It answers pings, so it is there; but nothing comes."""
    async with service(server, replace(FAST, idle_seconds=0.7)) as running, session(running.url) as client:
        assert await closing(client) == 1000
        await becomes(lambda: running.service.sessions == 0)


async def test_a_half_open_connection(server: Server) -> None:
    """A peer that is gone without a word: nobody answers pings."""
    async with service(server, FAST) as running:
        reader, writer = await handshake(running)
        await asyncio.wait_for(reader.read(200), 5)
        await becomes(lambda: running.service.sessions == 0)
        writer.close()


async def test_pings_of_the_client_are_answered(running: Running) -> None:
    async with session(running.url) as client:
        await asyncio.wait_for(await client.socket.ping(b"are you there"), 5)


async def test_a_client_that_never_reads(server: Server) -> None:
    async with service(server, FAST) as running:
        host, port = running.address.split(":")
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
        _reader, writer = await handshake(running, sock)
        writer.transport.pause_reading()
        await becomes(lambda: running.service.sessions == 1)
        asking = frame(1, b'{"type": "conversation.item.retrieve", "item_id": "none"}') * 500

        async def flood() -> None:
            while True:
                writer.write(asking)
                await writer.drain()

        flooding = asyncio.create_task(flood())
        await becomes(lambda: running.service.sessions == 0, 20)
        flooding.cancel()
        await asyncio.gather(flooding, return_exceptions=True)
        writer.close()
        async with session(running.url) as client:
            await client.alive()


async def test_many_answers_wait_for_a_reader_that_is_only_slow(server: Server) -> None:
    async with service(server, FAST) as running, session(running.url) as client:
        count = 2000
        for _ in range(count):
            await client.send({"type": "conversation.item.retrieve", "item_id": "none"})
        for _ in range(count):
            assert (await client.receive())["type"] == "error"
        await client.alive()


async def test_killed_clients_leave_nothing_behind(server: Server) -> None:
    async with service(server) as running:
        speech = recording("austen-0880.wav")[: 2 * 16_000]

        async def once(number: int) -> None:
            async with connect(running.url) as socket_:
                client = Client(socket_)
                await client.receive()
                if number % 2:
                    await client.ask(update(format=PCM), "session.updated")
                    await client.append(speech, 0.2)
                socket_.transport.abort()

        def state() -> tuple[int, int, int]:
            gc.collect()
            tasks = server.run(count_tasks())
            return tasks, threading.active_count(), len(os.listdir("/proc/self/fd"))

        async def count_tasks() -> int:
            return len(asyncio.all_tasks())

        for number in range(10):
            await once(number)
        await becomes(lambda: running.service.sessions == 0)
        before = await asyncio.to_thread(state)
        for batch in range(10):
            await asyncio.gather(*(once(batch * 10 + number) for number in range(10)))
            await becomes(lambda: running.service.sessions == 0)
        async with asyncio.timeout(10):
            while any(now > old for now, old in zip(await asyncio.to_thread(state), before, strict=True)):
                await asyncio.sleep(0.1)


async def test_connections_reset_while_they_open_give_their_share_back(server: Server) -> None:
    async with service(server) as running:
        host, _, port = running.address.partition(":")
        request = (
            f"GET /v1/realtime HTTP/1.1\r\nHost: {running.address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        admitted = running.service._admitted
        for _ in range(30):
            with socket.create_connection((host, int(port))) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.sendall(request.encode())
        await becomes(lambda: running.service._admitted > admitted)
        await becomes(lambda: running.service.sessions == 0)
        assert [device.streams for device in server.engine.status().devices] == [0]


async def test_two_clients_do_not_mix(running: Running) -> None:
    async def transcript(name: str) -> str:
        async with session(running.url, update(format=PCM, turn_detection=None)) as client:
            await client.append(recording(name), 0.1)
            await client.commit()
            text: str = (await client.until(TRANSCRIPTION + "completed"))["transcript"]
            return text

    names = ["austen-0880.wav", "austen-0890.wav"]
    alone = [await transcript(name) for name in names]
    together = await asyncio.gather(*(transcript(name) for name in names * 2))
    assert list(together) == alone * 2


async def test_audio_faster_than_it_can_be_heard(server: Server) -> None:
    """Nothing is lost, and the service answers others meanwhile."""
    async with service(server) as running:
        speech = recording("austen-0880.wav") + silence(1.0)
        async with session(running.url, update(format=PCM)) as client, session(running.url) as other:
            await client.append(speech * 4)
            await other.alive()
            for _ in range(4):
                await client.until(TRANSCRIPTION + "completed")
            assert len(check_contract(client.seen)) == 4
