"""What tests of conversations share: a session that talks, texts to be spoken, and a hum that is no word."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import soxr

from speech.speaking.config import SpeakConfig
from speech.speaking.events import SoundMade
from tests.gateway.realtime.client import PCM, RATE, Client, Event, session, silence
from tests.gateway.realtime.conftest import Running

AUDIO = "response.output_audio.delta"
TRANSCRIPT = "response.output_audio_transcript.delta"
TEXT = "one morning in the early spring seven old fishermen walked slowly down to the quiet harbour"
EXTENSIONS = ["x.timing", "x.interruptions", "x.words"]


def configured(**fields: Any) -> Event:
    """A session.update of a conversation."""
    return {"type": "session.update", "session": {"type": "realtime", **fields}}


def listening(**audio_input: Any) -> Event:
    """16 kHz in, transcripts told, and whatever else."""
    fields = {"format": PCM, "transcription": {"language": "en"}, **audio_input}
    return configured(include=EXTENSIONS, audio={"input": fields})


def wrote(text: str, **fields: Any) -> Event:
    """conversation.item.create of a written message."""
    content = [{"type": "input_text", "text": text}]
    return {
        "type": "conversation.item.create",
        "item": {"type": "message", "role": "user", "content": content, **fields},
    }


def respond(**fields: Any) -> Event:
    """response.create"""
    return {"type": "response.create", "response": fields}


def hum() -> bytes:
    """Something like "mm-hmm": half a second of voice without a word, then silence, as 16 kHz PCM16."""
    parts, phase = [], 0.0
    for seconds, pitch in ((0.22, 130.0), (0.06, 0.0), (0.3, 143.0)):
        time = np.arange(int(seconds * RATE)) / RATE
        phases = phase + 2 * np.pi * np.cumsum(pitch * (1 + 0.03 * np.sin(2 * np.pi * 5 * time))) / RATE
        phase = float(phases[-1])
        voice = sum(np.sin(k * phases) / k**1.6 for k in range(1, 12)) * (pitch > 0)
        edge = np.minimum(np.arange(len(time)), np.arange(len(time))[::-1]) / (0.03 * RATE)
        parts.append(voice * np.minimum(1, edge) * 0.15)
    pcm = (np.concatenate(parts) * 32767).astype("<i2").tobytes()
    return silence(0.5) + pcm + silence(1.2)


def said(running: Running, text: str) -> bytes:
    """The service's own voice saying something, then silence, as 16 kHz PCM16."""

    async def speak() -> np.ndarray:
        speaker = running.server.engine.open_speech(SpeakConfig(lead=None))
        await speaker.say(text)
        await speaker.end()
        sound = [event.samples async for event in speaker.events() if isinstance(event, SoundMade)]
        await speaker.close()
        return soxr.resample(np.concatenate(sound), speaker.rate, RATE)

    return silence(0.5) + (running.server.run(speak()) * 32767).astype("<i2").tobytes() + silence(1.2)


@asynccontextmanager
async def conversation(running: Running, *updates: Event, **options: Any) -> AsyncIterator[Client]:
    """A connected client of a conversation, which may close with events unread."""
    options = {"max_queue": None, **options}
    async with session(f"ws://{running.address}/v1/realtime?model=gpt-realtime", *updates, **options) as client:
        yield client


async def answer(client: Client, timeout: float = 60) -> Event:
    """The response of the next response.done."""
    done: Event = (await client.until("response.done", timeout))["response"]
    return done


def sound(client: Client, response_id: str) -> bytes:
    """All sound of a response."""
    deltas = [event for event in client.of(AUDIO) if event["response_id"] == response_id]
    return b"".join(base64.b64decode(event["delta"]) for event in deltas)


def check_order(events: list[Event]) -> None:
    """What must hold for every conversation: ids, and nothing of a response or an item after its end."""
    ids = [event["event_id"] for event in events]
    assert len(set(ids)) == len(ids)
    begun: set[str] = set()
    over: set[str] = set()
    for event in events:
        kind = event["type"]
        if kind == "response.created":
            begun.add(event["response"]["id"])
        elif kind == "response.done":
            over.add(event["response"]["id"])
        elif kind.startswith("response."):
            assert event["response_id"] in begun - over, event
            if kind == "response.output_item.done":
                over.add(event["item"]["id"])
            elif "item_id" in event:
                assert event["item_id"] not in over, event
