"""Speech to text with the unmodified wyoming package."""

from __future__ import annotations

import socket
import wave
from pathlib import Path

import jiwer
import pytest
from whisper_normalizer.english import EnglishTextNormalizer
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.ping import Ping
from wyoming.tts import Synthesize

from gateway.wyoming.listener import WyomingListener
from tests.gateway.wyoming.conftest import Port, ended, until

RECORDING = "austen-0880.wav"
normalise = EnglishTextNormalizer()


async def send(client: AsyncTcpClient, path: Path, *, channels: int = 1, stop: bool = True) -> None:
    with wave.open(str(path)) as file:
        rate, sound = file.getframerate(), file.readframes(file.getnframes())
    if channels == 2:
        sound = b"".join(sound[at : at + 2] * 2 for at in range(0, len(sound), 2))
    await client.write_event(AudioStart(rate, 2, channels).event())
    for at in range(0, len(sound), 4_096):
        await client.write_event(AudioChunk(rate, 2, channels, sound[at : at + 4_096]).event())
    if stop:
        await client.write_event(AudioStop().event())


async def test_a_recording_becomes_its_words(port: Port, data: Path, references: dict[str, str]) -> None:
    async with port.client() as client:
        await client.write_event(Transcribe(name="whisper-1", language="en").event())
        await send(client, data / RECORDING)
        (event,) = await until(client, "transcript")
        first = Transcript.from_event(event)
        assert first.language == "en"
        assert jiwer.wer(normalise(references[RECORDING]), normalise(first.text)) < 0.4
        # The same connection goes on, without saying transcribe again, and with other sound.
        await send(client, data / RECORDING, channels=2)
        (event,) = await until(client, "transcript")
        assert normalise(Transcript.from_event(event).text) == normalise(first.text)
        await client.write_event(Synthesize("And now speak.").event())
        assert len(await until(client, "audio-stop")) > 2


async def test_silence_is_an_empty_transcript(port: Port) -> None:
    async with port.client() as client:
        await client.write_event(Transcribe().event())
        await client.write_event(AudioStart(8_000, 2, 1).event())
        await client.write_event(AudioChunk(8_000, 2, 1, bytes(16_000)).event())
        await client.write_event(AudioStop().event())
        (event,) = await until(client, "transcript")
        assert Transcript.from_event(event).text == ""


@pytest.mark.parametrize(
    ("events", "named"),
    [
        ([Transcribe(name="nobody").event()], "model"),
        ([Transcribe(language="klingon").event()], "language"),
        ([AudioStart(16_000, 4, 1).event()], "width"),
        ([AudioStart(1, 2, 1).event()], "rate"),
        ([Event("audio-chunk", {"rate": 16_000}, b"ab")], "width"),
        ([AudioStart(16_000, 2, 1).event(), AudioChunk(8_000, 2, 1, b"ab").event()], "rate"),
        ([AudioStart(16_000, 2, 1).event()] * 2, "audio-start"),
    ],
)
async def test_a_wrong_request_is_told_and_ends_the_connection(port: Port, events: list[Event], named: str) -> None:
    async with port.client() as client:
        for event in events:
            await client.write_event(event)
        (event,) = await until(client, "error")
        assert Error.from_event(event).text.startswith(f"{named}: ")
        assert await ended(client)
    assert port.running.service.sessions == 0


async def test_who_goes_away_leaves_nothing_behind(port: Port) -> None:
    async with port.client() as client:
        await client.write_event(AudioStart(16_000, 2, 1).event())
        await client.write_event(AudioChunk(16_000, 2, 1, bytes(32_000)).event())
        assert port.running.until(lambda: port.running.service.sessions == 1)
    assert port.running.until(lambda: port.running.service.sessions == 0)
    assert port.running.until(lambda: port.listener.connections == 0)


async def test_what_is_being_said_is_heard_to_its_end_when_the_service_goes_down(
    port: Port, data: Path, references: dict[str, str]
) -> None:
    server = port.running.server
    running = server.serve(drain_seconds=3.0)
    sock = socket.create_server(("127.0.0.1", 0))
    listener = WyomingListener(running.service)
    server.run(listener.start(sock))
    number = sock.getsockname()[1]
    try:
        async with (
            AsyncTcpClient("127.0.0.1", number, read_timeout=20) as quick,
            AsyncTcpClient("127.0.0.1", number, read_timeout=20) as slow,
        ):
            await send(slow, data / RECORDING, stop=False)
            await send(quick, data / RECORDING, stop=False)
            await quick.write_event(Ping().event())
            await until(quick, "pong")
            await slow.write_event(Ping().event())
            await until(slow, "pong")
            server.loop.call_soon_threadsafe(running.service.draining.set)
            await quick.write_event(AudioStop().event())
            for client in (quick, slow):  # the one says that this was all, for the other it is said
                (event,) = await until(client, "transcript")
                said = Transcript.from_event(event).text
                assert jiwer.wer(normalise(references[RECORDING]), normalise(said)) < 0.4
                (event,) = await until(client, "error")
                assert event.data["code"] == "draining"
                assert await ended(client)
        assert running.service.sessions == 0
    finally:
        server.run(listener.close())
        running.stop()
