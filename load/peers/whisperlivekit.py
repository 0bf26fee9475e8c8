"""WhisperLiveKit, over its websocket, with both of its policies for Whisper.

Its `lines` are what is committed, and final by the protocol; what is still in its buffer is not. The final of a
recording is when its last word was committed. A microphone stays open between recordings; behind the last one it is
closed when nothing more is committed, and what comes of that still counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from load.peers.checkpoint import alignment_heads, write
from load.peers.peer import FRAME, Peer, Said, Serving, converse, listens, started, weights
from load.script import Script


@dataclass(frozen=True, slots=True)
class WhisperLiveKit:
    """One of its policies."""

    policy: str
    note: str
    environment: str = "whisperlivekit"
    same_weights: bool = True

    @property
    def name(self) -> str:
        return f"WhisperLiveKit, {self.policy}"

    def serve(self, environments: Path, cpus: Sequence[int]) -> AbstractContextManager[Serving]:
        program = environments / self.environment / "bin" / "whisperlivekit-server"
        flags = [
            "--backend-policy", self.policy, "--backend", "faster-whisper", "--lan", "en", "--pcm-input",
            "--warmup-file", "", "--log-level", "WARNING",
        ]  # fmt: skip
        if self.policy == "localagreement":
            flags += ["--model_dir", str(weights())]
        else:
            decoder = write(weights(), environments / "weights")
            flags += ["--model", "tiny.en", "--decoder-model-path", str(decoder), "--custom-alignment-heads",
                      alignment_heads(weights()), "--encoder-model-path", str(weights())]  # fmt: skip
        return started(lambda port: [str(program), "--port", str(port), *flags], listens, cpus)

    async def say(self, serving: Serving, script: Script) -> Said:
        said = Said(script, FRAME)
        try:
            async with connect(f"ws://127.0.0.1:{serving.port}/asr", max_size=None, proxy=None) as socket:

                async def listen() -> None:
                    async for message in socket:
                        told = json.loads(message)
                        if told.get("type") == "ready_to_stop":
                            return
                        if "lines" in told:
                            said.show(" ".join(line["text"] or "" for line in told["lines"]))

                await converse(said, socket.send, listen, end=lambda: socket.send(b""))
        except (OSError, WebSocketException) as error:
            said.problem = f"the stream broke off: {error!r}"
        return said


PEERS: tuple[Peer, ...] = (
    WhisperLiveKit("localagreement", "faster-whisper, beam 5; final: the last word is in a line"),
    WhisperLiveKit(
        "simulstreaming", "encoder of CTranslate2, decoder of PyTorch, greedy; final: the last word is in a line"
    ),
)
