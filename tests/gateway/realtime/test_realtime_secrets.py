"""Client secrets: made by a key, used by a browser in its place, on sockets alone and for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from aiohttp import ClientSession, WSServerHandshakeError

from gateway.keys.client_secrets import MOST_EACH, ClientSecrets
from gateway.keys.identity import Identity
from gateway.keys.record import KeyLimits, made
from gateway.keys.store import FileKeys
from tests.gateway.realtime.client import PCM
from tests.gateway.realtime.conftest import Running, Server
from workers.errors import Overloaded

KEYS: dict[str, str] = {}


@pytest.fixture(scope="module")
def guarded(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The service with keys of several scopes; "one" may have one session."""
    store = FileKeys(tmp_path_factory.mktemp("keys") / "keys.json")
    for name, scopes, sessions in (
        ("app", ("live", "speech"), None),
        ("one", ("live", "speech"), 1),
        ("voice", ("speech",), None),
        ("live", ("live",), 2),
    ):
        KEYS[name], record = made(name, scopes, KeyLimits(sessions=sessions))  # type: ignore[arg-type]
        store.put(record)
    running = server.serve(key_store=store.where)
    yield running
    running.stop()


async def make(running: Running, key: str, status: int = 200, **fields: Any) -> dict[str, Any]:
    url = f"http://{running.address}/v1/realtime/client_secrets"
    async with ClientSession() as http, http.post(url, json=fields, headers={"Authorization": f"Bearer {key}"}) as got:
        body: dict[str, Any] = await got.json()
        assert got.status == status, body
        return body


def offers(secret: str) -> tuple[str, ...]:
    return ("realtime", f"openai-insecure-api-key.{secret}")


async def first_event(running: Running, secret: str, query: str = "") -> dict[str, Any]:
    url = f"ws://{running.address}/v1/realtime{query}"
    async with ClientSession() as http, http.ws_connect(url, protocols=offers(secret)) as ws:
        assert ws.protocol == "realtime"
        event: dict[str, Any] = await ws.receive_json()
        return event


async def test_a_browser_begins_with_what_the_secret_says(guarded: Running) -> None:
    session = {
        "type": "transcription",
        "include": ["x.words"],
        "audio": {"input": {"format": PCM, "turn_detection": None, "transcription": {"prompt": "Emma"}}},
    }
    secret = await make(guarded, KEYS["app"], session=session, expires_after={"anchor": "created_at", "seconds": 60})
    assert secret["value"].startswith("ek_")
    for told in (secret["session"], (await first_event(guarded, secret["value"]))["session"]):
        assert told["type"] == "transcription"
        assert told["include"] == ["x.words"]
        assert told["audio"]["input"]["turn_detection"] is None
        assert told["audio"]["input"]["format"] == PCM
        assert told["audio"]["input"]["transcription"]["prompt"] == "Emma"


async def test_a_conversation_begins_with_it_as_well(guarded: Running) -> None:
    session = {"type": "realtime", "model": "gpt-realtime", "instructions": "Be brief.", "output_modalities": ["text"]}
    secret = await make(guarded, KEYS["app"], session=session)
    for query in ("", "?model=gpt-realtime"):
        told = (await first_event(guarded, secret["value"], query))["session"]
        assert (told["type"], told["instructions"], told["output_modalities"]) == ("realtime", "Be brief.", ["text"])
    with pytest.raises(WSServerHandshakeError) as caught:
        await first_event(guarded, secret["value"], "?intent=transcription")
    assert caught.value.status == 400


def test_openais_client_makes_and_uses_one(guarded: Running) -> None:
    client = openai.OpenAI(base_url=f"http://{guarded.address}/v1", api_key=KEYS["app"], max_retries=0)
    secret = client.realtime.client_secrets.create(
        expires_after={"anchor": "created_at", "seconds": 30}, session={"type": "transcription"}
    )
    assert secret.session.type == "transcription"
    browser = openai.OpenAI(base_url=f"http://{guarded.address}/v1", api_key=secret.value, max_retries=0)
    with pytest.raises(openai.PermissionDeniedError, match="client secret"):
        browser.models.list()


async def test_it_has_the_scopes_and_limits_of_its_key_and_opens_sockets_alone(guarded: Running) -> None:
    secret = (await make(guarded, KEYS["one"]))["value"]
    bearer = {"Authorization": f"Bearer {secret}"}
    async with ClientSession() as http:
        for path in ("/v1/models", "/metrics", "/v1/audio/speech", "/v1/realtime/client_secrets", "/v1/batch/jobs"):
            async with http.post(f"http://{guarded.address}{path}", headers=bearer, json={}) as answer:
                assert answer.status == 403, path
        url = f"ws://{guarded.address}/v1/realtime"
        async with http.ws_connect(url, protocols=offers(secret)) as ws:
            await ws.receive_json()
            with pytest.raises(WSServerHandshakeError) as caught:
                await http.ws_connect(url, headers={"Authorization": f"Bearer {KEYS['one']}"})
            assert caught.value.status == 503, "both are sessions of the one key"
        while guarded.service.sessions:  # its last place is given back a moment after the socket is closed
            await asyncio.sleep(0.02)
        speak = ("speak", f"openai-insecure-api-key.{secret}")
        async with http.ws_connect(f"ws://{guarded.address}/v1/speak", protocols=speak) as ws:
            assert ws.protocol == "speak"
        live = (await make(guarded, KEYS["live"]))["value"]
        with pytest.raises(WSServerHandshakeError) as caught:
            await http.ws_connect(f"ws://{guarded.address}/v1/speak", headers={"Authorization": f"Bearer {live}"})
        assert caught.value.status == 403
    refused = await make(guarded, KEYS["voice"], 403)
    assert refused["error"]["code"] == "insufficient_scope"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"expires_after": {"anchor": "created_at", "seconds": 9}}, "expires_after.seconds"),
        ({"expires_after": {"anchor": "created_at", "seconds": 7201}}, "expires_after.seconds"),
        ({"expires_after": {"anchor": "now", "seconds": 60}}, "expires_after.anchor"),
        ({"sesion": {}}, "sesion"),
        ({"session": {"type": "other"}}, "session.type"),
        ({"session": []}, "session"),
        (
            {"session": {"type": "transcription", "audio": {"input": {"transcription": {"model": "none-such"}}}}},
            "session.audio.input.transcription.model",
        ),
        ({"session": {"type": "realtime", "audio": {"output": {"voice": "none-such"}}}}, "session.audio.output.voice"),
    ],
)
async def test_what_could_not_begin_is_refused_by_name(guarded: Running, fields: dict[str, Any], param: str) -> None:
    assert (await make(guarded, KEYS["app"], 400, **fields))["error"]["param"] == param


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_secrets_expire_and_are_bounded() -> None:
    clock = Clock()
    secrets = ClientSecrets(clock)
    one, other = Identity("one"), Identity("other")
    value, secret = secrets.make(one, 60, {})
    assert secrets.find(value) is secret and secrets.find(value[:-1]) is None and secrets.find("ek_") is None
    assert value not in repr(secrets._secrets)
    clock.now += 60
    assert secrets.find(value) is None
    for _ in range(MOST_EACH):
        secrets.make(one, 60, {})
    with pytest.raises(Overloaded):
        secrets.make(one, 60, {})
    secrets.make(other, 60, {})
    clock.now += 61
    secrets.make(one, 60, {})
    assert len(secrets._secrets) == 1


async def test_without_keys_a_secret_brings_its_session_all_the_same(running: Running) -> None:
    secret = await make(running, "none", session={"type": "transcription", "include": ["x.lag"]})
    assert (await first_event(running, secret["value"]))["session"]["include"] == ["x.lag"]
