"""What each route with a body refuses: too much of it, too slowly, packed, and more sound than its bytes let expect."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Iterator

import httpx
import pytest

from gateway import uploads
from gateway.app import build_app
from gateway.embeddings import body as embedding_body
from gateway.settings import load_settings
from gateway.speak import request as speech_request
from tests.gateway.speak.conftest import Running
from tests.gateway.test_security import BEARER, KEY, never, served, wav, webm

MIB = 1 << 20
JSON, FORM = "application/json", "multipart/form-data; boundary=x"
FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
BODIES = {
    "/v1/audio/transcriptions": (FORM, FILE, 3 * MIB),
    "/v1/listen": ("audio/wav", b"", MIB),
    "/v1/audio/speech": (JSON, b'{"input": "', MIB),
    "/v1/text/explain": (JSON, b'{"text": "', MIB),
    "/v1/text-to-speech/heart": (JSON, b'{"text": "', MIB),
    "/v1/text-to-speech/heart/stream": (JSON, b'{"text": "', MIB),
    "/v1/text-to-speech/heart/with-timestamps": (JSON, b'{"text": "', MIB),
    "/v1/text-to-speech/heart/stream/with-timestamps": (JSON, b'{"text": "', MIB),
    "/v1/realtime/client_secrets": (JSON, b'{"session": "', 256 * 1024),
    "/v1/chat/completions": (JSON, b'{"model": "', 33 * MIB),
    "/v1/images/generations": (JSON, b'{"prompt": "', MIB),
    "/v1/videos": (JSON, b'{"prompt": "', MIB),
    "/v1/collections": (JSON, b'{"name": "', 8 * MIB),
}
"""Routes with a body that these models serve: its type, how it begins, and the most that is taken (bytes)."""
ELSEWHERE = ("/v1/batch/", "/v1/collections", "/v1/search", "/v1/embeddings", "/v1/rerank", "/v1/documents")
"""Where the tests of their own rooms do the same."""


def test_every_route_with_a_body_is_looked_at() -> None:
    app = build_app(load_settings(), never)
    known = {path.replace("/heart", "/{voice_id}") for path in BODIES}
    for route in app.router.routes():
        path = route.resource.canonical if route.resource is not None else ""
        if route.method in ("POST", "PUT", "PATCH") and not path.startswith(ELSEWHERE):
            assert path in known, f"{path}: add it to BODIES, with the most that it takes"


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "in chunks"])
@pytest.mark.parametrize("path", BODIES)
def test_a_body_that_is_too_large_is_refused(running: Running, path: str, announced: bool) -> None:
    kind, begin, most = BODIES[path]

    def chunks() -> Iterator[bytes]:
        yield begin
        for _ in range(most // 65536 + 1):
            yield b" " * 65536

    body = b"".join(chunks()) if announced else chunks()
    answer = httpx.post(running.http + path, content=body, headers={"Content-Type": kind}, timeout=30)
    assert answer.status_code == 413, answer.text
    assert answer.json()["error"]["code"] if "error" in answer.json() else answer.json()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "STALL_SECONDS", 0.4)
    monkeypatch.setattr(speech_request, "BODY_SECONDS", 0.4)
    monkeypatch.setattr(embedding_body, "BODY_SECONDS", 0.4)


@pytest.mark.parametrize("path", BODIES)
async def test_a_body_that_trickles_is_given_up(running: Running, path: str, impatient: None) -> None:
    kind, begin, _ = BODIES[path]
    host, _, port = running.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {path} HTTP/1.1\r\nHost: {running.address}\r\nContent-Type: {kind}\r\nContent-Length: 100000\r\n\r\n"
    writer.write(head.encode() + begin)
    begun = time.monotonic()
    answer = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
    while not answer.done():
        writer.write(b" ")
        await asyncio.sleep(0.05)
        assert time.monotonic() - begun < 10
    assert b" 408 " in answer.result().splitlines()[0]
    writer.close()


@pytest.mark.parametrize("going", ["close", "reset"])
async def test_a_client_that_leaves_in_a_body_that_was_refused_leaves_no_task(
    running: Running, going: str, impatient: None
) -> None:
    host, _, port = running.address.partition(":")

    def tasks() -> int:
        return len(asyncio.all_tasks(running.server.loop))

    before = tasks()
    for _ in range(20):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"POST /v1/nothing HTTP/1.1\r\nHost: {running.address}\r\nContent-Length: 100\r\n\r\n{{".encode())
        assert b" 404 " in await reader.readuntil(b"\r\n\r\n")
        writer.close() if going == "close" else writer.transport.abort()
    assert await asyncio.to_thread(running.until, lambda: tasks() <= before)


@pytest.mark.parametrize("path", [*BODIES, "/v1/batch/jobs", "/v1/embeddings", "/v1/documents"])
async def test_a_packed_body_is_refused_by_each_route(path: str) -> None:
    async with served(build_app(load_settings(api_keys=KEY), never)) as address, httpx.AsyncClient() as client:
        headers = BEARER | {"Content-Encoding": "gzip", "Content-Type": JSON}
        answer = await client.post(f"http://{address}{path}", content=gzip.compress(bytes(10 * MIB)), headers=headers)
        assert answer.status_code == 415


BOMBS = {
    "ten hours in a kilobyte": (wav(10 * 3600 * 32_000, bytes(980)), (200,)),
    "a thousand channels": (wav(200_000, bytes(200_000), channels=1000), (400, 415, 422)),
    "an hour in a webm": (webm(120), (413,)),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/v1/listen"])
def test_a_bomb_is_refused_wherever_recordings_are_taken(running: Running, path: str, bomb: str) -> None:
    """What claims more than it holds is what it holds."""
    data, expected = BOMBS[bomb]
    begun = time.monotonic()
    if path == "/v1/listen":
        answer = httpx.post(running.http + path, content=data, timeout=30)
    else:
        answer = httpx.post(
            running.http + path, files={"file": ("a.bin", data)}, data={"model": "whisper-1"}, timeout=30
        )
    assert answer.status_code in expected, answer.text
    assert time.monotonic() - begun < 10
