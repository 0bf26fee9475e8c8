"""Keys that `speechlane keys` makes: how they are kept, found, revoked, limited, and what a service lets them do."""

from __future__ import annotations

import asyncio
import json
import stat
import time
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from typer.testing import CliRunner

from batch_jobs.queue.embedded import Embedded
from gateway.app import build_app
from gateway.cli import app as cli
from gateway.keys import checking
from gateway.keys.attempts import MOST_ADDRESSES, MOST_FAILED, WINDOW_SECONDS, Attempts, TooManyAttempts
from gateway.keys.budget import PACE, Budget
from gateway.keys.checking import Checker, KeysUnavailable
from gateway.keys.record import Key, KeyLimits, made
from gateway.keys.store import FileKeys, StoreFailed, open_store
from gateway.settings import Settings, load_settings
from gateway.state import SERVICE
from workers.errors import Overloaded

Client = TestClient[web.Request, web.Application]
PLAIN = "plain-key-0123456789abcdef"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


# Kept


def test_what_is_kept_does_not_hold_the_key(tmp_path: Path) -> None:
    store = FileKeys(tmp_path / "etc" / "keys.json")
    key, record = made("office")
    store.put(record)
    text = (tmp_path / "etc" / "keys.json").read_text()
    assert key not in text and key.rsplit("_", 1)[1] not in text
    assert stat.S_IMODE((tmp_path / "etc" / "keys.json").stat().st_mode) == 0o600
    assert store.read() == {record.id: record}
    assert record.fits(key) and not record.fits(key[:-1] + ("a" if key[-1] != "a" else "b"))
    assert made("office")[1].digest != record.digest


def _put_some(path: Path, number: int) -> None:
    for n in range(3):
        FileKeys(path).put(made(f"{number}.{n}")[1])


def test_writers_take_turns_and_readers_always_find_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    with ThreadPoolExecutor(4) as writers:
        writing = [writers.submit(_put_some, path, number) for number in range(4)]
        while not all(one.done() for one in writing):
            FileKeys(path).read()
    assert len(FileKeys(path).read()) == 12
    assert sorted(one.name for one in tmp_path.iterdir()) == ["keys.json", "keys.json.lock"]


@pytest.mark.parametrize("content", ["", "{", "[]x", '[{"id": "a"}]', "\0", '{"a": 1}'])
def test_a_file_that_holds_no_keys_is_named_without_what_it_holds(tmp_path: Path, content: str) -> None:
    (tmp_path / "keys.json").write_text(content)
    with pytest.raises(StoreFailed, match="holds no keys"):
        FileKeys(tmp_path / "keys.json").read()


def test_redis_keeps_them_too(tmp_path: Path) -> None:
    server = Embedded(tmp_path)
    try:
        store = open_store(f"unix://{server.socket}")
        _, record = made("office", limits=KeyLimits(sessions=3))
        store.put(record)
        store.put(made("other")[1])
        assert store.read()[record.id] == record
        store.put(record.model_copy(update={"revoked": 5.0}))
        assert store.read()[record.id].revoked == 5.0
    finally:
        server.close()
    with pytest.raises(StoreFailed) as caught:
        open_store("redis://:password@127.0.0.1:1/0").read()
    assert "password" not in str(caught.value)


# Found


class Kept:
    """A store in memory that counts, and may fail."""

    where = "memory"

    def __init__(self, *records: Key) -> None:
        self.records = {record.id: record for record in records}
        self.reads = 0
        self.broken = False

    def read(self) -> dict[str, Key]:
        self.reads += 1
        if self.broken:
            raise StoreFailed("the disk is gone")
        return dict(self.records)

    def put(self, key: Key) -> None:
        self.records[key.id] = key


async def test_a_key_costs_one_scrypt_and_not_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    key, record = made("office")
    checker, count = Checker(Kept(record)), 0
    real = Key.fits

    def fits(self: Key, key: str) -> bool:
        nonlocal count
        count += 1
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return real(self, key)

    monkeypatch.setattr(Key, "fits", fits)
    for _ in range(200):
        assert await checker.find(key) == record
    assert count == 1
    assert await checker.knows(key)
    assert await checker.find(key[:-1] + "!") is None  # no key at all
    assert count == 1
    assert await checker.find(f"{record.prefix}_{'x' * 43}") is None
    assert count == 2


async def test_revoking_expiring_and_changing_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "FRESH_SECONDS", 0.0)
    clock = Clock()
    key, record = made("office", expires=clock.now + 60)
    store = Kept(record)
    checker = Checker(store, clock)
    assert await checker.find(key) is not None
    clock.now += 61
    assert await checker.find(key) is None and not await checker.knows(key)
    store.put(record.model_copy(update={"expires": None}))
    assert await checker.find(key) is not None
    store.put(record.model_copy(update={"revoked": clock.now}))
    assert await checker.find(key) is None
    # Another key in the place of the first: what was found right before is right no more.
    replaced = made("other")[1]
    store.put(replaced.model_copy(update={"id": record.id}))
    assert await checker.find(key) is None


async def test_a_store_that_cannot_be_read_keeps_what_was_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "FRESH_SECONDS", 0.0)
    key, record = made("office")
    store = Kept(record)
    checker = Checker(store)
    store.broken = True
    with pytest.raises(KeysUnavailable):
        await checker.find(key)
    store.broken = False
    assert await checker.find(key) == record
    store.broken = True
    assert await checker.find(key) == record


async def test_only_so_many_keys_wait_to_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [made(str(n)) for n in range(3)]
    monkeypatch.setattr(checking, "MOST_WAITING", 1)
    checker = Checker(Kept(*(record for _, record in records)))
    found = await asyncio.gather(*(checker.find(key) for key, _ in records), return_exceptions=True)
    assert sum(isinstance(one, Key) for one in found) == 1
    assert sum(isinstance(one, Overloaded) for one in found) == 2
    assert await checker.find(records[2][0]) is not None


def test_addresses_that_try_keys_wait_and_the_table_is_bounded() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    for _ in range(MOST_FAILED):
        attempts.check("a")
        attempts.failed("a")
    with pytest.raises(TooManyAttempts) as caught:
        attempts.check("a")
    assert 0 < caught.value.retry_after <= WINDOW_SECONDS
    attempts.check("b")
    clock.now += WINDOW_SECONDS + 1
    attempts.check("a")
    for number in range(3 * MOST_ADDRESSES):
        attempts.failed(str(number))
    assert len(attempts._failed) == MOST_ADDRESSES


def test_a_minute_of_requests_and_of_audio() -> None:
    clock = Clock()
    budget = Budget(KeyLimits(requests_per_minute=3, audio_seconds_per_minute=120), clock)
    for _ in range(3):
        budget.request()
    with pytest.raises(Overloaded, match="3 requests a minute"):
        budget.request()
    clock.now += 20
    budget.request()
    budget.check_audio()
    budget.audio(300)  # a recording, whose length is known only when it is read
    with pytest.raises(Overloaded, match="120 s of audio"):
        budget.check_audio()
    assert budget.audio_wait() == pytest.approx(90)
    clock.now += 91
    budget.check_audio()
    unlimited = Budget(KeyLimits(), clock)
    for _ in range(1000):
        unlimited.request()
        unlimited.audio(1e6)
    unlimited.check_audio()


def test_while_others_speak_sessions_are_read_at_the_speed_of_speech() -> None:
    clock, live = Clock(), Counter[str]()
    noisy, quiet = (Budget(KeyLimits(), clock, name=name, live=live) for name in ("noisy", "quiet"))
    with noisy.session():
        for _ in range(100):
            noisy.audio(1.0, live=True)
        assert noisy.live_wait() == 0, "nobody else is there"
        with quiet.session(), noisy.session():
            clock.now += 60
            came = 0.0
            for _ in range(1000):
                clock.now += 0.1
                while not noisy.live_wait():
                    noisy.audio(0.5, live=True)
                    came += 0.5
                quiet.audio(0.1, live=True)
                quiet.audio(60.0)  # a file, which is not read at any pace
                assert quiet.live_wait() == 0
            assert came / 100 == pytest.approx(2 * PACE, rel=0.05), "of two sessions"
    assert not live


# At the door


async def never(settings: Settings) -> Any:
    await asyncio.Event().wait()


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[tuple[Client, FileKeys]]:
    """The application with a store of keys beside a key of the configuration; its models load for ever."""
    store = FileKeys(tmp_path / "keys.json")
    app = build_app(load_settings(api_keys=PLAIN, key_store=store.where), start=never)
    async with TestClient(TestServer(app)) as client:
        yield client, store


async def test_scopes_open_their_paths_alone(office: tuple[Client, FileKeys]) -> None:
    client, store = office
    paths = {"live": "/v1/realtime", "speech": "/v1/speak", "batch": "/v1/batch/jobs", "admin": "/metrics"}
    keys = {}
    for scope in paths:
        keys[scope], record = made(scope, scopes=(scope,))  # type: ignore[arg-type]
        store.put(record)
    for scope, key in keys.items():
        for other, path in paths.items():
            answer = await client.get(path, headers=bearer(key))
            if other == scope:
                assert answer.status not in (401, 403), f"{scope} opens {path}"
            else:
                assert answer.status == 403
                assert (await answer.json())["error"]["code"] == "insufficient_scope"
        assert (await client.get("/v1/models", headers=bearer(key))).status == 503  # let in; still loading
    assert (await client.get("/metrics", headers=bearer(PLAIN))).status == 200, "keys of the configuration may all"
    usual, record = made("usual")
    store.put(record)
    await asyncio.sleep(checking.FRESH_SECONDS + 0.1)
    assert (await client.get("/metrics", headers=bearer(usual))).status == 403


async def test_each_key_has_its_own_limits_and_owner(office: tuple[Client, FileKeys]) -> None:
    client, store = office
    (narrow, one), (wide, two) = made("narrow", limits=KeyLimits(requests_per_minute=2, sessions=1)), made("wide")
    store.put(one)
    store.put(two)
    statuses = [(await client.get("/v1/models", headers=bearer(narrow))).status for _ in range(3)]
    assert statuses == [503, 503, 429]
    answer = await client.get("/v1/models", headers=bearer(narrow))
    assert 1 <= int(answer.headers["Retry-After"]) <= 30
    for _ in range(5):
        assert (await client.get("/v1/models", headers=bearer(wide))).status == 503
    service = client.server.app[SERVICE]  # type: ignore[union-attr]
    identities = [await service.guard._find(key) for key in (narrow, wide, PLAIN)]
    assert len({identity.owner for identity in identities if identity}) == 3
    assert identities[0] is not None
    with service.session(identities[0]), pytest.raises(Overloaded, match="1 sessions"), service.session(identities[0]):
        pass


async def test_an_address_that_tries_keys_is_told_to_wait(office: tuple[Client, FileKeys]) -> None:
    client, store = office
    good, record = made("good")
    store.put(record)
    assert (await client.get("/v1/models", headers=bearer(good))).status == 503
    for n in range(MOST_FAILED):
        assert (await client.get("/v1/models", headers=bearer(f"guess-number-{n}"))).status == 401
    answer = await client.get("/v1/models", headers=bearer("guess-number-x"))
    assert (answer.status, (await answer.json())["error"]["code"]) == (429, "too_many_attempts")
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    # Guessing right does not help now; but who was known before shares the address of a proxy with the guesser.
    assert (await client.get("/v1/models", headers=bearer(PLAIN))).status == 429
    assert (await client.get("/v1/models", headers=bearer(good))).status == 503
    assert (await client.get("/healthz")).status == 200


@pytest.mark.parametrize(
    ("proxies", "way", "address"),
    [
        ("", "9.9.9.9", "127.0.0.1"),
        ("127.0.0.1", "9.9.9.9", "9.9.9.9"),
        ("127.0.0.1", "forged, 9.9.9.9", "9.9.9.9"),
        ("127.0.0.1,10.0.0.1", "9.9.9.9, 10.0.0.1", "9.9.9.9"),
        ("127.0.0.1", "", "127.0.0.1"),
    ],
)
async def test_only_a_trusted_proxy_tells_where_a_client_is(proxies: str, way: str, address: str) -> None:
    app = build_app(load_settings(api_keys=PLAIN, trusted_proxies=proxies), start=never)
    seen = []

    async def look(request: web.Request) -> web.Response:
        seen.append(app[SERVICE].guard.address(request))
        return web.Response()

    app.router.add_get("/v1/look", look)
    async with TestClient(TestServer(app)) as client:
        await client.get("/v1/look", headers=bearer(PLAIN) | {"X-Forwarded-For": way})
    assert seen == [address]


async def test_a_key_that_was_revoked_is_refused_within_seconds(
    office: tuple[Client, FileKeys], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    client, store = office
    key, record = made("office")
    store.put(record)
    assert (await client.get("/v1/models", headers=bearer(key))).status == 503
    store.put(record.model_copy(update={"revoked": time.time()}))
    until = time.monotonic() + 30
    while (await client.get("/v1/models", headers=bearer(key))).status != 401:
        assert time.monotonic() < until
        await asyncio.sleep(0.1)
    assert key not in caplog.text and key.rsplit("_", 1)[1] not in caplog.text


# By hand


def run(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli, ["keys", *arguments])
    assert result.exit_code == code, result.output
    return result


def test_keys_by_hand(tmp_path: Path) -> None:
    where = ("--key-store", str(tmp_path / "keys.json"))
    run("create", "office", "--scope", "live", "--sessions", "2", "--expires", "30d", *where)
    key = run("create", "bot", "--weight", "2", *where).stdout.strip()
    keys = json.loads(run("list", "--json", *where).stdout)
    assert [one["name"] for one in keys] == ["bot", "office"]
    assert keys[1]["scopes"] == ["live"] and keys[1]["limits"]["sessions"] == 2
    assert keys[1]["expires"] == pytest.approx(time.time() + 30 * 86_400, abs=600)
    for shown in (run("list", *where).output, run("show", "bot", *where).output, json.dumps(keys)):
        assert key not in shown and "digest" not in shown
    assert keys[0]["prefix"] in run("list", *where).output
    run("revoke", keys[0]["prefix"], *where)
    assert json.loads(run("show", "bot", "--json", *where).stdout)["state"] == "revoked"
    assert "no key" in run("revoke", "nobody", *where, code=1).output
    assert "no scope" in run("create", "x", "--scope", "root", *where, code=2).output
    assert "no time" in run("create", "x", "--expires", "soon", *where, code=2).output
    assert "SPEECHLANE_KEY_STORE" in run("list", code=2).output
