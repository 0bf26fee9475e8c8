"""faster-whisper-server: faster-whisper behind OpenAI's HTTP interface."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from load.peers.peer import Peer, Said, Serving, listens, started, weights
from load.peers.posting import post_turns
from load.script import Script


@dataclass(frozen=True, slots=True)
class FasterWhisperServer:
    name: str = "faster-whisper-server"
    environment: str | None = "faster-whisper-server"
    note: str = "client endpoints after 550 ms and posts; greedy, int8; final: the answer"
    same_weights: bool = True

    @contextmanager
    def serve(self, environments: Path, cpus: Sequence[int]) -> Iterator[Serving]:
        greedy = {"beam_size": 1, "temperature": 0.0, "condition_on_previous_text": False, "without_timestamps": True}
        model = {
            "name": "whisper-1", "path": str(weights()), "model_options": {"device": "cpu", "compute_type": "int8"},
            "transcribe_options": greedy,
        }  # fmt: skip
        program = environments / "faster-whisper-server" / "bin" / "faster-whisper-server"
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
            json.dump({"models": [model]}, config)  # JSON is YAML
            config.flush()
            command = [str(program), "--config", config.name, "--host", "127.0.0.1"]
            with started(lambda port: [*command, "--port", str(port)], listens, cpus) as serving:
                yield serving

    async def say(self, serving: Serving, script: Script) -> Said:
        return await post_turns(serving, script, {"language": "en"})


PEERS: tuple[Peer, ...] = (FasterWhisperServer(),)
