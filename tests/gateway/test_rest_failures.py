"""What a client is told when the engine refuses or fails, before and after the first word, and when it goes away.

The failures are injected: an engine that decodes nothing stands in, because a real one cannot be made to fail on time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gateway import uploads
from gateway.app import build_app
from gateway.settings import load_settings
from speech.asr import DecodeOptions, Samples
from speech.engine import EngineStatus
from speech.speaking.house import SpeechStatus
from workers.errors import BackendDead, BackendFailed, Expired, Overloaded, ServingError

Client = TestClient[web.Request, web.Application]


class FailingEngine:
    """Gives as many segments as it was told, then raises, or waits for ever."""

    def __init__(self, segments: int, failure: Exception | None) -> None:
        self.segments = segments
        self.failure = failure
        self.begun = asyncio.Event()
        self.cancelled = False

    def resolve(self, name: str | None) -> str:
        return name or "tiny.en"

    def models(self) -> list[Any]:
        return []

    async def transcribe(self, samples: Samples, options: DecodeOptions, model: str) -> AsyncIterator[Any]:
        self.begun.set()
        for number in range(self.segments):
            yield SimpleNamespace(id=number, text=f"part {number}", words=(), language="en", tokens=())
        if self.failure is not None:
            raise self.failure
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True

    def status(self) -> Any:
        return EngineStatus(True, (), SpeechStatus())

    async def close(self) -> None:
        pass


@asynccontextmanager
async def serving(engine: FailingEngine) -> AsyncIterator[tuple[Client, openai.AsyncOpenAI]]:
    async def start(settings: Any) -> Any:
        return engine

    async with TestClient(TestServer(build_app(load_settings(), start))) as client:
        while (await client.get("/readyz")).status != 200:
            await asyncio.sleep(0.01)
        async with openai.AsyncOpenAI(base_url=str(client.make_url("/v1")), api_key="none", max_retries=0) as api:
            yield client, api


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("failure", "status", "code", "retry"),
    [
        (Overloaded("All is busy.", retry_after=2.4), 429, "overloaded", "3"),
        (BackendDead("The device is down."), 503, "backend_unavailable", "5"),
        (BackendFailed("The result is not finite."), 500, "backend_failed", None),
        (Expired("Too late."), 504, "deadline_exceeded", None),
        (ZeroDivisionError("secret detail"), 500, "internal_error", None),
    ],
)
async def test_a_failure_before_the_first_word_has_its_status(
    data: Path, failure: Exception, status: int, code: str, retry: str | None, stream: bool
) -> None:
    async with serving(FailingEngine(0, failure)) as (_, api):
        with pytest.raises(openai.APIStatusError) as caught:
            await api.audio.transcriptions.create(file=data / "austen-0880.wav", model="tiny.en", stream=stream)
    assert (caught.value.status_code, caught.value.code) == (status, code)
    assert caught.value.response.headers.get("Retry-After") == retry
    assert "secret detail" not in caught.value.message


@pytest.mark.parametrize("failure", [BackendFailed("The result is not finite."), ZeroDivisionError("secret detail")])
async def test_a_failure_in_mid_stream_is_an_error_in_the_stream(data: Path, failure: Exception) -> None:
    heard = ""
    async with serving(FailingEngine(2, failure)) as (_, api):
        stream = await api.audio.transcriptions.create(file=data / "austen-0880.wav", model="tiny.en", stream=True)
        with pytest.raises(openai.APIError) as caught:
            async for event in stream:
                assert event.type == "transcript.text.delta"
                heard += event.delta
    assert heard == "part 0 part 1"
    assert (failure.message if isinstance(failure, ServingError) else "its log says why") in caught.value.message


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_cancels_its_decoding(data: Path, stream: bool) -> None:
    engine = FailingEngine(1, None)
    async with serving(engine) as (client, api):
        asking = asyncio.create_task(_read_all(api, data / "austen-0880.wav", stream))
        await engine.begun.wait()
        asking.cancel()
        async with asyncio.timeout(5):
            while not engine.cancelled or "speechlane_files 1.0" in await (await client.get("/metrics")).text():
                await asyncio.sleep(0.02)


async def _read_all(api: openai.AsyncOpenAI, file: Path, stream: bool) -> None:
    answer: Any = await api.audio.transcriptions.create(file=file, model="tiny.en", stream=stream)
    async for _ in answer:
        pass


async def test_a_client_that_goes_away_in_mid_upload_frees_its_place() -> None:
    async with serving(FailingEngine(0, None)) as (client, _):
        reader, writer = await _begin_upload(client)
        writer.transport.abort()
        await _no_file_is_open(client)
        del reader


@pytest.mark.parametrize("dripping", [False, True])
async def test_an_upload_that_stalls_is_given_up_and_frees_its_place(
    monkeypatch: pytest.MonkeyPatch, dripping: bool
) -> None:
    monkeypatch.setattr(uploads, "STALL_SECONDS", 0.5)
    async with serving(FailingEngine(0, None)) as (client, _):
        reader, writer = await _begin_upload(client)
        answer = asyncio.create_task(reader.readuntil(b"}"))
        while dripping and not answer.done():
            writer.write(b"a")
            await asyncio.sleep(0.05)
        head, _, body = (await asyncio.wait_for(answer, 10)).partition(b"\r\n\r\n")
        assert b" 408 " in head.splitlines()[0] and b"upload_stalled" in body
        await _no_file_is_open(client)
        writer.close()


async def _begin_upload(client: Client) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """An upload of which the first bytes have come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(
        b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n\r\n"
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF'
    )
    while "speechlane_files 1.0" not in await (await client.get("/metrics")).text():
        await asyncio.sleep(0.02)
    return reader, writer


async def _no_file_is_open(client: Client) -> None:
    async with asyncio.timeout(5):
        while "speechlane_files 0.0" not in await (await client.get("/metrics")).text():
            await asyncio.sleep(0.02)
