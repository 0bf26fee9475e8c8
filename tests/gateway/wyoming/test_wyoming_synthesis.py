"""Text to speech with the unmodified wyoming package."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeVoice

from tests.gateway.wyoming.conftest import Port, ended, until

TEXT = "The answer is no. 3,497 left."
LONG = "This goes on for quite a while, and nobody is there to hear it. " * 20


def sound(events: list[Event]) -> bytes:
    return b"".join(AudioChunk.from_event(event).audio for event in events if AudioChunk.is_type(event.type))


def errors(events: list[Event]) -> list[Error]:
    return [Error.from_event(event) for event in events if Error.is_type(event.type)]


async def say(client: AsyncTcpClient, text: str, **more: Any) -> list[Event]:
    await client.write_event(Synthesize(text, **more).event())
    return await until(client, "audio-stop")


async def stream(client: AsyncTcpClient, *pieces: str, also: bool = True, **more: Any) -> list[Event]:
    await client.write_event(SynthesizeStart(**more).event())
    for piece in pieces:
        await client.write_event(SynthesizeChunk(piece).event())
    if also:
        await client.write_event(Synthesize("".join(pieces), **more).event())
    await client.write_event(SynthesizeStop().event())
    return await until(client, "synthesize-stopped")


async def test_describe_lists_voices_and_models(port: Port) -> None:
    async with port.client() as client:
        await client.write_event(Describe().event())
        (event,) = await until(client, "info")
        info = Info.from_event(event)
        (program,) = info.tts
        assert program.supports_synthesize_streaming
        assert [(voice.name, voice.languages) for voice in program.voices] == [("heart", ["en"])]
        assert [model.name for model in info.asr[0].models] == ["tiny.en"]
        await client.write_event(Ping("still there?").event())
        (event,) = await until(client, "pong")
        assert event.data["text"] == "still there?"


async def test_a_whole_text_is_spoken(port: Port) -> None:
    async with port.client() as client:
        events = await say(client, TEXT, voice=SynthesizeVoice(name="heart"))
        start, *chunks, stop = events
        assert AudioStart.from_event(start) == AudioStart(rate=24_000, width=2, channels=1, timestamp=0)
        position = 0
        for event in chunks:
            chunk = AudioChunk.from_event(event)
            assert (chunk.rate, chunk.width, chunk.channels) == (24_000, 2, 1)
            assert chunk.timestamp == round(position / 24)
            position += chunk.samples
        assert len(chunks) > 3
        assert AudioStop.from_event(stop).timestamp == round(position / 24)
        assert np.abs(np.frombuffer(sound(events), "<i2")).max() > 3000
        again = await say(client, TEXT, voice=SynthesizeVoice(language="en_US"))
        assert sound(again) == sound(events), "a connection takes one request after the other"


async def test_streamed_text_is_spoken_once(port: Port) -> None:
    async with port.client() as client:
        whole = await say(client, TEXT)
        for also in (True, False):
            events = await stream(client, "The ans", "wer is", " no. 3,4", "97 left.", also=also)
            kinds = [event.type for event in events]
            assert kinds[0] == "audio-start"
            assert kinds[-2:] == ["audio-stop", "synthesize-stopped"]
            assert sound(events) == sound(whole)
        # Some send the whole text at the very end.
        await client.write_event(SynthesizeStart().event())
        await client.write_event(SynthesizeChunk(TEXT).event())
        await client.write_event(SynthesizeStop().event())
        await client.write_event(Synthesize(TEXT).event())
        await client.write_event(Ping().event())
        events = await until(client, "synthesize-stopped")
        assert sound(events) == sound(whole)
        if not any(event.type == "pong" for event in events):
            assert [event.type for event in await until(client, "pong")] == ["pong"]


async def test_sound_comes_before_the_text_has_ended(port: Port) -> None:
    async with port.client() as client:
        await client.write_event(SynthesizeStart().event())
        assert [event.type for event in await until(client, "audio-start")] == ["audio-start"]
        await client.write_event(SynthesizeChunk("The first sentence is here. And the ").event())
        assert sound(await until(client, "audio-chunk"))
        await client.write_event(SynthesizeChunk("second one.").event())
        await client.write_event(SynthesizeStop().event())
        await until(client, "synthesize-stopped")


async def test_requests_wait_for_each_other(port: Port) -> None:
    async with port.client() as client:
        await client.write_event(Synthesize("One.").event())
        await client.write_event(Synthesize("Two.").event())
        first, second = await until(client, "audio-stop"), await until(client, "audio-stop")
        assert sound(first)
        assert sound(second)
        assert sound(first) != sound(second)


@pytest.mark.parametrize("text", ["", "  ", "🙂", "...", "\x00\x07"])
async def test_nothing_to_say_is_silence(port: Port, text: str) -> None:
    async with port.client() as client:
        for events in (await say(client, text), await stream(client, text)):
            assert sound(events) == bytes(4_800)
            assert not errors(events)


@pytest.mark.parametrize(
    ("event", "named"),
    [
        (Synthesize(TEXT, voice=SynthesizeVoice(name="nobody")).event(), "voice"),
        (Synthesize(TEXT, voice=SynthesizeVoice(language="de")).event(), "voice.language"),
        (Synthesize(TEXT, voice=SynthesizeVoice(name="heart", speaker="7")).event(), "voice.speaker"),
        (Synthesize("<speak>a</speak>", text_format="ssml").event(), "text_format"),
        (Event("synthesize", {}), "text"),
        (Event("synthesize", {"text": 7}), "text"),
        (Event("synthesize", {"text": "a", "voice": "heart"}), "voice"),
        (Synthesize("a" * 140_000).event(), "text"),
    ],
)
async def test_a_wrong_request_is_told_and_over(port: Port, event: Event, named: str) -> None:
    async with port.client() as client:
        await client.write_event(event)
        events = await until(client, "audio-stop")
        (error,) = errors(events)
        assert error.text.startswith(f"{named}: ")
        assert not sound(events)
        assert sound(await say(client, "It goes on."))


async def test_a_stream_that_cannot_be_ends_as_others_do(port: Port) -> None:
    async with port.client() as client:
        events = await stream(client, "Not ", "here.", voice=SynthesizeVoice(name="nobody"))
        assert [event.type for event in events] == ["error", "audio-stop", "synthesize-stopped"]
        for event in (SynthesizeChunk("a").event(), SynthesizeStop().event()):
            await client.write_event(event)
            (event,) = await until(client, "error")
            assert Error.from_event(event).code == "no_request"
        assert sound(await stream(client, "It goes on."))


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"[1]\n",
        b'{"data": {}}\n',
        b'{"type": "ping", "data_length": -1}\n',
        b'{"type": "a", "payload_length": 99999999}\n',
        b"\xff\xfe\n",
        b"x" * 1_100_000 + b"\n",
    ],
)
async def test_what_is_no_event_ends_the_connection(port: Port, raw: bytes) -> None:
    async with port.client() as client:
        client._writer.write(raw)
        (event,) = await until(client, "error")
        assert Error.from_event(event).code == "invalid_event"


async def test_an_event_that_is_too_large_is_skipped(port: Port) -> None:
    async with port.client() as client:
        await client.write_event(Event("synthesize", {"text": "a" * 1_200_000}))
        (event,) = await until(client, "error")
        assert Error.from_event(event).code == "input_too_large"
        await client.write_event(Event("who-knows", {}, b"what"))
        client._writer.write(b'{"type": "synthesize", "data_length": 3}\n[1]')
        (event,) = await until(client, "error")
        assert Error.from_event(event).code == "invalid_json"
        assert sound(await say(client, "It goes on."))


@pytest.mark.parametrize("streaming", [False, True])
async def test_who_goes_away_is_not_spoken_to(port: Port, streaming: bool) -> None:
    async with port.client() as client:
        if streaming:
            await client.write_event(SynthesizeStart().event())
            await client.write_event(SynthesizeChunk(LONG).event())
        else:
            await client.write_event(Synthesize(LONG).event())
        await until(client, "audio-chunk")
        assert port.running.speaking == 1
    assert await asyncio.to_thread(port.running.until, lambda: port.running.speaking == 0)
    assert await asyncio.to_thread(port.running.until, lambda: port.listener.connections == 0)


async def test_a_client_may_close_its_side_first(port: Port) -> None:
    async with port.client() as client:
        await client.write_event(Synthesize(TEXT).event())
        client._writer.write_eof()
        assert sound(await until(client, "audio-stop"))
        assert await ended(client)
