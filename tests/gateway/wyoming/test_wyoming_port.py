"""When Wyoming is spoken, and to whom."""

from __future__ import annotations

import asyncio
import os
import signal
import socket

import pytest
from wyoming.client import AsyncTcpClient
from wyoming.info import Describe, Info
from wyoming.tts import SynthesizeStart

from gateway.auth import LOCAL
from gateway.server import CannotListen, serve
from gateway.settings import Settings, SettingsInvalid, load_settings
from speech.engine import Engine, EngineSettings
from tests.conftest import free_port
from tests.gateway.wyoming.conftest import Port, ended, until


def test_it_is_off_and_for_this_machine_unless_said_otherwise() -> None:
    settings = load_settings()
    assert (settings.wyoming_port, settings.wyoming_host, settings.wyoming_open) == (None, "127.0.0.1", False)
    with pytest.raises(SettingsInvalid, match=r"wyoming_host 0\.0\.0\.0 .*knows no keys.*wyoming_open"):
        load_settings(wyoming_port=10300, wyoming_host="0.0.0.0", api_keys="office-key-0123456789abcdef")
    assert load_settings(wyoming_port=10300, wyoming_host="0.0.0.0", wyoming_open=True).wyoming_open


async def nothing(settings: Settings) -> Engine:
    return await Engine.start(EngineSettings(models=(), voices=()))


async def test_the_service_listens_and_stops_with_its_client_told() -> None:
    settings, ready = Settings(port=0, wyoming_port=free_port()), asyncio.Event()
    service = asyncio.create_task(serve(settings, listening=lambda _: None, ready=lambda _: ready.set(), start=nothing))
    await asyncio.wait({service, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
    async with AsyncTcpClient("127.0.0.1", settings.wyoming_port or 0, read_timeout=10) as client:
        await client.write_event(Describe().event())
        (event,) = await until(client, "info")
        assert (Info.from_event(event).tts, Info.from_event(event).asr) == ([], [])
        os.kill(os.getpid(), signal.SIGTERM)
        (event,) = await until(client, "error")
        assert event.data["code"] == "draining"
        assert await ended(client)
    assert await service


async def test_a_port_that_is_taken_is_named_with_its_flag() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings(port=0, wyoming_port=taken.getsockname()[1])
        with pytest.raises(CannotListen, match="--wyoming-port"):
            await serve(settings, listening=lambda _: None, ready=lambda _: None, start=nothing)


async def test_no_more_requests_than_places(port: Port) -> None:
    service = port.running.service
    places = service.settings.max_speeches
    held = [service.speech(identity) for identity in [LOCAL] * places]
    for place in held:
        place.__enter__()
    try:
        async with port.client() as client:
            await client.write_event(SynthesizeStart().event())
            (event,) = await until(client, "error")
            assert event.data["code"] == "overloaded"
    finally:
        for place in held:
            place.__exit__(None, None, None)
