"""Where a client hears that somebody has ended, for servers that leave that to the client.

Silero goes over the audio in the order of time, in windows of 32 ms, as it would while somebody speaks; what it finds
does not depend on when, so it is found before the run and takes no processor from the server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from silero_vad import VADIterator, load_silero_vad

from load.peers.peer import Said
from load.script import Script

_WINDOW = 512
_BEFORE = 0.5
"""Seconds of audio before the voice that belong to a turn."""


@dataclass(frozen=True, slots=True)
class Turn:
    """From where to where in the script, in seconds, it is taken; `known`: when its end can be known."""

    start: float
    end: float
    known: float

    def samples(self, script: Script) -> NDArray[np.int16]:
        return script.samples[round(self.start * script.rate) : round(self.end * script.rate)]


def turns(script: Script, silence: float) -> list[Turn]:
    """The turns of a script at 16 kHz, each over after `silence` seconds without a voice."""
    listening: Any = VADIterator(
        load_silero_vad(onnx=True), sampling_rate=script.rate, min_silence_duration_ms=round(1000 * silence)
    )
    heard = torch.from_numpy(script.samples.astype(np.float32) / 32_768)
    found: list[Turn] = []
    start = 0.0
    for at in range(0, len(heard) - _WINDOW + 1, _WINDOW):
        event = listening(heard[at : at + _WINDOW]) or {}
        known = (at + _WINDOW) / script.rate
        if "start" in event:
            earliest = found[-1].end if found else 0.0
            start = max(earliest, event["start"] / script.rate - _BEFORE)
        if "end" in event:
            found.append(Turn(start, known, known))
    return found


async def until(said: Said, audio: float) -> None:
    """Wait for the moment at which the first `audio` seconds of the stream have been spoken."""
    await asyncio.sleep(max(0.0, said.due_at(audio) - time.monotonic()))


async def by_turns(said: Said, silence: float, hear: Callable[[Turn], Awaitable[str]]) -> Said:
    """Have every turn heard: `hear` is called where it begins, and gives its text, which is final."""
    over = await asyncio.to_thread(turns, said.script, silence)
    texts = ["" for _ in over]
    said.begun = time.monotonic()

    async def one(number: int) -> None:
        await until(said, over[number].start)
        texts[number] = await hear(over[number])
        said.show(" ".join(texts))

    await asyncio.gather(*map(one, range(len(over))))
    return said
