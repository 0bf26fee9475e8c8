"""Speechlane itself, over its realtime endpoint; the final of a recording is its `completed` event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from websockets.exceptions import WebSocketException

from load.client import Heard, Refused, stream
from load.peers.peer import FRAME, PATIENCE, Peer, Said, Serving
from load.scoring import utterances
from load.script import Script
from load.service import service

_FLAGS = (
    "--no-batch", "--models", "tiny.en", "--voices", "", "--embeddings", "", "--documents", "0", "--chat-models", "",
    "--image-models", "", "--video-models", "", "--admission", "everybody",
)  # fmt: skip
"""Live transcription alone, as of the others, and nobody refused: they take everybody, and it is the most streams that
are looked for. (By default a stream is admitted only if all its partials can be made as well.)"""


@dataclass(frozen=True, slots=True)
class Speechlane:
    name: str = "Speechlane"
    environment: str | None = None
    note: str = "greedy, its own turn detection, everybody admitted; final: the completed event"
    same_weights: bool = True

    @contextmanager
    def serve(self, environments: Path, cpus: Sequence[int]) -> Iterator[Serving]:
        with service(None, _FLAGS, cpus) as running:
            assert running.process is not None
            yield Serving(int(running.url.rpartition(":")[2]), running.process)

    async def say(self, serving: Serving, script: Script) -> Said:
        try:
            return said(await stream(serving.url, script, frame=FRAME, patience=PATIENCE))
        except Refused:
            return Said(script, FRAME, refused=True)
        except (OSError, WebSocketException) as error:
            return Said(script, FRAME, problem=f"the stream broke off: {error!r}")


def said(heard: Heard) -> Said:
    """A stream of Speechlane's as it is compared: its finals, in the order of what was said."""
    found, broken = utterances(heard)
    out = Said(heard.script, heard.frame, begun=heard.begun, late=heard.late, problem=broken[0] if broken else None)
    ended = [one for one in found if one.text]
    for moment in sorted(one.final_at for one in ended):
        out.shown.append((moment, " ".join(one.text or "" for one in ended if one.final_at <= moment)))
    return out


PEERS: tuple[Peer, ...] = (Speechlane(),)
