"""What each WebSocket refuses: wrong keys, messages that are too large, and frames that never end."""

from __future__ import annotations

import asyncio
import base64
import os
import struct
import time

import pytest
from aiohttp import ClientSession, WSServerHandshakeError
from aiohttp.test_utils import TestClient, TestServer
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from gateway.app import build_app
from gateway.settings import load_settings
from load.crowd import TEXT, frame
from tests.gateway.speak.conftest import Running
from tests.gateway.test_security import UPGRADE, never

MIB = 1 << 20
KEY, WRONG = "security-key-0123456789", "wrong-key-0123456789"
MOST = {
    "/v1/realtime": 24 * MIB,
    "/v1/realtime?resume=1": 24 * MIB,
    "/v1/realtime?intent=conversation": 24 * MIB,
    "/v1/speak": 4 * MIB,
    "/v1/listen?encoding=linear16&sample_rate=16000": 24 * MIB,
    "/vosk": 4 * MIB,
    "/": 4 * MIB,
    "/v1/text-to-speech/heart/stream-input": MIB,
    "/v1/text-to-speech/heart/multi-stream-input": MIB,
}
"""Every socket, and the largest message that it takes (bytes)."""
PATHS = list(MOST)
WAYS = [
    {"Authorization": f"Bearer {WRONG}"},
    {"Authorization": f"Token {WRONG}"},
    {"xi-api-key": WRONG},
    {"Sec-WebSocket-Protocol": f"realtime, openai-insecure-api-key.{WRONG}"},
    {"Sec-WebSocket-Protocol": f"token, {WRONG}"},
]


@pytest.mark.parametrize("path", PATHS)
async def test_a_wrong_key_is_refused_before_the_upgrade(path: str) -> None:
    async with TestClient(TestServer(build_app(load_settings(api_keys=KEY), never))) as client:
        for way in WAYS:
            answer = await client.get(path, headers=UPGRADE | way)
            assert answer.status == 401, f"{way}: {answer.status}"


@pytest.mark.parametrize("path", [path for path in PATHS if "stream-input" in path])
async def test_a_wrong_key_in_a_message_closes_the_socket(path: str) -> None:
    async with TestClient(TestServer(build_app(load_settings(api_keys=KEY), never))) as client:
        try:
            async with client.ws_connect(path) as socket:
                await socket.send_json({"text": " ", "xi_api_key": WRONG})
                while not (await socket.receive()).type.name.startswith("CLOS"):
                    pass
                assert socket.close_code == 1008
        except WSServerHandshakeError as refused:  # while the models are loading nobody comes in at all
            assert refused.status == 503


@pytest.mark.parametrize("kind", ["text", "binary", "pieces"])
@pytest.mark.parametrize("path", PATHS)
async def test_a_message_that_is_too_large_closes_with_1009(running: Running, path: str, kind: str) -> None:
    """Whole, or in fragments of which each would pass."""
    piece = b" " * (MOST[path] // 4 + 1)
    for _ in range(5):
        async with connect(f"ws://{running.address}{path}", max_size=None, proxy=None, compression=None) as socket:
            with pytest.raises(ConnectionClosed) as closed:
                if kind == "pieces":
                    await socket.send([piece] * 4)
                else:
                    await socket.send((piece * 4).decode() if kind == "text" else piece * 4)
                while True:
                    await socket.recv()
        # What is still on its way to a closed socket makes its system send a reset, which may overtake the code.
        if closed.value.rcvd is not None:
            break
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
    assert await asyncio.to_thread(running.until, lambda: running.service.sessions == 0)


@pytest.mark.parametrize("path", PATHS)
async def test_a_frame_that_claims_a_terabyte_is_not_waited_for(running: Running, path: str) -> None:
    reader, writer = await raw(running, path)
    writer.write(struct.pack("!BBQ", 0x82, 0xFF, 1 << 40) + os.urandom(4))
    begun = time.monotonic()
    async with asyncio.timeout(10):
        data = await reader.read()
    assert time.monotonic() - begun < 5
    assert struct.pack("!H", 1009) in data
    writer.close()
    assert await asyncio.to_thread(running.until, lambda: running.service.sessions == 0)


@pytest.mark.parametrize("path", PATHS)
async def test_a_frame_that_hardly_goes_on_ends_the_connection(quick: Running, path: str) -> None:
    """A header, then a byte now and then: no ping is answered in the middle of a frame."""
    reader, writer = await raw(quick, path)
    whole = frame(TEXT, b" " * 1000)
    writer.write(whole[:9])
    async with asyncio.timeout(10):
        ended = asyncio.create_task(reader.read())
        at = 9
        while not ended.done():
            writer.write(whole[at : at + 1])
            at += 1
            await asyncio.sleep(0.05)
        await asyncio.gather(ended, return_exceptions=True)
    writer.close()
    assert await asyncio.to_thread(quick.until, lambda: quick.service.sessions == 0)


@pytest.mark.parametrize("path", PATHS)
async def test_a_message_in_fragments_that_never_ends_is_not_waited_for(quick: Running, path: str) -> None:
    """Between fragments pings can be answered, and are."""
    begun = time.monotonic()
    async with ClientSession() as http, http.ws_connect(quick.http + path, autoping=True) as socket:

        async def drip() -> None:
            writer = socket._writer
            writer.transport.write(unfinished(1, b" "))
            while True:
                await asyncio.sleep(0.1)
                writer.transport.write(unfinished(0, b" "))

        dripping = asyncio.create_task(drip())
        async with asyncio.timeout(15):
            while not (await socket.receive()).type.name.startswith(("CLOS", "ERR")):
                pass
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
    assert time.monotonic() - begun < 10
    assert await asyncio.to_thread(quick.until, lambda: quick.service.sessions == 0)


def unfinished(opcode: int, payload: bytes) -> bytes:
    """A client's fragment that is not the last one."""
    data = bytearray(frame(opcode, payload))
    data[0] &= 0x7F
    return bytes(data)


async def raw(running: Running, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has become a WebSocket."""
    host, _, port = running.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: {running.address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in head.splitlines()[0], head
    return reader, writer
