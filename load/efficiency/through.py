"""The work through the gateway: streams that send as fast as they are taken, over real sockets."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from load import corpora
from load.client import Heard, stream
from load.script import Script, conversation
from load.service import Running

RATE = 16_000
UNPACED = 1000.0
"""Times the speed of speech: as fast as the service reads."""


@dataclass(slots=True)
class Work:
    """What a way of doing it took: seconds of wall time and of the processor; the texts of the utterances in order."""

    wall: float
    cpu: float
    texts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Utterances:
    """What a service made of a stream: spans in samples, and their texts."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def scripts(streams: int, seconds: float, seed: int) -> list[Script]:
    clips = list(corpora.bundled())
    return [conversation(clips, seconds, seed + number, rate=RATE) for number in range(streams)]


def through_gateway(running: Running, said: Sequence[Script]) -> tuple[Work, list[Utterances]]:
    """All streams at once. Raises RuntimeError when one of them is broken off."""
    assert running.process is not None

    async def all_of_them() -> list[Heard]:
        return await asyncio.gather(
            *(stream(running.url, one, frame=0.1, speed=UNPACED, include=(), patience=600.0) for one in said)
        )

    before, began = sum(running.process.cpu_times()[:2]), time.perf_counter()
    heard = asyncio.run(all_of_them())
    wall, cpu = time.perf_counter() - began, sum(running.process.cpu_times()[:2]) - before
    if problems := [one.problem for one in heard if one.problem]:
        raise RuntimeError(f"{len(problems)} streams were broken off, the first: {problems[0]}")
    found = [_utterances(one) for one in heard]
    return Work(wall, cpu, [text for one in found for text in one.texts]), found


def without(model: str, precision: str, said: Sequence[Script], found: Sequence[Utterances]) -> Work:
    """The same voice activity and the same finals in a bare loop, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        streams = []
        for number, (script, one) in enumerate(zip(said, found, strict=True)):
            path = Path(folder, f"{number}.pcm")
            script.samples.astype("<i2").tofile(path)
            streams.append({"file": str(path), "utterances": one.spans})
        job = json.dumps({"model": model, "precision": precision, "streams": streams})
        command = [sys.executable, "-m", "load.efficiency.bare"]
        root = Path(__file__).absolute().parents[2]
        answer = subprocess.run(command, input=job, capture_output=True, text=True, check=True, cwd=root)
    return Work(**json.loads(answer.stdout))


def audio(said: Sequence[Script]) -> float:
    """Seconds of all of it."""
    return float(np.sum([script.seconds for script in said]))


def _utterances(heard: Heard) -> Utterances:
    """Spans of committed utterances, by item, and the finals that belong to them."""
    found, starts, spans, order = Utterances(), dict[str, int](), dict[str, tuple[int, int]](), list[str]()
    texts: dict[str, str] = {}
    for _, event in heard.events:
        match event["type"]:
            case "input_audio_buffer.speech_started":
                starts[event["item_id"]] = event["audio_start_ms"]
            case "input_audio_buffer.speech_stopped":
                spans[event["item_id"]] = (starts[event["item_id"]], event["audio_end_ms"])
            case "conversation.item.input_audio_transcription.completed":
                order.append(event["item_id"])
                texts[event["item_id"]] = event["transcript"]
    for item in order:
        start, end = spans[item]
        found.spans.append((start * RATE // 1000, end * RATE // 1000))
        found.texts.append(texts[item])
    return found
