"""The service without a queue, and which addresses a webhook can reach. No model: an engine that decodes nothing."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientOSError,
    ClientResponseError,
    ClientSession,
    InvalidURL,
    RequestInfo,
    ServerDisconnectedError,
    TCPConnector,
    web,
)
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.test_utils import TestClient, TestServer
from redis.exceptions import ConnectionError as RedisConnectionError
from yarl import URL as URL_

from batch_jobs.job import Job, JobOptions, State
from gateway import uploads
from gateway.app import build_app
from gateway.batch.errors import BatchUnavailable
from gateway.batch.feed import Abandoned, Feed
from gateway.batch.lane import batch_settings
from gateway.batch.places import Places, share
from gateway.batch.webhook_hosts import AddressRefused, CheckedResolver, WebhookHosts, is_public
from gateway.batch.webhooks import Webhooks, _said
from gateway.settings import SettingsInvalid, load_settings
from gateway.state import SERVICE
from tests.gateway.test_rest_failures import FailingEngine
from workers.errors import InputInvalid, Overloaded

Client = TestClient[web.Request, web.Application]


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Client]:
    async def start(settings: Any) -> Any:
        return FailingEngine(1, None)

    async with TestClient(TestServer(build_app(load_settings(**settings), start))) as client:
        while (await client.get("/readyz")).status != 200:
            await asyncio.sleep(0.01)
        yield client


async def test_a_queue_that_cannot_be_opened_is_said_and_leaves_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    async with serving(batch=True, batch_dir=tmp_path / "file" / "batch") as client:
        async with asyncio.timeout(20):
            while (batch := (await (await client.get("/readyz")).json())["batch"])["status"] != "unavailable":
                await asyncio.sleep(0.05)
        assert "file" in batch["detail"]
        for method, path in (
            ("GET", "/v1/batch/jobs"),
            ("POST", "/v1/batch/jobs"),
            ("GET", "/v1/batch/jobs/x/events"),
            ("GET", "/v1/batch/events"),
            ("HEAD", "/v1/batch/uploads/" + "0" * 32),
        ):
            answer = await client.request(method, path, headers={"Tus-Resumable": "1.0.0"})
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
            if method != "HEAD":
                error = (await answer.json())["error"]
                assert error["code"] == "batch_unavailable"
                assert "readyz" in error["message"]
        assert (await client.get("/v1/models")).status == 200
    assert "the queue of jobs cannot be opened" in caplog.text


async def test_a_service_without_jobs_says_so() -> None:
    async with serving(batch=False) as client:
        assert (await (await client.get("/readyz")).json())["batch"]["status"] == "off"
        answer = await client.get("/v1/batch/jobs")
        assert answer.status == 503
        assert "--batch" in (await answer.json())["error"]["message"]


async def test_a_queue_that_stops_answering_is_unavailable_and_one_that_is_slow_is_overloaded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(batch=False) as client:
        assert client.app is not None
        lane = client.app[SERVICE].batch

        def gone() -> None:
            raise RedisConnectionError("Error 111 connecting to queue.lan:6379.")

        with caplog.at_level(logging.WARNING), pytest.raises(BatchUnavailable) as caught:
            await lane.call(gone)
        assert "queue.lan" not in caught.value.message
        assert "queue.lan" in caplog.text
        batch = (await (await client.get("/readyz")).json())["batch"]
        assert batch["status"] == "unavailable"
        assert "queue.lan" in batch["detail"]
        slow = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wait() -> None:
            asyncio.run_coroutine_threadsafe(slow.wait(), loop).result()

        calls = [asyncio.create_task(lane.call(wait)) for _ in range(256)]
        await asyncio.sleep(0.05)
        with pytest.raises(Overloaded):
            await lane.call(wait)
        assert (await client.get("/healthz")).status == 200
        slow.set()
        await asyncio.gather(*calls)
        assert not lane.detail


async def test_a_thread_that_fails_stops_who_feeds_it_and_the_other_way_round() -> None:
    loop = asyncio.get_running_loop()

    def refuses(feed: Feed) -> str:
        next(iter(feed))
        raise OSError(28, "No space left on device")

    feed = Feed()
    feed.read_by(loop.run_in_executor(None, refuses, feed))
    with pytest.raises(OSError):
        for _ in range(100):
            await feed.send(bytes(10))
    feed = Feed()
    reading = loop.run_in_executor(None, lambda: list(feed))
    await feed.send(b"first")
    feed.abandon()
    with pytest.raises(Abandoned):
        await reading


async def test_json_that_does_not_come_holds_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "STALL_SECONDS", 0.3)
    sent: dict[str, Any] = {"headers": {"Content-Type": "application/json"}}

    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(30)

    async with serving(batch=True, batch_dir=tmp_path, batch_concurrency=0, batch_uploads=1) as client:
        assert client.app is not None
        async with asyncio.timeout(30):
            while client.app[SERVICE].batch.state != "ready":
                await asyncio.sleep(0.05)
        stalled = asyncio.create_task(client.post("/v1/batch/jobs", data=slow(), **sent))
        while (answer := await client.post("/v1/batch/jobs", data=b"{}", **sent)).status != 429:
            await asyncio.sleep(0.01)
        answer = await stalled
        assert (answer.status, (await answer.json())["error"]["code"]) == (408, "upload_stalled")
        assert (await client.post("/v1/batch/jobs", data=b"{}", **sent)).status == 400


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("10.0.0.1", False),
        ("127.0.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fd00::1", False),
        ("fe80::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::a00:1", False),
        ("2002:a00:1::", False),
        ("::10.0.0.1", False),
        ("::ffff:0:10.0.0.1", False),
        ("fec0::1", False),
        ("3fff::1", False),
        ("5f00::1", False),
        ("192.0.0.8", False),
    ],
)
def test_addresses_that_are_public(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is public


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("https://hooks.example.com/a?b=c", False),
        ("https://HOOKS.example.com:443/", False),
        ("https://other.example.com:8443/", False),
        ("http://ci.lan/done", True),
        ("https://ci.lan/done", True),
        ("http://[::1]:9000/", True),
        ("https://other.example.com/", None),
        ("https://hooks.example.com.evil.com/", None),
        ("http://ci.lan:8080/", None),
        ("https://hooks.example.com@evil.com/", None),
        ("https://evil.com/#@hooks.example.com", None),
        ("https://hooks.example.com:99999/", None),
        ("https://hooks.example.com:0/", None),
        ("https://127.1/", None),
        ("https://2130706433/", None),
        ("https://hooks.example.com/\r\nX: y", None),
        ("https://hooks.example.com/" + "a" * 2000, None),
    ],
)
def test_hosts_that_may_be_called(url: str, private: bool | None) -> None:
    hosts = WebhookHosts(
        ("hooks.example.com", "other.example.com:8443", "private:ci.lan", "private:[::1]:9000", "127.1", "2130706433")
    )
    if private is None:
        with pytest.raises(InputInvalid) as caught:
            hosts.check(url)
        assert caught.value.param == "webhook"
    else:
        assert hosts.check(url).private is private


async def test_a_name_that_points_into_the_own_network_is_not_called() -> None:
    calls = []

    async def take(request: web.Request) -> web.Response:
        calls.append(request.path)
        return web.Response()

    app = web.Application()
    app.router.add_get("/", take)
    async with TestServer(app, host="127.0.0.1") as server:
        for private in (False, True):
            connector = TCPConnector(resolver=CheckedResolver(private), use_dns_cache=False)
            async with ClientSession(connector=connector) as http:
                if private:
                    assert (await http.get(f"http://localhost:{server.port}/")).status == 200
                else:
                    with pytest.raises((AddressRefused, OSError)):
                        await http.get(f"http://localhost:{server.port}/")
    assert calls == ["/"]


def test_settings_of_jobs() -> None:
    settings = load_settings(redis_url="rediss://:hidden-word@queue.lan", batch_dir="jobs", batch_keep_seconds=60)
    assert "hidden-word" not in repr(settings)
    assert batch_settings(settings).redis_url == "rediss://:hidden-word@queue.lan"
    assert (batch_settings(settings).keep, batch_settings(settings).directory.is_absolute()) == (60.0, True)
    for flags, said in (
        ({"redis_url": "http://:hidden-word@queue.lan"}, "redis_url"),
        ({"webhook_hosts": "https://hooks.example.com"}, "webhook_hosts"),
        ({"webhook_hosts": "hooks.example.com"}, "webhook_secret"),
        ({"webhook_hosts": "hooks.example.com", "webhook_secret": "hidden-word"}, "webhook_secret"),
    ):
        with pytest.raises(SettingsInvalid, match=said) as caught:
            load_settings(**flags)
        assert "hidden-word" not in str(caught.value)


def test_one_of_several_keys_keeps_the_others_out_of_nothing() -> None:
    assert [share(8, keys) for keys in (0, 1, 2, 9)] == [8, 8, 4, 4]
    places = Places(3, share(3, 2), "files are being received", 10.0)
    with places.hold("a"), places.hold("a"):
        with pytest.raises(Overloaded, match="2 files are being received with this key"), places.hold("a"):
            pass
        with places.hold("b"), pytest.raises(Overloaded, match="3 files are being received already"), places.hold("c"):
            pass
    with places.hold("a"), places.hold("a"):
        pass


async def test_watchers_of_one_key_leave_places_and_those_of_the_service_take_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.batch.hub.MAX_WATCHERS", 4)
    async with serving(batch=False, api_keys="first-key-0123456789,other-key-0123456789") as client:
        assert client.app is not None
        hub = client.app[SERVICE].batch.hub
        with ExitStack() as watching:
            inside = [watching.enter_context(hub.surveying()) for _ in range(10)]
            mine = [watching.enter_context(hub.watching("me", "job")) for _ in range(2)]
            with pytest.raises(Overloaded), hub.watching("me"):
                pass
            other = watching.enter_context(hub.watching("you"))
            assert {*inside, *mine, other} == hub._watchers
            assert [watcher.survey for watcher in inside] == [True] * 10
        assert not hub._watchers


SECRET = "token-0123456789"
URL = f"https://hooks.example.com/{SECRET}"
_KEY = ConnectionKey("hooks.example.com", 443, True, True, None, None, None)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InvalidURL(URL), "InvalidURL"),
        (ClientResponseError(RequestInfo(URL_(URL), "POST", {}, URL_(URL)), (), status=400), "ClientResponseError"),  # type: ignore[arg-type]
        (ServerDisconnectedError(URL), "ServerDisconnectedError"),
        (ClientConnectorError(_KEY, ConnectionRefusedError(111, "Connection refused")), "Connection refused"),
        (ClientConnectorError(_KEY, AddressRefused("x has the address 10.0.0.1, which is not public")), "10.0.0.1"),
        (ClientConnectorCertificateError(_KEY, ValueError(URL)), "ClientConnectorCertificateError"),
        (ClientOSError(104, URL), "ClientOSError"),
        (ConnectionResetError(104, "Connection reset by peer"), "ConnectionResetError: Connection reset by peer"),
        (TimeoutError(URL), "TimeoutError"),
    ],
)
def test_what_is_said_of_a_call_holds_nothing_of_its_url(error: Exception, said: str) -> None:
    assert said in _said(error)
    assert SECRET not in _said(error)


async def test_a_call_that_fails_in_an_unforeseen_way_is_logged_without_its_url(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> Any:
        raise UnicodeError(URL)

    async with serving(batch=False) as client:
        assert client.app is not None
        lane = client.app[SERVICE].batch
        monkeypatch.setattr(Webhooks, "_claim", fail)
        monkeypatch.setattr(type(lane), "jobs", SimpleNamespace(queue=SimpleNamespace(notices=lambda: None)))
        webhooks = Webhooks(lane, "secret")
        with caplog.at_level(logging.DEBUG):
            await webhooks._deliver(Job("job", "x", JobOptions(webhook=URL), State.DONE, "0" * 64))
    assert "webhook of job job failed: UnicodeError" in caplog.text
    assert SECRET not in caplog.text
