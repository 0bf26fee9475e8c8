"""faster-whisper-server: Whisper behind OpenAI's HTTP interface for files.

It hears no stream. The client endpoints, as LiveKit's StreamAdapter does with such a server: after 550 ms without a
voice it posts the turn, with half a second of what was before it. The final is the answer.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import soundfile

from load.peers.peer import FRAME, Peer, Said, Serving, listens, started, weights
from load.peers.turns import Turn, by_turns, until
from load.script import Script

SILENCE = 0.55


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
        said = Said(script, FRAME)
        try:
            async with aiohttp.ClientSession(raise_for_status=True) as session:

                async def hear(turn: Turn) -> str:
                    await until(said, turn.known)
                    form = aiohttp.FormData({"language": "en"})
                    file = io.BytesIO()
                    soundfile.write(file, turn.samples(script), script.rate, format="WAV", subtype="PCM_16")
                    form.add_field("file", file.getvalue(), filename="turn.wav", content_type="audio/wav")
                    async with session.post(f"{serving.url}/v1/audio/transcriptions", data=form) as answer:
                        return str((await answer.json())["text"])

                await by_turns(said, SILENCE, hear)
        except (aiohttp.ClientError, OSError) as error:
            said.problem = f"a turn was not heard: {error!r}"
        return said


PEERS: tuple[Peer, ...] = (FasterWhisperServer(),)
