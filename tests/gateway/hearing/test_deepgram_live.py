"""GET /v1/listen with the unmodified deepgram-sdk, and on the raw wire what that does not say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from deepgram import AsyncDeepgramClient
from deepgram.core.api_error import ApiError
from deepgram.environment import DeepgramClientEnvironment
from deepgram.listen.v1.types import (
    ListenV1Metadata,
    ListenV1Results,
    ListenV1SpeechStarted,
    ListenV1UtteranceEnd,
)
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from gateway.plain_words import plain_text
from gateway.sockets import SocketLimits
from tests.gateway.hearing.conftest import pcm, stereo
from tests.gateway.speak.conftest import Running, Server

RAW = {"model": "nova-3", "encoding": "linear16", "sample_rate": 16_000}
QUERY = "model=nova-3&encoding=linear16&sample_rate=16000"
FRAME = 6_400


def sdk(running: Running, key: str = "not needed") -> AsyncDeepgramClient:
    http, ws = running.http, f"ws://{running.address}"
    environment = DeepgramClientEnvironment(base=http, production=ws, agent=ws, agent_rest=http)
    return AsyncDeepgramClient(api_key=key, environment=environment)


async def spoken(running: Running, data: bytes, **asked: Any) -> list[Any]:
    """Everything the service says to a recording that ends with CloseStream."""
    async with sdk(running).listen.v1.connect(**asked) as socket:
        for at in range(0, len(data), FRAME):
            await socket.send_media(data[at : at + FRAME])
        await socket.send_close_stream()
        return [message async for message in socket]


def finals(messages: list[Any], channel: int = 0) -> str:
    said = [m for m in messages if isinstance(m, ListenV1Results) and m.is_final and m.channel_index[0] == channel]
    return " ".join(m.channel.alternatives[0].transcript for m in said if m.channel.alternatives[0].transcript)


@asynccontextmanager
async def raw(running: Running, query: str = QUERY, **options: Any) -> AsyncIterator[ClientConnection]:
    async with connect(f"ws://{running.address}/v1/listen?{query}", **options) as socket:
        yield socket


async def answers(socket: ClientConnection) -> list[dict[str, Any]]:
    return [json.loads(message) async for message in socket]


@pytest.mark.parametrize("name", ["austen-0880.wav", "austen-0890.wav", "austen-0930.wav"])
async def test_the_words_are_those_of_our_own_path(
    running: Running, name: str, live_words: Callable[[str], str]
) -> None:
    messages = await spoken(running, pcm(name), punctuate=True, **RAW)
    assert finals(messages) == live_words(name)
    last = messages[-1]
    assert isinstance(last, ListenV1Metadata)
    assert last.duration == pytest.approx(len(pcm(name)) / 32_000, abs=0.01)
    assert (len(last.sha256), last.channels) == (64, 1)


async def test_results_have_words_with_times_and_confidence(running: Running) -> None:
    sound = pcm("austen-0880.wav") + bytes(64_000)
    asked = {"interim_results": True, "vad_events": True, "utterance_end_ms": 1000, "endpointing": 400, **RAW}
    messages = await spoken(running, sound, **asked)
    assert isinstance(messages[0], ListenV1SpeechStarted)
    results = [m for m in messages if isinstance(m, ListenV1Results)]
    interim = [m for m in results if not m.is_final]
    assert interim and all(not m.speech_final and m.channel.alternatives[0].words for m in interim)
    final = next(m for m in results if m.is_final)
    assert (final.speech_final, final.from_finalize, final.channel_index) == (True, False, [0, 1])
    reading = final.channel.alternatives[0]
    assert 0.3 < reading.confidence <= 1
    assert reading.transcript == reading.transcript.lower() == " ".join(word.word for word in reading.words)
    assert all(word.punctuated_word is None for word in reading.words)
    times = [at for word in reading.words for at in (word.start, word.end)]
    assert times == sorted(times) and times[-1] <= final.start + final.duration
    ends = [m for m in messages if isinstance(m, ListenV1UtteranceEnd)]
    assert [end.last_word_end for end in ends] == [reading.words[-1].end]
    assert messages.index(ends[0]) > messages.index(final)
    assert final.metadata.model_info.name == "tiny.en"


async def test_channels_are_heard_apart(running: Running, live_words: Callable[[str], str]) -> None:
    left, right = "austen-0880.wav", "austen-0930.wav"
    messages = await spoken(
        running, stereo(pcm(left), pcm(right)), channels=2, multichannel=True, punctuate=True, **RAW
    )
    assert finals(messages, 0) == live_words(left)
    assert finals(messages, 1) == live_words(right)
    assert messages[-1].channels == 2


async def test_a_container_needs_no_encoding(running: Running, data: Path, live_words: Callable[[str], str]) -> None:
    name = "austen-0880.wav"
    assert finals(await spoken(running, (data / name).read_bytes(), model="tiny.en", smart_format=True)) == live_words(
        name
    )


async def test_finalize_says_what_is_open_and_is_always_answered(running: Running) -> None:
    async with sdk(running).listen.v1.connect(keyterm=["Dashwood"], **RAW) as socket:
        await socket.send_finalize()
        empty = await socket.recv()
        assert (empty.from_finalize, empty.channel.alternatives[0].transcript) == (True, "")
        await socket.send_media(pcm("austen-0880.wav")[:64_000])
        await socket.send_finalize()
        first = await socket.recv()
        assert first.is_final and first.from_finalize and first.channel.alternatives[0].transcript
        await socket.send_media(pcm("austen-0880.wav")[64_000:])
        await socket.send_media(b"")  # as good as CloseStream
        rest = [message async for message in socket]
        assert finals(rest) and isinstance(rest[-1], ListenV1Metadata)


async def test_messages_that_mean_nothing_are_told_and_the_socket_goes_on(running: Running) -> None:
    async with raw(running) as socket:
        for message in ("no JSON", "[]", '{"type":"Hello"}', '{"type":"Finalize","channel":3}'):
            await socket.send(message)
            told = json.loads(await socket.recv())
            assert (told["type"], told["variant"], told["message"]) == ("Error", "SchemaError", message)
        await socket.send('{"type":"KeepAlive"}')
        await socket.send('{"type":"Configure","keyterms":["Elinor"],"features":{"punctuate":true}}')
        assert json.loads(await socket.recv())["keyterms"] == ["Elinor"]
        await socket.send('{"type":"Configure","features":{"redact":true}}')
        assert json.loads(await socket.recv())["type"] == "ConfigureFailure"
        await socket.send('{"type":"CloseStream"}')
        assert [message["type"] for message in await answers(socket)] == ["Metadata"]
        assert socket.close_code == 1000


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("model=whisper-large", "model"),
        ("model=base.en", "model"),
        (f"{QUERY}&diarize=true", "diarize"),
        (f"{QUERY}&callback=http://127.0.0.1/", "callback"),
        (f"{QUERY}&language=de", "language"),
        (f"{QUERY}&language=klingon", "language"),
        (f"{QUERY}&endpointing=soon", "endpointing"),
        (f"{QUERY}&utterance_end_ms=10", "utterance_end_ms"),
        (f"{QUERY}&multichannel=true&channels=9", "channels"),
        ("multichannel=true&channels=2", "multichannel"),
        ("encoding=speex", "encoding"),
        ("encoding=linear16", "sample_rate"),
        ("encoding=linear16&sample_rate=1", "sample_rate"),
    ],
)
async def test_what_cannot_be_had_is_refused_before_the_upgrade(running: Running, query: str, named: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with raw(running, query):
            pass
    response = refused.value.response
    assert response.status_code == 400
    told = json.loads(response.body or b"{}")
    assert told["err_msg"].startswith(f"{named}: ") and told["err_code"] == "INVALID_QUERY_PARAMETER"
    assert told["request_id"] == response.headers["dg-request-id"]
    assert response.headers["dg-error"].startswith(named)
    assert running.service.sessions == 0


async def test_sound_that_cannot_be_decoded_closes_with_their_code(running: Running) -> None:
    async with raw(running, "model=nova-3") as socket:
        await socket.send(b"this is not any sound at all" * 40)
        with pytest.raises(ConnectionClosedError):
            while True:
                await socket.recv()
        assert (socket.close_code, socket.close_reason[:9]) == (1008, "DATA-0000")


async def test_silence_of_the_client_closes_with_their_code_and_pings_do_not_count(server: Server) -> None:
    running = server.serve(SocketLimits(idle_seconds=0.6))
    try:
        async with raw(running) as socket:
            await socket.send(pcm("austen-0880.wav")[:64_000])
            for _ in range(4):
                await socket.ping()
                await asyncio.sleep(0.1)
            await socket.send('{"type":"KeepAlive"}')
            said = [json.loads(await socket.recv()) for _ in range(2)]
            assert said[0]["channel"]["alternatives"][0]["transcript"] and said[1]["type"] == "Metadata"
            with pytest.raises(ConnectionClosedError):
                await socket.recv()
            assert (socket.close_code, socket.close_reason[:8]) == (1011, "NET-0001")
        assert running.until(lambda: running.service.sessions == 0)
    finally:
        running.stop()


async def test_keys_places_and_draining(server: Server) -> None:
    running = server.serve(api_keys="the-key-0123456789abcdef", max_sessions=1)
    try:
        with pytest.raises(ApiError) as refused:
            async with sdk(running, "wrong").listen.v1.connect(**RAW):
                pass
        assert refused.value.status_code == 401
        async with raw(running, subprotocols=["token", "the-key-0123456789abcdef"]) as socket:  # type: ignore[list-item]
            assert socket.subprotocol == "token"
            with pytest.raises(ApiError) as refused:
                async with sdk(running, "the-key-0123456789abcdef").listen.v1.connect(**RAW):
                    pass
            assert refused.value.status_code == 429
            await socket.send(pcm("austen-0880.wav"))
            await socket.send('{"type":"KeepAlive"}')
            await asyncio.sleep(0.2)
            server.loop.call_soon_threadsafe(running.service.draining.set)
            said = []
            with pytest.raises(ConnectionClosedError):
                while True:
                    said.append(json.loads(await socket.recv()))
            assert socket.close_code == 1012
        assert plain_text("thought") in said[0]["channel"]["alternatives"][0]["transcript"] or said[0]["is_final"]
        assert said[-1]["type"] == "Metadata"
    finally:
        running.stop()


async def test_who_goes_away_leaves_nothing_behind(running: Running) -> None:
    async with raw(running, f"{QUERY}&multichannel=true&channels=2") as socket:
        await socket.send(stereo(pcm("austen-0880.wav"), b""))
        assert running.until(lambda: running.service.sessions == 1)
    assert running.until(lambda: running.service.sessions == 0)
    assert running.until(lambda: running.server.engine.status().devices[0].streams == 0)
