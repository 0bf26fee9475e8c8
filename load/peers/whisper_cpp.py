"""whisper.cpp, behind the OpenAI HTTP interface of open-asr-server; PyPI has no other server of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from load.peers import ggml
from load.peers.peer import Peer, Said, Serving, listens, started, weights
from load.peers.posting import post_turns
from load.script import Script

_MODEL = "whisper-cpp:{}"


@dataclass(slots=True)
class WhisperCpp:
    name: str = "whisper.cpp, open-asr-server"
    environment: str | None = "whisper-cpp"
    note: str = "client endpoints after 550 ms and posts; greedy, half precision; final: the answer"
    same_weights: bool = True
    _file: Path = Path()

    @contextmanager
    def serve(self, environments: Path, cpus: Sequence[int]) -> Iterator[Serving]:
        self._file = ggml.write(weights(), environments / "weights")
        program = environments / "whisper-cpp" / "bin" / "open-asr-server"
        # Its model takes one transcription at a time.
        one = {"OPEN_ASR_SERVER_TRANSCRIBE_WORKERS": "1"}
        command = [str(program), "serve", "--preload", _MODEL.format(self._file)]
        with started(lambda port: [*command, "--port", str(port)], listens, cpus, one) as serving:
            yield serving

    async def say(self, serving: Serving, script: Script) -> Said:
        return await post_turns(serving, script, {"language": "en", "model": _MODEL.format(self._file)})


PEERS: tuple[Peer, ...] = (WhisperCpp(),)
