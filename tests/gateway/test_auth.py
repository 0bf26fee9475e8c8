"""Who may come in: every way to send a key, every path, with and without keys, from this machine and foreign pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from gateway.app import build_app
from gateway.auth import LOCAL, Forbidden, Guard, Identity, Unauthorized
from gateway.settings import Settings, load_settings

FIRST, SECOND = "first-key-1234567890", "second-key-0987654321"


def headers(**given: str) -> dict[str, str]:
    return {"Host": "127.0.0.1:8700"} | {name.replace("_", "-"): value for name, value in given.items()}


WAYS = [
    {"Authorization": "Bearer {}"},
    {"Authorization": "bearer {}"},
    {"Authorization": "Bearer  {} "},
    {"Sec_WebSocket_Protocol": "realtime, openai-insecure-api-key.{}"},
    {"Sec_WebSocket_Protocol": "openai-insecure-api-key.{},realtime,openai-beta.realtime-v1"},
]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_send_a_key_tells_whose_it_is(way: dict[str, str]) -> None:
    guard = Guard([FIRST, SECOND])
    for key, name in ((FIRST, "key-1"), (SECOND, "key-2")):
        sent = headers(**{field: value.format(key) for field, value in way.items()})
        assert guard.identify(make_mocked_request("GET", "/v1/models", sent)) == Identity(name)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", ["not-a-key", FIRST[:-1], FIRST + "x", FIRST.upper(), "", "é", "x" * 100_000])
def test_a_wrong_key_is_refused_in_every_way(way: dict[str, str], key: str) -> None:
    sent = headers(**{field: value.format(key) for field, value in way.items()})
    with pytest.raises(Unauthorized) as caught:
        Guard([FIRST, SECOND]).identify(make_mocked_request("GET", "/v1/models", sent))
    assert len(key) < 4 or key not in caught.value.message


@pytest.mark.parametrize("sent", [{}, {"Authorization": f"Basic {FIRST}"}, {"Authorization": FIRST}])
def test_without_a_key_the_answer_says_how_to_send_one(sent: dict[str, str]) -> None:
    with pytest.raises(Unauthorized, match="Authorization: Bearer"):
        Guard([FIRST]).identify(make_mocked_request("GET", "/v1/models", headers(**sent)))


def test_a_key_in_the_query_is_none() -> None:
    with pytest.raises(Unauthorized):
        Guard([FIRST]).identify(make_mocked_request("GET", f"/v1/models?api_key={FIRST}", headers()))


@pytest.mark.parametrize("host", ["127.0.0.1:8700", "localhost:8700", "[::1]:8700", "127.0.0.1", "page.localhost:8700"])
def test_without_keys_this_machine_may_ask(host: str) -> None:
    sent = {"Host": host, "Origin": f"http://{host}"}
    assert Guard([]).identify(make_mocked_request("GET", "/v1/realtime", sent)) == LOCAL
    assert Guard([]).identify(make_mocked_request("GET", "/v1/realtime", {"Host": host})) == LOCAL


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8700", "https://evil.example"),
        ("127.0.0.1:8700", "http://127.0.0.1:9999"),
        ("127.0.0.1:8700", "null"),
        ("rebound.example:8700", "http://rebound.example:8700"),
        ("rebound.example:8700", None),
        ("localhost.evil.example", None),
        ("[::1", None),
        ("[localhost]", None),
        ("127.0.0.1:8700", "http://[127.0.0.1:8700"),
    ],
)
def test_without_keys_foreign_pages_and_rebound_names_are_refused(host: str, origin: str | None) -> None:
    sent = {"Host": host} | ({"Origin": origin} if origin else {})
    with pytest.raises(Forbidden):
        Guard([]).identify(make_mocked_request("GET", "/v1/realtime", sent))


def test_with_a_key_any_page_and_name_may_ask() -> None:
    sent = headers(Authorization=f"Bearer {FIRST}", Origin="https://app.example") | {"Host": "speech.example"}
    assert Guard([FIRST]).identify(make_mocked_request("GET", "/v1/models", sent)) == Identity("key-1")


async def never(settings: Settings) -> Any:
    await asyncio.Event().wait()


@pytest.fixture
async def guarded() -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """The real application with keys, its models loading for ever: who may ask is decided before."""
    app = build_app(load_settings(api_keys=f"{FIRST},{SECOND}"), start=never)
    async with TestClient(TestServer(app)) as client:
        yield client


OPEN = ["/", "/healthz", "/readyz"]
GUARDED = ["/v1/models", "/v1/models/tiny.en", "/v1/realtime", "/v1/audio/transcriptions", "/metrics", "/v1/none", "/x"]


async def test_health_and_the_page_need_no_key(guarded: TestClient[web.Request, web.Application]) -> None:
    for path in OPEN:
        assert (await guarded.get(path)).status in (200, 503)


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_everything_else_needs_one(
    guarded: TestClient[web.Request, web.Application], method: str, path: str
) -> None:
    answer = await guarded.request(method, path)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    error = (await answer.json())["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")


@pytest.mark.parametrize(
    "path", ["/static/../auth.py", "/static/%2e%2e/auth.py", "/static/..%2fauth.py", "/static/", "//v1/models"]
)
async def test_static_files_are_those_of_the_page_alone(
    guarded: TestClient[web.Request, web.Application], path: str
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert answer.split()[1] in (b"401", b"403", b"404")
    assert b"compare_digest" not in answer


async def test_a_key_opens(guarded: TestClient[web.Request, web.Application], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for key in (FIRST, SECOND):
        answer = await guarded.get("/metrics", headers={"Authorization": f"Bearer {key}"})
        assert answer.status == 200
    answer = await guarded.get("/v1/models", headers={"Authorization": f"Bearer {FIRST}"})
    assert answer.status == 503  # let in, but the models are still loading
    assert answer.headers["Retry-After"]
    await guarded.get("/v1/models", headers={"Authorization": "Bearer wrong-key-abcdef"})
    await guarded.get("/v1/realtime", headers={"Sec-WebSocket-Protocol": "openai-insecure-api-key.wrong-key-abcdef"})
    assert FIRST not in caplog.text
    assert "wrong-key-abcdef" not in caplog.text


@pytest.mark.parametrize(
    "request_",
    [
        f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {FIRST}\0\r\n\r\n",
        f"GET /v1/models?key={FIRST}\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
        f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {FIRST * 1000}\r\n\r\n",
        f"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"Sec-WebSocket-Protocol: x, openai-insecure-api-key.{FIRST}\r\n\r\n",
    ],
)
async def test_a_malformed_request_leaves_no_key_in_the_log(
    guarded: TestClient[web.Request, web.Application], caplog: pytest.LogCaptureFixture, request_: str
) -> None:
    caplog.set_level("DEBUG")
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded.port)
    writer.write(request_.encode())
    assert (await reader.read(64)).split()[1] in (b"400", b"503")
    writer.close()
    assert FIRST not in caplog.text


async def test_readyz_tells_its_load_only_to_those_with_a_key(
    guarded: TestClient[web.Request, web.Application],
) -> None:
    assert await (await guarded.get("/readyz")).json() == {"status": "loading"}
