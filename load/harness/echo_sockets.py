"""The sockets of the service that thinks nothing: live transcription, conversation, speech."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import struct
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
from aiohttp import WSMsgType, web

PARTIAL = 1.0
"""Seconds of audio from one partial to the next, as the service has it by default."""
SILENCE = 0.5
"""Seconds of it that end an utterance."""
OUT_RATE = 24_000
PIECE, LEAD = 0.1, 1.75
"""Seconds of sound in a frame, and how far they go ahead of the listener."""
CHARACTERS = 15.0
"""Of text that a second of speech holds."""
_HEARD = "conversation.item.input_audio_transcription."
_WORDS = " word" * 12
_TONE = (3000 * np.sin(np.arange(round(PIECE * OUT_RATE)) * 2 * np.pi * 440 / OUT_RATE)).astype("<i2").tobytes()


class Ear:
    """What a session says of the audio that comes: events of utterances between stretches of digital silence."""

    def __init__(self) -> None:
        self._rate = 24_000
        self._position = self._voice = self._partial = 0.0
        self._item: str | None = None
        self._items = itertools.count()

    def configure(self, session: dict[str, Any]) -> None:
        """session.update"""
        form = session.get("audio", {}).get("input", {}).get("format", {})
        self._rate = form.get("rate", self._rate)

    def append(self, audio: str) -> Iterator[dict[str, Any]]:
        """Audio as base64."""
        seconds = (len(audio) * 3 // 4 - audio[-2:].count("=")) // 2 / self._rate
        before, self._position = self._position, self._position + seconds
        if audio.strip("A="):
            self._voice = self._position
            if self._item is None:
                self._item, self._partial = f"item{next(self._items)}", before
                yield self._said("input_audio_buffer.speech_started", audio_start_ms=round(1000 * before))
        if self._item is None:
            return
        if self._position - self._partial >= PARTIAL:
            self._partial = self._position
            yield self._said(f"{_HEARD}delta", content_index=0, delta=" word")
            at = round(1000 * self._position)
            timed = {"audio_end_ms": at, "lag": 0.0, "model_seconds": 0.0}
            yield self._said("x.transcription.unstable", content_index=0, text=_WORDS, **timed)
        if self._position - self._voice >= SILENCE:
            yield from self.commit()

    def commit(self) -> Iterator[dict[str, Any]]:
        """The end of the utterance that is open, if one is."""
        if self._item is None:
            return
        yield self._said("input_audio_buffer.speech_stopped", audio_end_ms=round(1000 * self._position))
        yield self._said("input_audio_buffer.committed", previous_item_id=None)
        words = [{"word": " word", "start": 0.0, "end": 0.0, "confidence": 0.9}] * 12
        yield self._said(f"{_HEARD}completed", content_index=0, transcript=_WORDS.strip(), words=words, lag=0.0)
        self._item = None

    def _said(self, kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, "event_id": "event_000000000000", "item_id": self._item, **fields}


async def transcription(request: web.Request) -> web.WebSocketResponse:
    """Live transcription."""
    socket, ear = await _opened(request), Ear()
    await socket.send_json({"type": "session.created", "session": {"id": "echo"}})
    async for event in _events(socket):
        kind = event["type"]
        if kind == "input_audio_buffer.append":
            for answer in ear.append(event["audio"]):
                await socket.send_json(answer)
        elif kind == "input_audio_buffer.clear":
            for answer in ear.commit():
                await socket.send_json(answer)
            await socket.send_json({"type": "input_audio_buffer.cleared"})
        elif kind == "session.update":
            ear.configure(event["session"])
    return socket


async def conversation(request: web.Request) -> web.WebSocketResponse:
    """Each utterance is answered with two seconds of sound."""
    socket, ear, numbers = await _opened(request), Ear(), itertools.count()
    speaking: set[asyncio.Task[None]] = set()
    try:
        async for event in _events(socket):
            kind = event["type"]
            if kind == "session.update":
                ear.configure(event["session"])
            elif kind == "input_audio_buffer.append":
                for answer in ear.append(event["audio"]):
                    await socket.send_json(answer)
                    if answer["type"].endswith("transcription.completed"):
                        task = asyncio.create_task(_answer(socket, f"resp{next(numbers)}"))
                        speaking.add(task)
                        task.add_done_callback(speaking.discard)
    finally:
        for task in speaking:
            task.cancel()
    return socket


async def _answer(socket: web.WebSocketResponse, name: str) -> None:
    await socket.send_json({"type": "response.created", "response": {"id": name, "status": "in_progress"}})
    timing = dict.fromkeys(("vad", "final", "language_model", "speech", "total"), 0.0)
    await socket.send_json({"type": "x.response.timing", "response_id": name, **timing})
    sound = base64.b64encode(_TONE).decode()
    async for number in _paced(2.0):
        if number % 5 == 0:
            delta = {"type": "response.output_audio_transcript.delta", "response_id": name, "delta": " word"}
            await socket.send_json(delta)
        await socket.send_json({"type": "response.output_audio.delta", "response_id": name, "delta": sound})
    await socket.send_json({"type": "response.done", "response": {"id": name, "status": "completed"}})


async def speak(request: web.Request) -> web.WebSocketResponse:
    """Text that is spoken: the sound begins with the first word, and is as long as all words make it."""
    socket, numbers = await _opened(request), itertools.count(1)
    await socket.send_json({"type": "ready", "session": "echo", "voices": [], "limits": {}})
    texts: dict[str, asyncio.Queue[str | None]] = {}
    speaking: set[asyncio.Task[None]] = set()
    try:
        async for event in _events(socket):
            context = event["context"]
            if event["type"] == "create":
                number = next(numbers)
                form = {"name": "pcm16", "rate": OUT_RATE}
                await socket.send_json({"type": "created", "context": context, "number": number, "format": form})
                texts[context] = asyncio.Queue()
                task = asyncio.create_task(_say(socket, context, number, texts[context]))
                speaking.add(task)
                task.add_done_callback(speaking.discard)
            elif event["type"] == "text":
                texts[context].put_nowait(event["text"])
                if event.get("end"):
                    texts.pop(context).put_nowait(None)
    finally:
        for task in speaking:
            task.cancel()
    return socket


async def _say(socket: web.WebSocketResponse, context: str, number: int, words: asyncio.Queue[str | None]) -> None:
    """Sound for each word as it comes, at most `LEAD` ahead of the listener."""
    characters = sent = 0
    begun: float | None = None
    while (word := await words.get()) is not None:
        characters += len(word)
        begun = time.monotonic() if begun is None else begun
        while sent * PIECE < characters / CHARACTERS:
            if (ahead := begun + sent * PIECE - LEAD - time.monotonic()) > 0:
                await asyncio.sleep(ahead)
            position = sent * len(_TONE) // 2
            await socket.send_bytes(struct.pack("<IIQ", 1, number, position) + _TONE)
            sent += 1
    seconds, samples = round(sent * PIECE, 3), sent * len(_TONE) // 2
    done = {"type": "done", "context": context, "seconds": seconds, "samples": samples, "characters": characters}
    await socket.send_json(done)


async def _paced(seconds: float) -> AsyncIterator[int]:
    """Numbers of the frames of so much sound, each at its time."""
    begun = time.monotonic()
    for number in range(round(seconds / PIECE)):
        if (ahead := begun + number * PIECE - LEAD - time.monotonic()) > 0:
            await asyncio.sleep(ahead)
        yield number


async def _opened(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(max_msg_size=1 << 25, compress=False)
    await socket.prepare(request)
    return socket


async def _events(socket: web.WebSocketResponse) -> AsyncIterator[dict[str, Any]]:
    """JSON messages until the client leaves."""
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            yield json.loads(message.data)
