"""The client library against the real service; cuts at random places are in the tests of the service."""

from __future__ import annotations

import array
import asyncio
import random
import wave
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from load.cutting import CuttingProxy
from speechlane.client import (
    ClientError,
    Event,
    Final,
    Gap,
    Partial,
    Refused,
    Session,
    Source,
    SourceError,
    Started,
    Unreachable,
    connect,
    microphone,
    wav_file,
)
from speechlane.client.buffer import Message, Unacknowledged
from speechlane.client.samples import pcm16
from tests.gateway.realtime.client import REFERENCES, recording, wer
from tests.gateway.realtime.conftest import Running, Server
from tests.gateway.realtime.test_realtime_limits import becomes, service

NAME = "austen-0880.wav"


async def test_a_file_becomes_words_with_times(running: Running, data: Path) -> None:
    events: list[Event] = []
    async with connect(f"http://{running.address}") as session:
        async for event in session.transcribe(wav_file(data / NAME, real_time=False)):
            events.append(event)
        with pytest.raises(ClientError, match="end of it"):
            await session.send(bytes(2))
    assert isinstance(events[0], Started)
    finals = [event for event in events if isinstance(event, Final)]
    assert wer(REFERENCES[NAME], " ".join(final.text for final in finals)) < 0.4
    words = finals[0].words
    assert "".join(word.text for word in words).strip() == finals[0].text
    assert all(0 <= word.start <= word.end < 4 and 0 <= word.confidence <= 1 for word in words)
    partials = [event for event in events if isinstance(event, Partial)]
    assert partials[-1].text.split()[0] == finals[0].text.split()[0]


async def test_samples_of_any_kind_are_the_same(running: Running) -> None:
    sound = recording(NAME)
    floats = np.frombuffer(sound, "<i2").astype(np.float32) / 32_767
    texts = set()
    for audio in (sound, np.frombuffer(sound, np.int16), floats):
        async with connect(running.address) as session:
            await session.send(audio)  # type: ignore[arg-type]
            await session.finish()
            texts.add(" ".join([event.text async for event in session if isinstance(event, Final)]))
    assert len(texts) == 1
    assert pcm16([0.0, 1.0, -2.0]) == array.array("h", [0, 32_767, -32_767]).tobytes()
    for wrong in (b"abc", np.zeros((2, 2), np.int16), np.zeros(2, np.int64)):
        with pytest.raises(ValueError, match=r"bytes|dimension|int16"):
            pcm16(wrong)  # type: ignore[arg-type]


async def test_what_cannot_be_had_is_said(server: Server, tmp_path: Path) -> None:
    async with service(server, api_keys=("right",)) as running:
        with pytest.raises(Refused, match="valid API key") as refused:
            async with connect(running.address, "wrong"):
                pass
        assert refused.value.status == 401
        with pytest.raises(ClientError, match="no-such-model"):
            async with connect(running.address, "right", model="no-such-model") as session:
                await session.finish()
                async for _ in session:
                    pass
    with pytest.raises(Unreachable, match="speechlane serve"):
        async with connect("ws://127.0.0.1:9"):
            pass
    with pytest.raises(ClientError, match="looks like ws://"):
        async with connect("ws://[::1"):
            pass
    (tmp_path / "text.wav").write_text("no sound")
    with pytest.raises(SourceError, match="cannot be read as WAV"):
        wav_file(tmp_path / "text.wav")
    with wave.open(str(tmp_path / "low.wav"), "wb") as file:
        file.setparams((1, 2, 4000, 0, "NONE", ""))
        file.writeframes(bytes(8))
    with pytest.raises(SourceError, match="ffmpeg"):
        wav_file(tmp_path / "low.wav")
    try:
        microphone()
    except SourceError as error:
        assert "sounddevice" in str(error)


async def test_channels_of_a_file_are_mixed(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "two.wav"), "wb") as file:
        file.setparams((2, 2, 16_000, 0, "NONE", ""))
        file.writeframes(np.array([[100, 300], [-4, -8]], "<i2").tobytes())
    blocks = [block async for block in wav_file(tmp_path / "two.wav")]
    assert np.frombuffer(b"".join(blocks), "<i2").tolist() == [200, -6]


async def test_who_leaves_early_is_not_waited_for(running: Running) -> None:
    async with connect(running.address) as session:
        await session.send(recording(NAME))
        async for _ in session:
            break
    await becomes(lambda: running.service.sessions == 0)


async def test_the_error_of_a_source_ends_it(running: Running) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield bytes(3200)
        raise SourceError("the cable is out")

    with pytest.raises(SourceError, match="cable"):
        async with connect(running.address) as session:
            async for _ in session.transcribe(Source(16_000, broken())):
                pass


@pytest.mark.parametrize("seconds", [0.0, 1.5])
async def test_a_break_is_mended_and_one_that_is_too_long_is_told(server: Server, seconds: float) -> None:
    """Where the session is gone, the client begins another one, whose times go on where the first one ended."""
    async with service(server, resume_seconds=0.4) as running:
        host, _, port = running.address.partition(":")
        proxy = CuttingProxy(host, int(port), random.Random(1), up=1, down=1)
        proxy.armed = False
        sound = recording(NAME)
        half = len(sound) // 4 * 2
        events: list[Event] = []

        async def collect(session: Session) -> None:
            async for event in session:
                events.append(event)

        async with proxy.running(), connect(f"127.0.0.1:{proxy.port}") as session:
            collecting = asyncio.create_task(collect(session))
            await session.send(sound[:half])
            await becomes(lambda: bool(events))
            await asyncio.sleep(0.7)  # the client knows that this much has been taken in
            proxy.down = seconds > 0
            proxy.cut()
            await session.send(sound[half:])
            await asyncio.sleep(seconds)
            proxy.down = False
            await session.send(bytes(32_000) + sound)
            await session.finish()
            await asyncio.wait_for(collecting, 30)
            assert session.breaks == 1
        gaps = [event for event in events if isinstance(event, Gap)]
        finals = [event for event in events if isinstance(event, Final) and event.text]
        assert len(gaps) == (seconds > 0)
        assert all(0 <= gap.start < gap.end <= half / 32_000 + 0.1 for gap in gaps)
        # The second time it is all said after the break.
        assert wer(REFERENCES[NAME], finals[-1].text) < 0.4
        begin = len(sound) / 32_000 + 1.0
        assert begin - 0.3 < finals[-1].start < begin + 0.5
        if not seconds:
            assert wer(REFERENCES[NAME], finals[0].text) < 0.4
        await becomes(lambda: running.service.sessions == 0)


async def test_the_buffer_is_bounded_and_goes_back() -> None:
    greeting, ending = Message("hello"), (Message("commit"), Message("clear"))
    buffer = Unacknowledged(20)
    buffer.restart(greeting, 0, ())
    for name in "abc":
        buffer.put(Message(name, 10))
    assert buffer.full
    assert [(await buffer.get()).text for _ in range(3)] == ["hello", "a", "b"]
    buffer.taken(2)
    assert buffer.taken_samples == 10
    assert (await buffer.get()).text == "c"
    waiting = asyncio.create_task(buffer.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    buffer.again()
    assert [(await buffer.get()).text for _ in range(2)] == ["b", "c"]
    buffer.taken(3)
    await waiting
    buffer.put(ending[0])
    buffer.put(ending[1])
    buffer.taken(5)  # the session has taken the commit, and is gone
    buffer.restart(greeting, 0, ending)
    assert [(await buffer.get()).text for _ in range(3)] == ["hello", "commit", "clear"]
