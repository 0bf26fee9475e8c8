"""Clients that do anything in any order: every item still gets exactly one end, and the session lives."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.gateway.realtime.client import (
    ITEM,
    PCM,
    TRANSCRIPTION,
    Client,
    check_contract,
    recording,
    session,
    silence,
    update,
)
from tests.gateway.realtime.conftest import Running
from tests.gateway.realtime.test_realtime_bad_input import REFUSED

TURNS: list[Any] = [
    None,
    {"type": "server_vad", "threshold": 0.4, "silence_duration_ms": 300},
    {"type": "server_vad", "silence_duration_ms": 800, "prefix_padding_ms": 0, "idle_timeout_ms": 1500},
    {"type": "semantic_vad", "eagerness": "high"},
]


async def act(client: Client, chance: random.Random, speech: bytes) -> None:
    """One thing that a client may do."""
    match chance.randrange(10):
        case 0 | 1 | 2 | 3:
            start = chance.randrange(0, len(speech) // 2) * 2
            await client.append(speech[start : start + chance.randrange(1, 64_000)], chance.choice([None, 0.02, 0.31]))
        case 4:
            await client.append(silence(chance.uniform(0, 2)))
        case 5:
            await client.commit()
        case 6:
            await client.send({"type": "input_audio_buffer.clear"})
        case 7:
            included = chance.sample(["x.words", "x.unstable", "x.lag", "item.input_audio_transcription.logprobs"], 2)
            event = update(turn_detection=chance.choice(TURNS), format=PCM)
            event["session"]["include"] = included
            await client.send(event)
        case 8:
            await client.send(chance.choice(REFUSED)[0])
        case 9:
            known = [event["item_id"] for event in client.seen if "item_id" in event] or ["none"]
            kind = chance.choice(["retrieve", "delete"])
            await client.send({"type": ITEM + kind, "item_id": chance.choice(known)})


@pytest.mark.parametrize("seed", range(4))
async def test_exactly_one_end_for_everything(running: Running, seed: int) -> None:
    chance = random.Random(seed)
    speech = recording("austen-0880.wav") + silence(0.4) + recording("austen-0890.wav")
    async with session(running.url, update(format=PCM)) as client:
        for _ in range(30):
            await act(client, chance, speech)
        await client.ask({"type": "input_audio_buffer.clear", "event_id": "last"}, "input_audio_buffer.cleared")
        await client.ask({"type": "session.update", "session": {"include": ["x.words"]}}, "session.updated")
        while client.seen[-1].get("session", {}).get("include") != ["x.words"]:
            await client.until("session.updated")
        ends = (TRANSCRIPTION + "completed", TRANSCRIPTION + "failed")
        while len(client.of("input_audio_buffer.committed")) > sum(len(client.of(end)) for end in ends):
            await client.receive()
        check_contract(client.seen)
        await client.alive()
