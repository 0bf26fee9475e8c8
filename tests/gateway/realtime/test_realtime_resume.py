"""Sessions whose connection breaks: nothing is lost, nothing is heard twice, and nothing is kept for ever."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from gateway.realtime.event_log import EventLog
from load.cutting import CuttingProxy
from load.resume import script, stream
from tests.gateway.realtime.client import (
    PCM,
    TRANSCRIPTION,
    Client,
    check_contract,
    recording,
    session,
    silence,
    update,
)
from tests.gateway.realtime.conftest import Running, Server
from tests.gateway.realtime.test_realtime_limits import FAST, becomes, closing, service

SPEECH = recording("austen-0880.wav")


@asynccontextmanager
async def resumed(running: Running, created: dict[str, Any], last: int, **options: Any) -> AsyncIterator[Client]:
    """The session of a `session.created`, taken up; `seen` begins with x.session.resumed."""
    token = created["session"]["resume"]["token"]
    url = f"ws://{running.address}/v1/realtime?session={token}&last_event={last}"
    async with connect(url, max_size=None, **options) as socket:
        client = Client(socket)
        await client.until("x.session.resumed")
        yield client


async def refused(running: Running, query: str, **options: Any) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as error:
        async with connect(f"ws://{running.address}/v1/realtime?{query}", **options):
            pass
    response = error.value.response
    return response.status_code, json.loads(response.body)["error"]["code"]


async def test_random_cuts_change_no_word(server: Server) -> None:
    blocks, rate = await script(("austen-0880.wav", "austen-0920.wav"), pause=0.8)
    async with service(server) as running:
        whole = await stream(f"ws://{running.address}", None, blocks, rate, 4.0)
        assert len(whole.words) > 10
        host, _, port = running.address.partition(":")
        proxy = CuttingProxy(host, int(port), random.Random(3), up=25_000, down=4_000)
        async with proxy.running():
            said = await stream(f"ws://127.0.0.1:{proxy.port}", None, blocks, rate, 4.0)
    assert proxy.cuts >= 4
    assert said.problems == []
    assert said.finals == whole.finals


async def test_a_client_gets_what_it_missed_and_goes_on_from_the_last_sample(running: Running) -> None:
    url = f"{running.url}&resume=1&include=x.words"
    async with session(url, update(format=PCM)) as client:
        await client.append(SPEECH, 0.1)
        await client.append(silence(1.0), 0.1)
        await client.until(TRANSCRIPTION + "completed")
        whole = check_contract(client.seen)[0]
        numbers = [event["sequence"] for event in client.seen if event["type"] != "x.taken"]
        assert numbers == sorted(set(numbers))
        taken = client.of("x.taken") or [await client.until("x.taken")]
        assert 0 <= taken[0]["samples"] <= len(SPEECH) // 2 + 16_000

    middle = len(SPEECH) // 4 * 2
    async with session(url, update(format=PCM)) as client:
        (created,) = client.of("session.created")
        await client.append(SPEECH[:middle], 0.1)
        await client.until("input_audio_buffer.speech_started")
        seen = client.seen
        client.socket.transport.abort()
    last = next(event["sequence"] for event in seen if event["type"] == "session.updated")
    async with resumed(running, created, last) as again:
        (told,) = again.seen
        taken = told["samples"]
        assert 0 < taken <= middle // 2
        await again.append((SPEECH + silence(1.0))[2 * taken :], 0.1)
        await again.until(TRANSCRIPTION + "completed")
        missed = [event for event in again.seen if "sequence" in event]
        assert missed[0]["type"] == "input_audio_buffer.speech_started"
        assert [event["sequence"] for event in missed] == list(range(last + 1, last + 1 + len(missed)))
        end = check_contract([event for event in again.seen if event["type"] != "x.session.resumed"])[0]
        assert end["transcript"] == whole["transcript"]
        assert [word["word"] for word in end["words"]] == [word["word"] for word in whole["words"]]
        # To a frame or two: batches differ, and bfloat16 with them.
        assert [word["start"] for word in end["words"]] == pytest.approx([w["start"] for w in whole["words"]], abs=0.1)
        # A dead connection that nobody has noticed: the newer one counts.
        async with resumed(running, created, missed[-1]["sequence"]) as newer:
            assert await closing(again) == 4103
            await newer.alive()
    await becomes(lambda: running.service.sessions == 0)


async def test_without_being_asked_for_nothing_is_different(running: Running) -> None:
    async with session(running.url, update(format=PCM)) as client:
        await client.append(SPEECH[:32_000], 0.1)
        await client.commit()
        await client.until(TRANSCRIPTION + "completed")
        assert not [event for event in client.seen if "sequence" in event or event["type"].startswith("x.")]
        assert "resume" not in client.seen[0]["session"]
        client.socket.transport.abort()
    await becomes(lambda: running.service.sessions == 0)


async def test_who_may_not_resume(server: Server) -> None:
    async with service(server, api_keys=("first", "second")) as running:
        first, second = ({"Authorization": f"Bearer {key}"} for key in ("first", "second"))
        async with session(f"{running.url}&resume=1", update(format=PCM), additional_headers=first) as client:
            (created,) = client.of("session.created")
            client.socket.transport.abort()
        token = created["session"]["resume"]["token"]
        assert len(token) >= 32
        assert await refused(running, f"session={token}", additional_headers=second) == (404, "session_not_found")
        assert (await refused(running, f"session={token}"))[0] == 401
        for query, code in (
            ("session=unknown", (404, "session_not_found")),
            (f"session={token}&last_event=x", (400, "invalid_value")),
            (f"session={token}&last_event=99999", (400, "invalid_value")),
            ("resume=maybe", (400, "invalid_value")),
            ("resume=1&intent=conversation", (400, "invalid_value")),
        ):
            assert (await refused(running, query, additional_headers=first))[0] == code[0]
        async with resumed(running, created, 0, additional_headers=first) as client:
            # All of it again, from the first event on, for who has heard nothing.
            assert (await client.receive())["type"] == "session.created"
            error = await client.refused({"type": "input_audio_buffer.append", "audio": "AAAA"})
            assert "whole samples" in error["message"]
        await becomes(lambda: running.service.sessions == 0)


async def test_a_session_waits_in_its_place_and_no_longer_than_that(server: Server) -> None:
    async with service(server, max_sessions=1, resume_seconds=1.0) as running:
        tasks = await asyncio.to_thread(server.run, count_tasks())
        async with session(f"{running.url}&resume=1", update(format=PCM)) as client:
            (created,) = client.of("session.created")
            await client.append(SPEECH, 0.1)
            await client.until("input_audio_buffer.speech_started")
            client.socket.transport.abort()
        await becomes(lambda: value(running, "speechlane_sessions_parked") == 1)
        assert running.service.sessions == 1
        assert await refused(running, "intent=transcription") == (503, "overloaded")
        await becomes(lambda: running.service.sessions == 0)
        assert value(running, "speechlane_utterances_total", outcome="final") == 1  # finalised, for nobody
        token = created["session"]["resume"]["token"]
        assert await refused(running, f"session={token}&last_event=2") == (404, "session_not_found")
        assert value(running, "speechlane_sessions_parked") == 0
        assert [device.streams for device in server.engine.status().devices] == [0]
        async with asyncio.timeout(5):
            while await asyncio.to_thread(server.run, count_tasks()) > tasks:
                await asyncio.sleep(0.05)


async def count_tasks() -> int:
    return len(asyncio.all_tasks())


def value(running: Running, name: str, **labels: str) -> float:
    """A metric of the service; 0 before it was ever counted."""
    return running.service.metrics.registry.get_sample_value(name, labels) or 0.0


async def test_no_more_wait_than_may(server: Server) -> None:
    async with service(server, max_parked=0) as running:
        async with session(f"{running.url}&resume=1", update(format=PCM)) as client:
            client.socket.transport.abort()
        await becomes(lambda: running.service.sessions == 0)


async def test_who_says_goodbye_is_not_waited_for(running: Running) -> None:
    async with session(f"{running.url}&resume=1", update(format=PCM)) as client:
        await client.append(SPEECH[:16_000], 0.1)
    await becomes(lambda: running.service.sessions == 0)


async def test_a_shutdown_lets_what_is_being_said_end(server: Server) -> None:
    async with service(server, FAST) as running:
        async with session(f"{running.url}&resume=1", update(format=PCM)) as talking:
            async with session(f"{running.url}&resume=1", update(format=PCM)) as gone:
                await gone.append(SPEECH[:16_000], 0.1)
                gone.socket.transport.abort()
            await becomes(lambda: value(running, "speechlane_sessions_parked") == 1)
            half = len(SPEECH) // 4 * 2
            await talking.append(SPEECH[:half], 0.1)
            await talking.until("input_audio_buffer.speech_started")
            server.loop.call_soon_threadsafe(running.service.draining.set)
            await becomes(lambda: running.service.sessions == 1)  # nobody waits for who is gone
            await talking.append(SPEECH[half:] + silence(1.0), 0.1)
            assert await closing(talking) == 1012
            (end,) = check_contract([event for event in talking.seen if event["type"] != "x.taken"])
            assert end["transcript"].rstrip(".").endswith("man")
            assert talking.of("x.taken")[-1]["samples"] > len(SPEECH) // 2
        await becomes(lambda: running.service.sessions == 0)


async def test_the_log_is_bounded_and_knows_what_is_gone() -> None:
    log = EventLog(events=3)
    for number in range(3):
        log.send({"type": "a", "number": number})
    log.send_latest("state", {"type": "b"})
    assert log.holds(1) and not log.holds(0) and not log.holds(5)
    log.send_latest("state", {"type": "b"})  # takes the place of the one before
    assert log.holds(1) and log.newest == 5
    sent: list[int] = []

    class Wire:
        def send_encoded(self, data: bytes, key: object = None) -> None:
            sent.append(json.loads(data)["sequence"])

        async def room(self) -> None: ...

        def ended(self) -> bool:
            return False

    await log.follow(Wire(), 2)  # type: ignore[arg-type]
    log.send({"type": "a"})
    assert sent == [3, 5, 6]
