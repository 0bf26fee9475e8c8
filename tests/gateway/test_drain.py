"""SIGTERM while somebody is on every socket: what is being said ends, nothing new begins, and the status is 0.

One service and one signal for all protocols; then each is asked what its client got.
"""

from __future__ import annotations

import asyncio
import base64
import json
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient

from tests.conftest import RunningService, free_port, status_of
from tests.gateway.realtime.client import PCM, REFERENCES, TRANSCRIPTION, recording, silence, update, wer

pytestmark = pytest.mark.long

NAME = "austen-0880.wav"
SPEECH = recording(NAME)
FIRST, REST = SPEECH[: len(SPEECH) // 4 * 2], SPEECH[len(SPEECH) // 4 * 2 :] + silence(1.0)
DRAIN_SECONDS = 16.0
RATE = 16_000


@dataclass
class Outcome:
    """What a client got after the signal. `code` and `reason` of the end; None where the protocol has none."""

    events: list[dict[str, Any]] = field(default_factory=list)
    code: int | None = None
    reason: str | None = None

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("type") == kind]


async def rest(socket: ClientConnection) -> Outcome:
    """Everything that still comes."""
    outcome = Outcome()
    try:
        async with asyncio.timeout(60):
            while True:
                message = await socket.recv()
                if isinstance(message, str):
                    outcome.events.append(json.loads(message))
    except ConnectionClosed as error:
        assert error.rcvd is not None
        outcome.code, outcome.reason = error.rcvd.code, error.rcvd.reason
    return outcome


async def until(socket: ClientConnection, found: Callable[[dict[str, Any]], bool]) -> None:
    async with asyncio.timeout(60):
        while not found(json.loads(await socket.recv())):
            pass


class Client:
    """Somebody on one socket: in the middle of something after `begin`; `end` goes on as if nothing had happened."""

    def __init__(self, host: str, wyoming_port: int, held: AsyncExitStack) -> None:
        self._host, self._wyoming_port, self._held = host, wyoming_port, held

    async def socket(self, path: str) -> ClientConnection:
        return await self._held.enter_async_context(connect(f"ws://{self._host}{path}", proxy=None, max_size=None))

    async def begin(self) -> None:
        raise NotImplementedError

    async def end(self) -> Outcome:
        return await rest(self._socket)

    _socket: ClientConnection


class Realtime(Client):
    async def begin(self) -> None:
        self._socket = await self.socket("/v1/realtime?intent=transcription")
        await self._socket.send(json.dumps(update(format=PCM)))
        await self._append(FIRST)
        await until(self._socket, lambda event: event["type"] == "input_audio_buffer.speech_started")

    async def end(self) -> Outcome:
        await self._append(REST)
        return await rest(self._socket)

    async def _append(self, sound: bytes) -> None:
        audio = base64.b64encode(sound).decode()
        await self._socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))


class Silent(Client):
    """A conversation in which nobody speaks."""

    async def begin(self) -> None:
        self._socket = await self.socket("/v1/realtime?intent=conversation")
        await self._socket.recv()


class Deepgram(Client):
    query = ""

    async def begin(self) -> None:
        self._socket = await self.socket(f"/v1/listen?encoding=linear16&sample_rate={RATE}&vad_events=true{self.query}")
        await self._socket.send(FIRST)
        await until(self._socket, lambda event: event["type"] == "SpeechStarted")

    async def end(self) -> Outcome:
        await self._socket.send(REST)
        return await rest(self._socket)


class Endless(Deepgram):
    """Somebody whose pauses are never long enough to end an utterance."""

    query = "&endpointing=20000"

    async def end(self) -> Outcome:
        sending = asyncio.create_task(self._send())
        try:
            return await rest(self._socket)
        finally:
            sending.cancel()

    async def _send(self) -> None:
        with suppress(ConnectionClosed):
            await self._socket.send(REST)
            while True:
                await asyncio.sleep(0.2)
                await self._socket.send(silence(0.2))


class Vosk(Client):
    async def begin(self) -> None:
        self._socket = await self.socket("/vosk")
        await self._socket.send(json.dumps({"config": {"sample_rate": RATE}}))
        await self._socket.send(FIRST)
        await until(self._socket, lambda answer: "partial" in answer)

    async def end(self) -> Outcome:
        await self._socket.send(REST)
        return await rest(self._socket)


class Speak(Client):
    async def begin(self) -> None:
        self._socket = await self.socket("/v1/speak")
        await self._socket.send(json.dumps({"type": "create", "context": "one", "lead": 60.0}))
        await self._socket.send(json.dumps({"type": "text", "context": "one", "text": "Good evening. And good "}))
        await until(self._socket, lambda event: event["type"] == "created")


class ElevenLabs(Client):
    async def begin(self) -> None:
        self._socket = await self.socket("/v1/text-to-speech/heart/stream-input?output_format=pcm_24000")
        await self._socket.send(json.dumps({"text": "Good evening, everybody. "}))
        await until(self._socket, lambda event: bool(event.get("audio")))


class Wyoming(Client):
    async def begin(self) -> None:
        client = AsyncTcpClient("127.0.0.1", self._wyoming_port, read_timeout=60)
        self._client = await self._held.enter_async_context(client)
        await self._client.write_event(AudioStart(RATE, 2, 1).event())
        await self._client.write_event(AudioChunk(RATE, 2, 1, FIRST).event())

    async def end(self) -> Outcome:
        await self._client.write_event(AudioChunk(RATE, 2, 1, REST).event())
        await self._client.write_event(AudioStop().event())
        outcome = Outcome()
        with suppress(ConnectionError):
            while (event := await self._client.read_event()) is not None:
                outcome.events.append({"type": event.type, **event.data})
        return outcome


CLIENTS: dict[str, type[Client]] = {
    "realtime": Realtime,
    "silent": Silent,
    "deepgram": Deepgram,
    "endless": Endless,
    "vosk": Vosk,
    "speak": Speak,
    "elevenlabs": ElevenLabs,
    "wyoming": Wyoming,
}


@dataclass(frozen=True)
class Drained:
    """A service that has gone down, and what everybody got."""

    outcomes: dict[str, Outcome]
    status: int
    log: str


@pytest.fixture(scope="module")
def drained(launch_service: Callable[..., RunningService]) -> Drained:
    """Everybody on one service when it is told to end."""
    port = free_port()
    flags = (
        "--drain-seconds",
        f"{DRAIN_SECONDS:g}",
        "--wyoming-port",
        str(port),
        "--utilisation",
        "1",
        "--voices",
        "heart",
    )
    service = launch_service(*flags)

    async def everybody() -> dict[str, Outcome]:
        async with AsyncExitStack() as held:
            clients = [kind(service.url.removeprefix("http://"), port, held) for kind in CLIENTS.values()]
            await asyncio.gather(*(client.begin() for client in clients))
            service.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(30):
                while await asyncio.to_thread(status_of, f"{service.url}/readyz") != 503:
                    await asyncio.sleep(0.02)
            return dict(zip(CLIENTS, await asyncio.gather(*(client.end() for client in clients)), strict=True))

    outcomes = asyncio.run(everybody())
    return Drained(outcomes, service.process.wait(60), service.log())


def test_the_process_ends_well(drained: Drained) -> None:
    assert drained.status == 0
    assert "Traceback" not in drained.log
    assert "cut off" not in drained.log


@pytest.mark.parametrize("who", [who for who in CLIENTS if who != "wyoming"])
def test_the_end_says_when_to_come_back(drained: Drained, who: str) -> None:
    outcome = drained.outcomes[who]
    assert outcome.code == 1012
    assert "try again in 5 s" in (outcome.reason or "")


HEARD: dict[str, Callable[[Outcome], list[str]]] = {
    "realtime": lambda got: [event["transcript"] for event in got.of(f"{TRANSCRIPTION}completed")],
    "deepgram": lambda got: [
        event["channel"]["alternatives"][0]["transcript"] for event in got.of("Results") if event["is_final"]
    ],
    "endless": lambda got: [
        event["channel"]["alternatives"][0]["transcript"] for event in got.of("Results") if event["is_final"]
    ],
    "vosk": lambda got: [event["text"] for event in got.events if event.get("text")],
    "wyoming": lambda got: [event["text"] for event in got.of("transcript")],
}


@pytest.mark.parametrize("who", HEARD)
def test_everybody_may_end_their_sentence(drained: Drained, who: str) -> None:
    """What came before the signal and after it is one utterance, and its final is delivered."""
    (said,) = (text for text in HEARD[who](drained.outcomes[who]) if text)
    assert wer(REFERENCES[NAME], said) < 0.4


@pytest.mark.parametrize("who", ["deepgram", "endless"])
def test_metadata_comes_last(drained: Drained, who: str) -> None:
    outcome = drained.outcomes[who]
    assert outcome.events[-1]["type"] == "Metadata"
    assert outcome.events[-1]["duration"] >= (len(FIRST) + len(REST)) / 2 / RATE - 0.1


def test_speech_that_was_asked_for_is_made(drained: Drained) -> None:
    (done,) = drained.outcomes["speak"].of("done")
    assert done["text"].startswith("Good evening. And good")
    assert drained.outcomes["elevenlabs"].events[-1]["isFinal"]
