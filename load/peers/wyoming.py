"""wyoming-faster-whisper, the server of Home Assistant's voice pipeline, over its TCP protocol.

A connection is one turn; the client says when it is over, here as with any server that leaves that to the client,
after 550 ms without a voice. The audio goes there while it is spoken. The final is the transcript.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from load.peers.peer import FRAME, Peer, Said, Serving, listens, started, weights
from load.peers.posting import SILENCE
from load.peers.turns import Turn, by_turns, until
from load.script import Script


@dataclass(frozen=True, slots=True)
class Wyoming:
    name: str = "wyoming-faster-whisper"
    environment: str | None = "wyoming"
    note: str = "client endpoints after 550 ms; greedy, int8; final: the transcript"
    same_weights: bool = True

    @contextmanager
    def serve(self, environments: Path, cpus: Sequence[int]) -> Iterator[Serving]:
        program = environments / "wyoming" / "bin" / "wyoming-faster-whisper"
        with tempfile.TemporaryDirectory() as empty:
            flags = [
                "--model", str(weights()), "--stt-library", "faster-whisper", "--language", "en", "--beam-size", "1",
                "--compute-type", "int8", "--data-dir", empty, "--local-files-only",
            ]  # fmt: skip
            with started(lambda port: [str(program), "--uri", f"tcp://127.0.0.1:{port}", *flags], listens, cpus) as one:
                yield one

    async def say(self, serving: Serving, script: Script) -> Said:
        said = Said(script, FRAME)
        form = {"rate": script.rate, "width": 2, "channels": 1}
        size = round(FRAME * script.rate)

        async def hear(turn: Turn) -> str:
            reader, writer = await asyncio.open_connection("127.0.0.1", serving.port)
            try:
                writer.write(event("transcribe", {"language": "en"}) + event("audio-start", form))
                samples = turn.samples(script).astype("<i2")
                for number in range(0, len(samples), size):
                    await until(said, turn.start + (number + size) / script.rate)
                    writer.write(event("audio-chunk", form, samples[number : number + size].tobytes()))
                writer.write(event("audio-stop", {}))
                while (heard := await receive(reader))[0] != "transcript":
                    pass
                return str(heard[1]["text"])
            finally:
                writer.close()

        try:
            return await by_turns(said, SILENCE, hear)
        except (OSError, asyncio.IncompleteReadError) as error:
            said.problem = f"a turn was not heard: {error!r}"
        return said


def event(kind: str, data: dict[str, Any], payload: bytes = b"") -> bytes:
    """An event as the wire has it: a line of JSON, and the audio behind it."""
    return json.dumps({"type": kind, "data": data, "payload_length": len(payload)}).encode() + b"\n" + payload


async def receive(reader: asyncio.StreamReader) -> tuple[str, dict[str, Any]]:
    """Kind and data of the next event. Raises IncompleteReadError at the end of the connection."""
    head: dict[str, Any] = json.loads(await reader.readuntil(b"\n"))
    data = head.get("data") or {}
    if length := head.get("data_length"):
        data |= json.loads(await reader.readexactly(length))
    await reader.readexactly(head.get("payload_length") or 0)
    return head["type"], data


PEERS: tuple[Peer, ...] = (Wyoming(),)
