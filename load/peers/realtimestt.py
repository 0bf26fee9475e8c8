"""RealtimeSTT, over the websocket of its multi-user server; the final of a recording is its `final` event.

One model is behind both its partials and its finals, as with the others.
"""

from __future__ import annotations

import json
import struct
import urllib.request
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from load.peers.peer import FRAME, Peer, Said, Serving, converse, started, weights
from load.script import Script


@dataclass(frozen=True, slots=True)
class RealtimeSTT:
    name: str = "RealtimeSTT"
    environment: str | None = "realtimestt"
    note: str = "its own VAD, 600 ms; greedy, int8; final: the final event"
    same_weights: bool = True

    def serve(self, environments: Path, cpus: Sequence[int]) -> AbstractContextManager[Serving]:
        python = environments / "realtimestt" / "bin" / "python"
        flags = [
            "--model", str(weights()), "--use-main-model-for-realtime", "--device", "cpu", "--compute-type", "int8",
            "--language", "en", "--beam-size", "1", "--beam-size-realtime", "1", "--max-sessions", "64",
            "--max-active-speakers", "64", "--log-level", "WARNING", "--host", "127.0.0.1",
        ]  # fmt: skip
        command = [str(python), "-m", "example_fastapi_server.server", *flags]
        return started(lambda port: [*command, "--port", str(port)], _ready, cpus)

    async def say(self, serving: Serving, script: Script) -> Said:
        said = Said(script, FRAME)
        head = json.dumps({"sampleRate": script.rate, "channels": 1, "format": "pcm_s16le"}).encode()
        try:
            async with connect(f"ws://127.0.0.1:{serving.port}/ws/transcribe", max_size=None, proxy=None) as socket:
                while (first := json.loads(await socket.recv()))["type"] != "ready":
                    if first["type"] == "error":
                        said.refused = True
                        return said
                await socket.send('{"type":"start"}')
                finals: list[str] = []

                async def send(pcm: bytes) -> None:
                    await socket.send(struct.pack("<I", len(head)) + head + pcm)

                async def listen() -> None:
                    async for message in socket:
                        told = json.loads(message)
                        if told["type"] == "final":
                            finals.append(told["text"])
                            said.show(" ".join(finals))

                await converse(said, send, listen)
        except (OSError, WebSocketException) as error:
            said.problem = f"the stream broke off: {error!r}"
        return said


def _ready(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
        return bool(json.load(answer).get("ready"))


PEERS: tuple[Peer, ...] = (RealtimeSTT(),)
