"""faster-whisper alone: no server, no wire, no partials. What is left of a latency then is the wait for silence and
one transcription, so nobody with these weights who waits as long can be much quicker with one stream.

A process of its own takes one turn after another, whole, the moment that 500 ms of silence are over.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from faster_whisper import WhisperModel
from numpy.typing import NDArray

from load.peers.peer import FRAME, Peer, Said, Serving, weights
from load.peers.turns import Turn, by_turns, until
from load.script import Script

_SILENCE = 0.5
_model: Any = None


@dataclass(slots=True)
class Floor:
    name: str = "faster-whisper alone"
    environment: str | None = None
    note: str = "no server: whole turns after 500 ms of silence, greedy, int8; final: the text"
    same_weights: bool = True
    _process: ProcessPoolExecutor | None = field(default=None, repr=False)

    @contextmanager
    def serve(self, environments: Path, cpus: Sequence[int]) -> Iterator[Serving]:
        spawned = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, spawned, _load, (str(weights()), tuple(cpus))) as self._process:
            yield Serving(0, psutil.Process(self._process.submit(os.getpid).result()))

    async def say(self, serving: Serving, script: Script) -> Said:
        said = Said(script, FRAME)

        async def hear(turn: Turn) -> str:
            await until(said, turn.known)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._process, _transcribe, turn.samples(script))

        return await by_turns(said, _SILENCE, hear)


def _load(model: str, cpus: tuple[int, ...]) -> None:
    global _model
    if cpus:
        os.sched_setaffinity(0, cpus)
    _model = WhisperModel(model, device="cpu", compute_type="int8")


def _transcribe(samples: NDArray[np.int16]) -> str:
    segments, _ = _model.transcribe(
        samples.astype(np.float32) / 32_768, language="en", beam_size=1, temperature=0.0,
        condition_on_previous_text=False, without_timestamps=True,
    )  # fmt: skip
    return " ".join(segment.text.strip() for segment in segments)


PEERS: tuple[Peer, ...] = (Floor(),)
