"""Health, readiness, models, metrics and headers: over the real service, and in every state it can be in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from gateway.app import build_app
from gateway.settings import Settings, load_settings
from gateway.state import SERVICE
from speech.engine import EngineStatus
from speech.speaking.house import SpeechStatus
from workers.errors import Draining, Overloaded


@pytest.fixture
async def http(service: str) -> AsyncIterator[ClientSession]:
    async with ClientSession(service) as session:
        yield session


async def test_alive_and_ready(http: ClientSession) -> None:
    async with http.get("/healthz") as answer:
        assert (answer.status, await answer.json()) == (200, {"status": "alive"})
    async with http.get("/readyz") as answer:
        assert answer.status == 200
        assert (await answer.json())["devices"][0]["name"].startswith("cpu")


EMBEDDING = "all-MiniLM-L6-v2"
"""Loaded behind the speech models, and told of once it is there."""


async def test_models(http: ClientSession, service: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{service}/v1", api_key="none") as client:
        speech = [model.id async for model in await client.models.list() if model.id != EMBEDDING]
        assert speech == ["tiny.en"]
    async with http.get("/v1/models/tiny.en") as answer:
        body = await answer.json()
    assert (body["object"], body["languages"]) == ("model", ["en"])
    assert "whisper-1" in body["aliases"]
    for name in ("base", "..", "a/b/c", "%2e%2e%2fetc"):
        async with http.get(f"/v1/models/{name}") as answer:
            assert answer.status == 404
            assert (await answer.json())["error"]["code"] in ("model_not_found", "not_found")


async def test_metrics_can_be_read_by_prometheus(http: ClientSession) -> None:
    async with http.get("/no/such/path/at/all") as answer:
        assert (await answer.json())["error"]["code"] == "not_found"
    async with http.get("/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        families = {family.name: family for family in text_string_to_metric_families(await answer.text())}
    expected = {
        "speechlane_sessions": "gauge",
        "speechlane_sessions_admitted": "counter",
        "speechlane_refused": "counter",
        "speechlane_utterances": "counter",
        "speechlane_audio_seconds": "counter",
        "speechlane_files": "gauge",
        "speechlane_http_requests": "counter",
        "speechlane_chunk_round_trip_seconds": "histogram",
        "speechlane_final_latency_seconds": "histogram",
        "speechlane_event_loop_lag_seconds": "histogram",
        "speechlane_event_loop_tasks": "gauge",
        "speechlane_device_utilisation": "gauge",
        "speechlane_device_reserved": "gauge",
        "speechlane_device_streams": "gauge",
        "speechlane_device_free_streams": "gauge",
        "speechlane_queue_tasks": "gauge",
        "speechlane_ready": "gauge",
    }
    assert {name: family.type for name, family in families.items() if name in expected} == expected
    assert families["speechlane_ready"].samples[0].value == 1
    routes = {sample.labels["route"] for sample in families["speechlane_http_requests"].samples}
    assert "unmatched" in routes
    assert not any("no/such" in route for route in routes)
    assert {sample.labels["lane"] for sample in families["speechlane_queue_tasks"].samples} == {
        "final",
        "partial",
        "interactive",
        "bulk",
    }


async def test_answers_cannot_be_sniffed_and_the_page_loads_nothing_foreign(http: ClientSession) -> None:
    async with http.get("/") as answer:
        assert answer.status == 200
        policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["connect-src"] == "'self' ws: wss:"
    assert policy["frame-ancestors"] == "'none'"
    for path in ("/", "/static/style.css", "/v1/models", "/healthz", "/nothing"):
        async with http.get(path) as answer:
            assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_wrong_method_says_which_is_right(http: ClientSession) -> None:
    async with http.get("/v1/audio/transcriptions") as answer:
        assert answer.status == 405
        assert answer.headers["Allow"] == "POST"
        assert (await answer.json())["error"]["type"] == "invalid_request_error"


@asynccontextmanager
async def application(
    start: Callable[[Settings], Awaitable[Any]], **settings: Any
) -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(build_app(load_settings(**settings), start))) as client:
        yield client


class Parts:
    """An engine of which only the state of its devices is looked at."""

    def __init__(self, ready: bool = True) -> None:
        self.ready = ready
        self.closed = False

    def status(self) -> Any:
        return EngineStatus(self.ready, (), SpeechStatus())

    async def close(self) -> None:
        self.closed = True


async def readiness(client: TestClient[Any, Any]) -> tuple[int, str]:
    answer = await client.get("/readyz")
    assert (answer.status == 503) == ("Retry-After" in answer.headers)
    return answer.status, (await answer.json())["status"]


async def test_readyz_fails_while_loading_while_healthz_answers() -> None:
    may_load = asyncio.Event()

    async def start(settings: Settings) -> Any:
        await may_load.wait()
        return Parts()

    async with application(start) as client:
        assert await readiness(client) == (503, "loading")
        assert (await client.get("/healthz")).status == 200
        assert "speechlane_ready 0.0" in await (await client.get("/metrics")).text()
        answer = await client.get("/v1/models")
        assert answer.status == 503
        assert (await answer.json())["error"]["code"] == "draining"
        may_load.set()
        while (await readiness(client)) != (200, "ready"):
            await asyncio.sleep(0.01)


async def test_readyz_fails_when_loading_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def start(settings: Settings) -> Any:
        raise ValueError("the weights are damaged")

    async with application(start) as client:
        while (await readiness(client)) != (503, "failed"):
            await asyncio.sleep(0.01)
        assert (await client.get("/v1/models")).status == 503
    assert "the weights are damaged" in caplog.text


async def test_readyz_fails_when_a_device_is_dead_and_recovers_with_it() -> None:
    engine = Parts()

    async def start(settings: Settings) -> Any:
        return engine

    async with application(start) as client:
        while (await readiness(client)) != (200, "ready"):
            await asyncio.sleep(0.01)
        engine.ready = False
        assert await readiness(client) == (503, "device_dead")
        engine.ready = True
        assert await readiness(client) == (200, "ready")
    assert engine.closed


async def test_while_draining_nothing_new_is_taken_and_what_runs_may_end() -> None:
    async def start(settings: Settings) -> Any:
        return Parts()

    async with application(start, drain_seconds=5) as client:
        service = client.app[SERVICE]
        with service.session(_identity()):
            drained = asyncio.create_task(service.drain())
            await asyncio.sleep(0)
            assert await readiness(client) == (503, "draining")
            answer = await client.post("/v1/audio/transcriptions")
            assert (answer.status, (await answer.json())["error"]["code"]) == (503, "draining")
            with pytest.raises(Draining), service.session(_identity()):
                pass
            assert not drained.done()
        assert await drained


async def test_a_drain_does_not_wait_for_ever() -> None:
    async def start(settings: Settings) -> Any:
        return Parts()

    async with application(start, drain_seconds=0.05) as client:
        service = client.app[SERVICE]
        with service.session(_identity()):
            assert not await service.drain()


async def test_sessions_are_limited_in_all_and_for_each_key() -> None:
    async def start(settings: Settings) -> Any:
        return Parts()

    async with application(start, max_sessions=3, max_sessions_per_key=2) as client:
        service = client.app[SERVICE]
        one, two = _identity("key-1"), _identity("key-2")
        with service.session(one), service.session(one):
            with pytest.raises(Overloaded, match="This key's 2 sessions"), service.session(one):
                pass
            with service.session(two):
                assert service.sessions == 3
                with pytest.raises(Overloaded, match="All 3 sessions"), service.session(two):
                    pass
            with service.session(two):
                pass
        assert service.sessions == 0


def _identity(name: str = "local") -> Any:
    from gateway.auth import Identity

    return Identity(name)
