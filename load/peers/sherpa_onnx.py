"""sherpa-onnx: the websocket server of its binaries that transcribes whole recordings, with Whisper.

Its streaming server needs a model that streams, and no package brings one. The client endpoints as with the servers
that are posted to, and sends the turn on a connection that stays. The final is the answer.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from load.peers import onnx_layout
from load.peers.peer import FRAME, Peer, Said, Serving, listens, started, weights
from load.peers.posting import SILENCE
from load.peers.turns import Turn, by_turns, until
from load.script import Script


@dataclass(frozen=True, slots=True)
class SherpaOnnx:
    """With so many frames of 10 ms of silence behind the audio."""

    name: str
    silence: int
    environment: str | None = "sherpa-onnx"
    same_weights: bool = True

    @property
    def note(self) -> str:
        return f"client endpoints after 550 ms; greedy, single precision, {self.silence} frames more; final: the answer"

    def serve(self, environments: Path, cpus: Sequence[int]) -> AbstractContextManager[Serving]:
        encoder, decoder, words = onnx_layout.write(weights(), environments / "weights")
        command = [
            str(environments / "sherpa-onnx" / "bin" / "sherpa-onnx-offline-websocket-server"),
            f"--whisper-encoder={encoder}", f"--whisper-decoder={decoder}", f"--tokens={words}",
            f"--whisper-tail-paddings={self.silence}", "--log-file=/dev/null",
        ]  # fmt: skip
        return started(lambda port: [*command, f"--port={port}"], listens, cpus)

    async def say(self, serving: Serving, script: Script) -> Said:
        said, turn_by_turn = Said(script, FRAME), asyncio.Lock()
        try:
            async with connect(f"ws://127.0.0.1:{serving.port}", proxy=None, compression=None) as socket:

                async def hear(turn: Turn) -> str:
                    await until(said, turn.known)
                    samples = (turn.samples(script).astype(np.float32) / 32_768).tobytes()
                    async with turn_by_turn:
                        await socket.send(struct.pack("<ii", script.rate, len(samples)) + samples)
                        return str(json.loads(await socket.recv())["text"])

                await by_turns(said, SILENCE, hear)
                await socket.send("Done")
        except (OSError, WebSocketException) as error:
            said.problem = f"a turn was not heard: {error!r}"
        return said


# As it comes, and as it suggests for English: quicker, and Whisper repeats itself now and then.
PEERS: tuple[Peer, ...] = (SherpaOnnx("sherpa-onnx", 1_000), SherpaOnnx("sherpa-onnx, short", 50))
