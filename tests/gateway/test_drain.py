"""SIGTERM while somebody is on every socket: what is being said ends, nothing new begins, and the status is 0."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient

from tests.conftest import RunningService, free_port, status_of
from tests.gateway.realtime.client import PCM, REFERENCES, TRANSCRIPTION, recording, silence, update, wer

NAME = "austen-0880.wav"


async def rest(socket: ClientConnection) -> tuple[list[dict[str, Any]], int, str]:
    """The events that still come, and the code and reason of the end."""
    events: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(30):
            while True:
                message = await socket.recv()
                if isinstance(message, str):
                    events.append(json.loads(message))
    except ConnectionClosed as error:
        assert error.rcvd is not None
        return events, error.rcvd.code, error.rcvd.reason


async def append(socket: ClientConnection, sound: bytes) -> None:
    await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(sound).decode()}))


async def test_everybody_may_end_their_sentence(launch_service: Callable[..., RunningService], data: Path) -> None:
    port = free_port()
    service = await asyncio.to_thread(
        launch_service, "--drain-seconds", "16", "--wyoming-port", str(port), "--utilisation", "1"
    )
    address = service.url.replace("http", "ws", 1)
    speech = recording(NAME)
    half = len(speech) // 4 * 2
    async with AsyncExitStack() as held:

        async def opened(path: str) -> ClientConnection:
            return await held.enter_async_context(connect(f"{address}/v1/{path}", proxy=None, max_size=None))

        talking = await opened("realtime?intent=transcription")
        await talking.send(json.dumps(update(format=PCM)))
        await append(talking, speech[:half])
        while json.loads(await talking.recv())["type"] != "input_audio_buffer.speech_started":
            pass
        silent = await opened("realtime?intent=conversation")
        speaking = await opened("speak")
        await speaking.send(json.dumps({"type": "create", "context": "one", "lead": 60.0}))
        await speaking.send(json.dumps({"type": "text", "context": "one", "text": "Good evening. And good "}))
        agent = await opened("text-to-speech/heart/stream-input?output_format=pcm_24000")
        await agent.send(json.dumps({"text": "Good evening, everybody. "}))
        wyoming = await held.enter_async_context(AsyncTcpClient("127.0.0.1", port, read_timeout=30))
        await wyoming.write_event(AudioStart(16_000, 2, 1).event())
        await wyoming.write_event(AudioChunk(16_000, 2, 1, speech[:half]).event())
        await asyncio.sleep(0.5)

        service.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            while await asyncio.to_thread(status_of, f"{service.url}/readyz") != 503:
                await asyncio.sleep(0.02)
        await append(talking, speech[half:] + silence(1.0))
        await wyoming.write_event(AudioChunk(16_000, 2, 1, speech[half:]).event())
        await wyoming.write_event(AudioStop().event())

        ends = await asyncio.gather(*(rest(socket) for socket in (talking, silent, speaking, agent)))
        assert [code for _, code, _ in ends] == [1012] * 4
        assert all("try again in 5 s" in reason for _, _, reason in ends)
        heard, _, said, sound = (events for events, _, _ in ends)
        (final,) = (event for event in heard if event["type"] == f"{TRANSCRIPTION}completed")
        assert wer(REFERENCES[NAME], final["transcript"]) < 0.4
        (done,) = (event for event in said if event["type"] == "done")
        assert done["text"].startswith("Good evening. And good")
        assert sound[-1]["isFinal"]
        while (event := await wyoming.read_event()) is not None and event.type != "transcript":
            pass
        assert event is not None
        assert wer(REFERENCES[NAME], event.data["text"]) < 0.4
    assert await asyncio.to_thread(service.process.wait, 30) == 0
    assert "Traceback" not in service.log()
