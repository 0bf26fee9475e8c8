"""How sockets of /v1/speak end, what they may hold, who is let in, and what the metrics say of it."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.sockets import SocketLimits
from gateway.speak.session import SpeakLimits
from tests.gateway.speak.client import speaking
from tests.gateway.speak.conftest import Running, Server

TEXT = "The old man walked slowly down to the harbour, where nobody was waiting for him. "
KEY = "office-key-0123456789abcdef"


def metric(running: Running, name: str, **labels: str) -> float:
    with urllib.request.urlopen(f"{running.http}/metrics") as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found = [s.value for f in families for s in f.samples if s.name == name and labels.items() <= s.labels.items()]
    return sum(found)


async def closed(client_socket: object) -> tuple[int, str]:
    """Read to the end; the close code and reason."""
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            await asyncio.wait_for(client_socket.recv(), 15)  # type: ignore[attr-defined]
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code, caught.value.rcvd.reason


async def test_a_client_that_stops_reading_is_closed_and_costs_nothing_more(server: Server) -> None:
    running = server.serve(SocketLimits(send_seconds=0.5, queue_bytes=256 * 1024, max_message_bytes=1 << 20))
    try:
        # Little room on the client's side, so that what is not read soon fills up the network.
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
        narrow.connect(running.runner.addresses[0][:2])
        async with connect(running.url, proxy=None, max_queue=1, sock=narrow, close_timeout=0.1) as client:
            form = {"name": "float32", "rate": 48_000}
            await client.send(json.dumps({"type": "create", "context": "a", "lead": None, "format": form}))
            await client.send(json.dumps({"type": "text", "context": "a", "text": TEXT * 60, "end": True}))
            assert running.until(lambda: running.speaking == 1)
            assert await asyncio.to_thread(running.until, lambda: running.speaking == 0, 25)
        assert running.until(lambda: running.service.sessions == 0)
    finally:
        running.stop()


async def test_a_socket_that_breaks_in_mid_word_frees_everything(running: Running) -> None:
    async with speaking(running.url) as client:
        for name in "abc":
            await client.send("create", name)
            await client.send("text", name, text=TEXT * 4)
        await client.until("sound")
        assert running.speaking == 3
        client.socket.transport.abort()
    assert await asyncio.to_thread(running.until, lambda: running.speaking == 0)
    assert running.until(lambda: running.service.sessions == 0)


async def test_shutting_down_speaks_what_was_given_and_closes_with_1012(server: Server) -> None:
    running = server.serve(SocketLimits(finish_seconds=2.5))
    try:
        async with speaking(running.url) as client:
            await client.send("create", "short", lead=60.0)
            await client.send("text", "short", text="Good morning. And good bye")
            await client.send("create", "long", lead=0.5)
            await client.send("text", "long", text=TEXT * 20)
            await client.until("sound")
            server.loop.call_soon_threadsafe(running.service.draining.set)
            done = await client.until("done")
            assert (done["context"], done["reason"]) == ("short", "draining")
            assert done["text"] == "Good morning. And good bye"
            cancelled = await client.until("cancelled")
            assert (cancelled["context"], cancelled["reason"]) == ("long", "draining")
            assert cancelled["spoken"] + cancelled["unspoken"] == TEXT * 20
            assert await closed(client.socket) == (1012, "the service is shutting down; try again in 5 s")
        with pytest.raises(InvalidStatus) as refused:
            async with connect(running.url, proxy=None):
                pass
        assert refused.value.response.status_code == 503
    finally:
        running.stop()


async def test_an_idle_context_is_ended_and_an_idle_socket_closed(server: Server) -> None:
    running = server.serve(SocketLimits(idle_seconds=2.0), SpeakLimits(context_idle_seconds=0.3))
    try:
        async with speaking(running.url) as client:
            await client.send("create", stall=30)
            await client.send("text", text="He said")
            done = await client.until("done")
            assert (done["reason"], done["text"]) == ("idle", "He said")
            assert (await closed(client.socket))[0] == 1000
    finally:
        running.stop()


async def test_a_long_speech_keeps_its_socket_open(server: Server) -> None:
    running = server.serve(SocketLimits(idle_seconds=0.8))
    try:
        async with speaking(running.url) as client:
            await client.send("create", lead=0.5)
            await client.send("text", text="One, two, three, four, five, six.", end=True)
            done = await client.until("done")
            assert done["seconds"] > 1.5, "longer than a socket may be silent"
    finally:
        running.stop()


async def test_a_full_device_refuses_a_context_with_a_time_to_come_back(server: Server) -> None:
    running = server.serve()
    server.admitted_share(1e-6)
    try:
        async with speaking(running.url) as client:
            await client.send("create", "first")  # a device that does nothing takes anybody
            await client.until("created")
            await client.send("create", event_id="e1")
            event = await client.next()
            assert (event["type"], event["context"], event["event_id"]) == ("error", "a", "e1")
            assert event["error"]["code"] == "at_capacity"
            assert event["error"]["retry_after"] > 0
            server.admitted_share(1000.0)
            await client.say("Now there is room.")
    finally:
        server.admitted_share(1000.0)
        running.stop()


async def test_keys_and_places(server: Server) -> None:
    running = server.serve(api_keys=(KEY,), max_sessions_per_key=1)
    try:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(running.url, proxy=None, additional_headers=headers):
                    pass
            assert refused.value.response.status_code == 401
        protocols = ["speak", f"openai-insecure-api-key.{KEY}"]
        async with speaking(running.url, subprotocols=protocols) as client:
            assert client.socket.subprotocol == "speak"
            with pytest.raises(InvalidStatus) as refused:
                async with connect(running.url, proxy=None, additional_headers={"Authorization": f"Bearer {KEY}"}):
                    pass
            answer = refused.value.response
            assert answer.status_code == 503
            assert int(answer.headers["Retry-After"]) >= 1
            assert json.loads(answer.body or b"")["error"]["code"] == "overloaded"
    finally:
        running.stop()


async def test_metrics(server: Server) -> None:
    running = server.serve()
    try:
        wasted = metric(running, "speechlane_wasted_audio_seconds_total")
        async with speaking(running.url) as client:
            heard = await client.say("One two three.")
            await client.send("create", "b")
            await client.send("text", "b", text=TEXT)
            await client.until("sound", "b")
            assert metric(running, "speechlane_speakers") == 1
            await client.send("cancel", "b")
            await client.until("cancelled", "b")
        assert metric(running, "speechlane_speeches_total", outcome="done") == 1
        assert metric(running, "speechlane_speeches_total", outcome="cancelled") == 1
        sent = metric(running, "speechlane_speech_sent_seconds_total", kind="live")
        assert sent > heard.events[-1]["seconds"]
        assert metric(running, "speechlane_speech_first_sound_seconds_count", kind="live") == 2
        assert metric(running, "speechlane_wasted_audio_seconds_total") > wasted
        assert metric(running, "speechlane_free_speakers") > 0
    finally:
        running.stop()
