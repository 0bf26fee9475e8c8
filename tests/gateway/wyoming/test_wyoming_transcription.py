"""Speech to text with the unmodified wyoming package."""

from __future__ import annotations

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
from wyoming.tts import Synthesize

from tests.gateway.wyoming.conftest import Port, ended, until

RECORDING = "austen-0880.wav"
normalise = EnglishTextNormalizer()


async def send(client: AsyncTcpClient, path: Path, *, channels: int = 1) -> None:
    with wave.open(str(path)) as file:
        rate, sound = file.getframerate(), file.readframes(file.getnframes())
    if channels == 2:
        sound = b"".join(sound[at : at + 2] * 2 for at in range(0, len(sound), 2))
    await client.write_event(AudioStart(rate, 2, channels).event())
    for at in range(0, len(sound), 4_096):
        await client.write_event(AudioChunk(rate, 2, channels, sound[at : at + 4_096]).event())
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
