"""WhisperLive, over its websocket.

Its protocol marks the end of a segment only when another follows, or when the same text came back eight times, and
never at the end of a recording: the final of a recording is when the shown words of it changed last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from load.peers.peer import FRAME, Peer, Said, Serving, converse, listens, started, weights
from load.script import Script

_MODES = {
    "a model per client": {"single_model": False},
    "one model": {"single_model": True},
    "batched": {"batch_enabled": True},
}


@dataclass(slots=True)
class Transcript:
    """What a client shows: every completed segment that came, and behind them those that are not."""

    completed: list[tuple[float, str]] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)

    def take(self, segments: Sequence[dict[str, Any]]) -> str:
        """The whole text after a message. A message repeats the last segments that were completed before."""
        ends = self.completed[-1][0] if self.completed else 0.0
        for segment in segments:
            if segment["completed"] and float(segment["start"]) >= ends:
                ends = float(segment["end"])
                self.completed.append((ends, segment["text"]))
        self.pending = [segment["text"] for segment in segments if not segment["completed"]]
        return " ".join([*(text for _, text in self.completed), *self.pending])


@dataclass(frozen=True, slots=True)
class WhisperLive:
    """One of its modes."""

    mode: str
    environment: str = "whisperlive"
    same_weights: bool = True

    @property
    def name(self) -> str:
        return f"WhisperLive, {self.mode}"

    @property
    def note(self) -> str:
        beam = "greedy" if self.mode == "batched" else "beam 5"
        return f"{beam}, its VAD on; final: the shown words changed last"

    def serve(self, environments: Path, cpus: Sequence[int]) -> AbstractContextManager[Serving]:
        python = environments / self.environment / "bin" / "python"
        settings = {
            "backend": "faster_whisper", "faster_whisper_custom_model_path": str(weights()), "max_clients": 64,
            **_MODES[self.mode],
        }  # fmt: skip
        program = (
            "import sys, json; from whisper_live.server import TranscriptionServer; "
            "TranscriptionServer().run('127.0.0.1', port=int(sys.argv[1]), **json.loads(sys.argv[2]))"
        )
        # Its own start script gives every model one thread unless told otherwise.
        one = {"OMP_NUM_THREADS": "1"}
        return started(lambda port: [str(python), "-c", program, str(port), json.dumps(settings)], listens, cpus, one)

    async def say(self, serving: Serving, script: Script) -> Said:
        said, transcript = Said(script, FRAME), Transcript()
        try:
            async with connect(f"ws://127.0.0.1:{serving.port}", max_size=None, proxy=None, compression=None) as socket:
                asked = {
                    "uid": str(uuid4()), "language": "en", "task": "transcribe", "model": "tiny.en", "use_vad": True,
                }  # fmt: skip
                await socket.send(json.dumps(asked))
                while (first := json.loads(await socket.recv())).get("message") != "SERVER_READY":
                    if first.get("status") == "WAIT":
                        said.refused = True
                        return said

                async def send(pcm: bytes) -> None:
                    await socket.send((np.frombuffer(pcm, "<i2").astype(np.float32) / 32_768).tobytes())

                async def listen() -> None:
                    async for message in socket:
                        if segments := json.loads(message).get("segments"):
                            said.show(transcript.take(segments))

                await converse(said, send, listen)
        except (OSError, WebSocketException) as error:
            said.problem = f"the stream broke off: {error!r}"
        return said


PEERS: tuple[Peer, ...] = tuple(WhisperLive(mode) for mode in _MODES)
