"""The two sockets, message by message, as agents use them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.gateway.speak.conftest import Running, Server

KEY = "office-key-0123456789abcdef"
LONG = "This goes on for quite a while, and nobody is there to hear it. " * 20
Event = dict[str, Any]


@asynccontextmanager
async def stream(
    running: Running, several: bool = False, voice: str = "heart", query: str = "", **more: Any
) -> AsyncIterator[ClientConnection]:
    name = "multi-stream-input" if several else "stream-input"
    url = f"ws://{running.address}/v1/text-to-speech/{voice}/{name}?output_format=pcm_24000{query}"
    async with connect(url, proxy=None, max_size=None, **more) as socket:
        yield socket


async def send(socket: ClientConnection, **message: Any) -> None:
    await socket.send(json.dumps(message))


async def next_event(socket: ClientConnection) -> Event:
    event: Event = json.loads(await asyncio.wait_for(socket.recv(), 20))
    return event


async def until_final(socket: ClientConnection, context: str | None = None) -> list[Event]:
    events = []
    while True:
        event = await next_event(socket)
        assert "error" not in event, event
        if event.get("contextId") == context:
            events.append(event)
            if event["isFinal"]:
                return events


async def until_error(socket: ClientConnection) -> Event:
    while "error" not in (event := await next_event(socket)):
        pass
    return event


async def closed(socket: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed):
        while True:
            await asyncio.wait_for(socket.recv(), 20)
    return socket.close_code


def sound(events: list[Event]) -> bytes:
    return b"".join(base64.b64decode(event["audio"]) for event in events if event["audio"])


def characters(events: list[Event]) -> str:
    return "".join(c for event in events if event["alignment"] for c in event["alignment"]["chars"])


async def test_pieces_of_text_are_one_speech_with_its_characters(running: Running) -> None:
    async with stream(running) as socket:
        await send(
            socket, text=" ", voice_settings={"stability": 0.5}, generation_config={"chunk_length_schedule": [50]}
        )
        for piece in ("The ans", "wer is no. ", "3,497 ", "left."):
            await send(socket, text=piece, try_trigger_generation=True)
        await send(socket, text="")
        events = await until_final(socket)
        assert await closed(socket) == 1000
    assert characters(events) == "The answer is no. 3,497 left."
    moment = 0.0
    for event in events[:-1]:
        alignment = event["alignment"]
        seconds = len(base64.b64decode(event["audio"])) / 48_000
        assert alignment == event["normalizedAlignment"]
        starts, durations = alignment["charStartTimesMs"], alignment["charDurationsMs"]
        assert starts == sorted(starts)
        assert len(starts) == len(durations) == len(alignment["chars"])
        assert starts[-1] + durations[-1] == pytest.approx(seconds * 1000, abs=1), "a piece is filled to its end"
        moment += seconds
    assert moment > 2.0


async def test_flush_speaks_at_once_and_the_stream_goes_on(running: Running) -> None:
    async with stream(running, query="&auto_mode=true&sync_alignment=true&language_code=en") as socket:
        await send(socket, text="No end yet", flush=True)
        assert (await next_event(socket))["audio"]
        await send(socket, text=" but now.")
        await send(socket, text="")
        assert characters(await until_final(socket)).endswith("but now.")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("no json", "invalid_json"),
        ("[]", "invalid_json"),
        (b"\x00\x01", "invalid_input_message"),
        ('{"try_trigger_generation": true}', "missing_required_parameter"),
        ('{"text": 7}', "invalid_type"),
        ('{"text": "a", "voice_settings": {"speed": 9}}', "invalid_value"),
        ('{"text": "a", "voice_settings": {"speed": NaN}}', "invalid_value"),
        ('{"flush": true}', "unknown_context"),
        ('{"text": "%s"}' % ("a" * 70_000), "text_too_long"),
    ],
)
async def test_a_wrong_message_is_told_and_the_socket_goes_on(
    running: Running, message: str | bytes, code: str
) -> None:
    async with stream(running) as socket:
        await socket.send(message)
        error = await next_event(socket)
        assert (error["error"], error["code"]) == (code, 1008)
        await send(socket, text="\ud83d")
        await send(socket, text="\ude42 It goes on.")
        await send(socket, text="")
        assert sound(await until_final(socket))


async def test_text_after_the_end_and_other_settings_are_refused(running: Running) -> None:
    async with stream(running) as socket:
        await send(socket, text=LONG, voice_settings={"speed": 1.1})
        await send(socket, text="b", voice_settings={"speed": 0.9})
        assert (await until_error(socket))["param"] == "voice_settings"
        await send(socket, text="")
        await send(socket, text="more")
        assert (await until_error(socket))["error"] == "context_ended"


async def test_a_socket_that_is_ended_at_once_is_final(running: Running) -> None:
    async with stream(running) as socket:
        await send(socket, text="")
        assert [event["isFinal"] for event in await until_final(socket)] == [True]
        assert await closed(socket) == 1000


@pytest.mark.parametrize(
    ("voice", "query", "code"),
    [("nobody", "", "voice_not_found"), ("heart", "&model_id=tiny.en", "model_not_found"),
     ("heart", "&inactivity_timeout=0", "invalid_value"), ("heart", "&enable_ssml_parsing=true", "invalid_value")],
)  # fmt: skip
async def test_what_is_not_here_is_told_before_closing(running: Running, voice: str, query: str, code: str) -> None:
    async with stream(running, voice=voice, query=query) as socket:
        error = await next_event(socket)
        assert error["error"] == code
        assert await closed(socket) == 1008


async def test_a_stream_that_nobody_feeds_is_ended(running: Running) -> None:
    async with stream(running, query="&inactivity_timeout=1") as socket:
        await send(socket, text="Then nothing more came.")
        events = [await next_event(socket)]
        while "error" not in events[-1]:
            events.append(await next_event(socket))
        assert characters(events[:-1]) == "Then nothing more came."
        assert events[-1]["error"] == "input_timeout_exceeded"
        assert await closed(socket) == 1008
    async with stream(running, query="&inactivity_timeout=1") as socket:
        assert (await next_event(socket))["error"] == "input_timeout_exceeded"


async def test_contexts_speak_side_by_side_and_end_alone(running: Running) -> None:
    async with stream(running, several=True) as socket:
        for name in ("one", "two"):
            await send(socket, text=" ", context_id=name)
            await send(socket, text=f"This is {name}. ", context_id=name, flush=True)
        await send(socket, context_id="one", close_context=True)
        assert characters(await until_final(socket, "one")).strip() == "This is one."
        await send(socket, text="", context_id="two")
        await send(socket, text="And more.", context_id="two", flush=True)
        await send(socket, text="Without a name.")
        await send(socket, close_socket=True)
        events = []
        with pytest.raises(ConnectionClosed):
            while True:
                events.append(await next_event(socket))
        assert socket.close_code == 1000
        for name, text in (("two", "This is two. And more."), ("default", "Without a name.")):
            mine = [event for event in events if event["contextId"] == name]
            assert text.endswith(characters(mine).strip()[-9:])
            assert mine[-1]["isFinal"]


async def test_a_context_that_is_not_flushed_stops_when_it_is_closed(running: Running) -> None:
    async with stream(running, several=True) as socket:
        await send(socket, text=LONG, context_id="one")
        assert (await next_event(socket))["audio"]
        await send(socket, context_id="one", close_context=True)
        assert len(sound(await until_final(socket, "one"))) < 30 * 48_000
        assert running.until(lambda: running.speaking == 0)
        await send(socket, text="Its name is free again.", context_id="one")
        await send(socket, text=None, context_id="one", flush=True)
        await send(socket, context_id="one", close_context=True)
        assert sound(await until_final(socket, "one"))


async def test_the_sixth_context_is_refused_alone(running: Running) -> None:
    async with stream(running, several=True) as socket:
        for number in range(6):
            await send(socket, text=f"This is number {number}. ", context_id=str(number))
        error = await until_error(socket)
        assert (error["error"], error["contextId"]) == ("max_active_contexts_exceeded", "5")
        await send(socket, context_id="nobody", close_context=True)
        assert (await until_error(socket))["contextId"] == "nobody"
        await send(socket, text=7, context_id="4")
        assert (await until_error(socket))["contextId"] == "4"
        await send(socket, context_id="0", close_context=True)
        await until_final(socket, "0")
        await send(socket, text="Now there is room.", context_id="5", flush=True)
        await send(socket, context_id="5", close_context=True)
        assert sound(await until_final(socket, "5"))


async def test_a_context_that_nobody_feeds_ends_alone(running: Running) -> None:
    async with stream(running, several=True, query="&inactivity_timeout=1") as socket:
        await send(socket, text="Forgotten. ", context_id="one")
        assert sound(await until_final(socket, "one"))
        await send(socket, text="The socket goes on. ", context_id="two", flush=True)
        await send(socket, context_id="two", close_context=True)
        assert sound(await until_final(socket, "two"))


async def test_who_goes_away_is_not_spoken_to(running: Running) -> None:
    async with stream(running) as socket:
        await send(socket, text=LONG)
        await next_event(socket)
    assert running.until(lambda: running.speaking == 0)
    assert running.until(lambda: running.service.sessions == 0)


async def test_the_key_may_come_with_the_first_message(server: Server) -> None:
    running = server.serve(api_keys=(KEY,))
    try:
        for field in ("xi_api_key", "xi-api-key", "authorization"):
            async with stream(running) as socket:
                await send(socket, text=" ", **{field: f"Bearer {KEY}" if field == "authorization" else KEY})
                await send(socket, text="Yes.")
                await send(socket, text="")
                assert sound(await until_final(socket))
        async with stream(running, additional_headers={"xi-api-key": KEY}) as socket:
            await send(socket, text="Yes.")
            await send(socket, text="")
            assert sound(await until_final(socket))
        for first in ('{"text": " "}', '{"text": " ", "xi_api_key": "wrong"}', "no json", b"\x00"):
            async with stream(running, several=True) as socket:
                await socket.send(first)
                error = await next_event(socket)
                assert error["error"] in ("invalid_api_key", "invalid_json")
                assert await closed(socket) == 1008
        with pytest.raises(InvalidStatus) as raised:
            async with stream(running, additional_headers={"xi-api-key": "wrong"}):
                pass
        assert raised.value.response.status_code == 401
        assert json.loads(raised.value.response.body)["detail"]["status"] == "invalid_api_key"
    finally:
        running.stop()


async def test_a_subprotocol_is_refused_and_never_logged(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InvalidStatus) as raised:
        async with stream(running, subprotocols=["a-key-that-nobody-may-see"]):
            pass
    assert raised.value.response.status_code in (400, 422)
    assert "a-key-that-nobody-may-see" not in caplog.text


async def test_a_full_device_is_told(server: Server, running: Running) -> None:
    server.admitted_share(1e-6)
    try:
        async with stream(running) as first, stream(running) as socket:
            await send(first, text=" ")  # a device that does nothing takes anybody
            assert running.until(lambda: running.speaking == 1)
            await send(socket, text="Hello.")
            error = await next_event(socket)
            assert error["error"] == "system_busy"
            assert error["retry_after"] > 0
            assert await closed(socket) == 1008
    finally:
        server.admitted_share(1000.0)
    full = server.serve(max_sessions=1)
    try:
        async with stream(full) as socket:
            await send(socket, text=" ")
            with pytest.raises(InvalidStatus) as raised:
                async with stream(full):
                    pass
            assert raised.value.response.status_code == 429
            assert int(raised.value.response.headers["Retry-After"]) > 0
    finally:
        full.stop()
