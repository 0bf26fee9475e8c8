"""Moonshine, whose package brings weights of its own for English (tiny), behind the smallest server for it.

The final of a recording is the event that says that its line is completed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from load.peers.peer import FRAME, Peer, Said, Serving, converse, listens, started
from load.script import Script

_SERVER = Path(__file__).parent / "moonshine_server.py"


@dataclass(frozen=True, slots=True)
class Moonshine:
    name: str = "Moonshine tiny"
    environment: str | None = "moonshine"
    note: str = "other weights, its own VAD; final: the line is completed"
    same_weights: bool = False

    def serve(self, environments: Path, cpus: Sequence[int]) -> AbstractContextManager[Serving]:
        python = environments / "moonshine" / "bin" / "python"
        return started(lambda port: [str(python), str(_SERVER), str(port)], listens, cpus)

    async def say(self, serving: Serving, script: Script) -> Said:
        said = Said(script, FRAME)
        try:
            async with connect(f"ws://127.0.0.1:{serving.port}", proxy=None, compression=None) as socket:

                async def listen() -> None:
                    async for message in socket:
                        said.show(" ".join(json.loads(message)["completed"]))

                await converse(said, socket.send, listen)
        except (OSError, WebSocketException) as error:
            said.problem = f"the stream broke off: {error!r}"
        return said


PEERS: tuple[Peer, ...] = (Moonshine(),)
