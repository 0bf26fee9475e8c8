"""The official client, unmodified."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from openai import AsyncOpenAI, NotFoundError
from openai.types.realtime import (
    ConversationItemAdded,
    ConversationItemInputAudioTranscriptionCompletedEvent,
    ConversationItemInputAudioTranscriptionDeltaEvent,
    InputAudioBufferCommittedEvent,
    InputAudioBufferSpeechStartedEvent,
    RealtimeErrorEvent,
    SessionCreatedEvent,
    SessionUpdatedEvent,
)
from openai.types.realtime.realtime_transcription_session_create_request import (
    RealtimeTranscriptionSessionCreateRequest,
)
from websockets.exceptions import InvalidStatus

from tests.gateway.realtime.client import RATE, REFERENCES, cut, recording, silence, wer
from tests.gateway.realtime.conftest import Running


def client_of(running: Running) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"http://{running.address}/v1", api_key="unused", max_retries=0)


async def test_transcription_session(running: Running) -> None:
    client = client_of(running)
    async with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        created = await connection.recv()
        assert isinstance(created, SessionCreatedEvent)
        assert isinstance(created.session, RealtimeTranscriptionSessionCreateRequest)
        await connection.session.update(
            session={
                "type": "transcription",
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": 24000},
                        "transcription": {"model": "gpt-4o-transcribe", "language": "en"},
                        "turn_detection": {"type": "server_vad", "threshold": 0.5, "silence_duration_ms": 500},
                        "noise_reduction": {"type": "near_field"},
                    }
                },
                "include": ["item.input_audio_transcription.logprobs"],
            }
        )
        updated = await connection.recv()
        assert isinstance(updated, SessionUpdatedEvent)
        assert isinstance(updated.session, RealtimeTranscriptionSessionCreateRequest)
        speech = at_24_khz(recording("austen-0870.wav") + silence(1.2))

        async def talk() -> None:
            for piece in cut(speech, 0.15):
                await connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())
                await asyncio.sleep(0.02)

        talking = asyncio.create_task(talk())
        events: list[Any] = []
        async with asyncio.timeout(60):
            while not events or not isinstance(events[-1], ConversationItemInputAudioTranscriptionCompletedEvent):
                events.append(await connection.recv())
                assert not isinstance(events[-1], RealtimeErrorEvent)
        await talking
    kinds = [type(event) for event in events]
    for kind in (
        InputAudioBufferSpeechStartedEvent,
        InputAudioBufferCommittedEvent,
        ConversationItemAdded,
        ConversationItemInputAudioTranscriptionDeltaEvent,
    ):
        assert kind in kinds
    completed = events[-1]
    assert wer(REFERENCES["austen-0870.wav"], completed.transcript) < 0.2
    assert completed.usage.type == "duration"
    assert completed.logprobs and all(token.logprob <= 0 for token in completed.logprobs)


async def test_errors_leave_the_session_open(running: Running) -> None:
    client = client_of(running)
    async with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        await connection.recv()
        await connection.input_audio_buffer.commit(event_id="mine")
        error = await connection.recv()
        assert isinstance(error, RealtimeErrorEvent)
        assert (error.error.code, error.error.event_id) == ("input_audio_buffer_commit_empty", "mine")
        await connection.input_audio_buffer.clear()
        assert (await connection.recv()).type == "input_audio_buffer.cleared"


async def test_model_in_the_url(running: Running) -> None:
    client = client_of(running)
    query = {"intent": "transcription"}
    async with client.realtime.connect(model="whisper-1", extra_query=query) as connection:
        created = await connection.recv()
        assert isinstance(created, SessionCreatedEvent)
        assert created.session.audio.input.transcription.model == "whisper-1"  # type: ignore[union-attr]
    with pytest.raises((InvalidStatus, NotFoundError)) as refused:
        async with client.realtime.connect(model="whisper-9", extra_query=query):
            pass
    assert "404" in str(refused.value)


def at_24_khz(pcm: bytes) -> bytes:
    """16 kHz PCM16 to 24 kHz by linear interpolation, as plain clients do it."""
    import numpy as np

    source = np.frombuffer(pcm, "<i2").astype(float)
    at = np.arange(len(source) * 3 // 2) * (RATE / 24_000)
    return np.interp(at, np.arange(len(source)), source).astype("<i2").tobytes()
