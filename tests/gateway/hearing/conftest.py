"""The real service with tiny.en, for protocols that only hear."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable, Iterator

import httpx
import pytest

from speech.config import StreamConfig
from speech.containers import decode_file
from speech.events import Final
from tests.conftest import DATA
from tests.gateway.speak.conftest import Running, Server


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """One engine for all tests."""
    server = Server(models=("tiny.en",))
    yield server
    server.close()


@pytest.fixture(scope="package")
def running(server: Server) -> Iterator[Running]:
    """The service with its default limits."""
    running = server.serve()
    yield running
    running.stop()


@pytest.fixture(scope="package")
def live_words(server: Server) -> Callable[[str], str]:
    """What our own live path makes of a recording."""

    async def hear(name: str) -> str:
        transcriber = server.engine.open_stream(StreamConfig("tiny.en", partials=False))
        for samples in decode_file((DATA / name).read_bytes(), max_seconds=60):
            await transcriber.append(samples)
        await transcriber.finish()
        return " ".join([event.text async for event in transcriber.events() if isinstance(event, Final) and event.text])

    return lambda name: server.run(hear(name))


@pytest.fixture(scope="package")
def file_words(running: Running) -> Callable[[bytes], str]:
    """What /v1/audio/transcriptions makes of a file."""

    def post(file: bytes) -> str:
        url, form = f"{running.http}/v1/audio/transcriptions", {"model": "whisper-1"}
        text: str = httpx.post(url, files={"file": file}, data=form, timeout=30).json()["text"]
        return text

    return post


def pcm(name: str) -> bytes:
    """A recording of tests/data as 16 kHz PCM16."""
    with wave.open(str(DATA / name)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
        return file.readframes(file.getnframes())


def stereo(left: bytes, right: bytes) -> bytes:
    """Two sides of a call, the shorter one silent at its end."""
    size = max(len(left), len(right))
    sides = [side.ljust(size, b"\0") for side in (left, right)]
    return b"".join(side[at : at + 2] for at in range(0, size, 2) for side in sides)


def wav(sound: bytes, channels: int = 1) -> bytes:
    """16 kHz PCM16 as a file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(16_000)
        out.writeframes(sound)
    return file.getvalue()
