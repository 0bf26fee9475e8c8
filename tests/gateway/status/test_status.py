"""The figures of the status page: those of /metrics, and what happened lately."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gateway.app import build_app
from gateway.keys.record import made
from gateway.keys.store import FileKeys
from gateway.settings import load_settings
from gateway.state import SERVICE
from gateway.status import HISTORY, report
from gateway.status_history import EVERY, KEPT, Figures, History, Moment, quantile


class Clock:
    """Unix time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def never(settings: object) -> Any:
    await asyncio.Event().wait()


def test_quantiles_are_those_of_prometheus() -> None:
    before = {0.1: 10.0, 0.2: 10.0, 0.5: 10.0, float("inf"): 10.0}
    after = {0.1: 15.0, 0.2: 19.0, 0.5: 20.0, float("inf"): 20.0}
    assert quantile(0.5, before, after) == pytest.approx(0.1)
    assert quantile(0.9, before, after) == pytest.approx(0.2)
    assert quantile(0.95, before, after) == pytest.approx(0.35)
    assert quantile(0.25, before, after) == pytest.approx(0.05)
    assert quantile(0.5, after, after) is None
    assert quantile(0.5, {}, {}) is None
    beyond = {**after, float("inf"): 120.0}
    assert quantile(0.99, before, beyond) == 0.5, "what is beyond the last bound counts as that bound"
    assert quantile(0.5, {}, after) == pytest.approx(0.1 * 10 / 15), "what was not there before began at nothing"


def test_sums_leave_out_what_lacks_the_label() -> None:
    registry = CollectorRegistry()
    taken = Gauge("taken", "Taken.", ["device", "lane"], registry=registry)
    for device, lane, number in (("a", "x", 1), ("a", "y", 2), ("b", "x", 4)):
        taken.labels(device, lane).set(number)
    figures = Figures(registry)
    assert figures.total("taken") == 7
    assert figures.each("taken", "device") == {"a": 3, "b": 4}
    assert figures.by("taken", "device", "lane")["a", "y"] == 2
    assert figures.each("taken", "colour") == figures.each("nothing", "device") == {}
    assert figures.total("nothing") == 0


def test_the_history_is_bounded_and_tells_what_was_added() -> None:
    registry, clock = CollectorRegistry(), Clock()
    refused = Counter("speechlane_refused", "Refused.", ["kind", "reason"], registry=registry)
    finals = Histogram("speechlane_final_latency_seconds", "Finals.", buckets=(0.1, 1.0), registry=registry)
    history = History(registry, clock)
    assert history.charts(Moment.of(Figures(registry), clock()))["refused"] == [None]
    for n in range(KEPT + 20):
        history.keep()
        clock.now += EVERY
        if n % 2:
            refused.labels("session", "overloaded").inc(3)
        if n == KEPT + 10:
            finals.observe(0.05)
    charts = history.charts(Moment.of(Figures(registry), clock()))
    assert len(charts["at"]) == len(charts["refused"]) == len(charts["latency"]["final"]["p95"]) == KEPT + 1
    assert charts["at"][-1] - charts["at"][0] == EVERY * KEPT == 605
    assert charts["refused"][0] is None, "nothing is known of what was before"
    assert set(charts["refused"][1:]) == {0, 3}
    seen = [value for value in charts["latency"]["final"]["p95"] if value is not None]
    assert len(seen) == 6 and seen[0] == pytest.approx(0.095), "a point is made of half a minute"
    json.dumps(charts, allow_nan=False)


async def test_a_service_that_loads_has_a_status_and_no_devices() -> None:
    async with TestClient(TestServer(build_app(load_settings(), never))) as client:
        answer = await client.get("/v1/status")
        body = await answer.json()
        assert answer.status == 200 and answer.headers["Cache-Control"] == "no-store"
        assert body["state"] == "loading" and body["devices"] == body["models"] == []
        page = await client.get("/status")
        assert page.status == 200 and "script-src 'self'" in page.headers["Content-Security-Policy"]


async def test_keys_without_admin_see_the_page_but_no_figures(tmp_path: Path) -> None:
    store = FileKeys(tmp_path / "keys.json")
    keys = {}
    for scope in ("live", "admin"):
        keys[scope], record = made(scope, scopes=(scope,))  # type: ignore[arg-type]
        store.put(record)
    plain = "plain-key-of-the-configuration"
    app = build_app(load_settings(api_keys=plain, key_store=store.where), never)
    async with TestClient(TestServer(app)) as client:
        assert (await client.get("/status")).status == 200, "it holds nothing of anybody's"
        assert (await client.get("/v1/status")).status == 401
        for key, status in (("wrong", 401), (keys["live"], 403), (keys["admin"], 200), (plain, 200)):
            answer = await client.get("/v1/status", headers={"Authorization": f"Bearer {key}"})
            told = await answer.text()
            assert answer.status == status
            assert not any(secret in told for secret in (*keys.values(), plain))


async def test_what_is_told_is_what_metrics_tell() -> None:
    app = build_app(load_settings(), never)
    service = app[SERVICE]
    history = History(service.metrics.registry, Clock())
    history.keep()
    service.metrics.refused("session", "overloaded")
    service.metrics.final_latency(0.06)
    service.metrics.underrun()
    service.metrics.jobs("queued", 3)
    told = report(service, history)
    assert told["refused"] == [{"kind": "session", "reason": "overloaded", "count": 1, "lately": 1}]
    assert told["latency"]["final"]["count"] == 1
    assert 0.05 < told["latency"]["final"]["p95"] <= 0.1
    assert told["latency"]["round_trip"] == {"p50": None, "p95": None, "p99": None, "count": 0}
    assert told["voices"]["underruns"] == told["voices"]["lately"] == 1
    assert told["jobs"]["now"] == {"queued": 3}
    json.dumps(told, allow_nan=False)
    assert HISTORY in app
