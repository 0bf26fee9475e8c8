"""Conversations with the official client, unmodified: a spoken question is answered by a voice that says it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import soxr
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime import RealtimeErrorEvent, ResponseDoneEvent, SessionCreatedEvent, SessionUpdatedEvent
from openai.types.realtime.realtime_session_create_request import RealtimeSessionCreateRequest

from speech.asr import DecodeOptions
from tests.gateway.realtime.client import REFERENCES, cut, recording, silence, wer, words
from tests.gateway.realtime.conftest import Running

QUESTION = "austen-0880.wav"


@asynccontextmanager
async def conversation(running: Running) -> AsyncIterator[AsyncRealtimeConnection]:
    client = AsyncOpenAI(base_url=f"http://{running.address}/v1", api_key="unused", max_retries=0)
    async with client.realtime.connect(model="gpt-realtime") as connection:
        created = await connection.recv()
        assert isinstance(created, SessionCreatedEvent)
        assert isinstance(created.session, RealtimeSessionCreateRequest)
        yield connection


async def until_done(connection: AsyncRealtimeConnection) -> list[Any]:
    events: list[Any] = []
    async with asyncio.timeout(60):
        while not events or not isinstance(events[-1], ResponseDoneEvent):
            events.append(await connection.recv())
            assert not isinstance(events[-1], RealtimeErrorEvent), events[-1]
    return events


def kinds(events: list[Any]) -> list[str]:
    """Types in order, deltas in a row as one."""
    order: list[str] = []
    for event in events:
        if not order or event.type != order[-1] or not event.type.endswith(".delta"):
            order.append(event.type)
    return order


def at_24_khz(pcm: bytes) -> bytes:
    samples = np.frombuffer(pcm, "<i2").astype(np.float32) / 32768
    return (soxr.resample(samples, 16_000, 24_000) * 32767).astype("<i2").tobytes()


def heard(running: Running, pcm: bytes) -> str:
    """What our own ears make of 24 kHz PCM16."""
    engine = running.server.engine
    samples = soxr.resample(np.frombuffer(pcm, "<i2").astype(np.float32) / 32768, 24_000, 16_000)

    async def listen() -> str:
        options = DecodeOptions(language="en")
        return "".join([segment.text async for segment in engine.transcribe(samples, options, engine.resolve(None))])

    return running.server.run(listen())


async def test_a_spoken_question_is_answered(running: Running) -> None:
    async with conversation(running) as connection:
        await connection.session.update(
            session={
                "type": "realtime",
                "instructions": "Be brief.",
                "output_modalities": ["audio"],
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": 24000},
                        "transcription": {"model": "gpt-4o-transcribe"},
                        "turn_detection": {"type": "server_vad", "silence_duration_ms": 400},
                    },
                    "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "alloy", "speed": 1.2},
                },
                "tools": [],
            }
        )
        updated = await connection.recv()
        assert isinstance(updated, SessionUpdatedEvent)
        assert isinstance(updated.session, RealtimeSessionCreateRequest)
        for piece in cut(at_24_khz(recording(QUESTION) + silence(1)), 0.15):
            await connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())
        events = await until_done(connection)

    order = kinds(events)
    first = order.index("response.created")
    assert order[:first][:5] == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    assert "conversation.item.input_audio_transcription.completed" in order[:first]
    after = [kind for kind in order[first:] if not kind.endswith(".delta")]
    assert after == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
    ]
    done = events[-1].response
    item = done.output[0]
    sound = [event for event in events if event.type == "response.output_audio.delta"]
    said = "".join(event.delta for event in events if event.type == "response.output_audio_transcript.delta")
    assert {(event.response_id, event.item_id) for event in sound} == {(done.id, item.id)}
    assert (done.status, item.status) == ("completed", "completed")
    assert said == item.content[0].transcript
    assert said.startswith("You said:")
    asked = next(event for event in events if event.type.endswith("transcription.completed")).transcript
    assert wer(REFERENCES[QUESTION], asked) < 0.2
    assert said.endswith(asked)
    answer = await asyncio.to_thread(heard, running, b"".join(base64.b64decode(event.delta) for event in sound))
    assert set(words(REFERENCES[QUESTION])) - set(words(answer)) <= {"ill"}, answer
    assert done.usage is not None and done.usage.total_tokens > 5


async def test_a_written_conversation(running: Running) -> None:
    async with conversation(running) as connection:
        await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        await connection.recv()
        await connection.conversation.item.create(
            item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "good morning"}]}
        )
        added, finished = await connection.recv(), await connection.recv()
        assert (added.type, finished.type) == ("conversation.item.added", "conversation.item.done")
        await connection.response.create(response={"metadata": {"turn": "1"}})
        events = await until_done(connection)
        assert kinds(events) == [
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "conversation.item.done",
            "response.output_item.done",
            "response.done",
        ]
        assert "".join(event.delta for event in events if event.type.endswith("text.delta")) == "You said: good morning"
        assert events[-1].response.metadata == {"turn": "1"}
        # Out of band, about something else, and no part of the conversation.
        await connection.response.create(
            response={
                "conversation": "none",
                "input": [
                    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "aside"}]},
                ],
            }
        )
        events = await until_done(connection)
        assert events[-1].response.conversation_id is None
        assert not any(event.type.startswith("conversation.") for event in events)
        item = events[-1].response.output[0]
        assert item.content[0].text == "You said: aside"
        await connection.conversation.item.retrieve(item_id=item.id)
        assert (await connection.recv()).error.code == "item_retrieve_invalid_item_id"
