"""One paced stream over the wire, as a microphone sends it, with the moment of everything that goes and comes.

Times are seconds on this process's monotonic clock.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from load.script import Script

EXTRAS = ("x.words", "x.unstable", "x.lag")


class Refused(Exception):
    """The service did not take the stream. `seconds` from asking to the answer; `retry_after` as the server gave it."""

    def __init__(self, status: int, retry_after: str | None, seconds: float) -> None:
        super().__init__(f"refused with HTTP {status}, Retry-After {retry_after}, after {1000 * seconds:.0f} ms")
        self.status = status
        self.retry_after = retry_after
        self.seconds = seconds


@dataclass(slots=True)
class Heard:
    """One stream: `sent[i]` is when frame i, audio up to (i+1)·`frame` s, was handed to the socket; `events` are
    (when received, the server's event). `late` is the most that a frame was sent after its time: the client's fault.
    """

    script: Script
    frame: float
    speed: float = 1.0
    begun: float = 0.0
    late: float = 0.0
    sent: list[float] = field(default_factory=list)
    events: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    problem: str | None = None

    def sent_at(self, audio: float) -> float:
        """When the last byte of the first `audio` seconds was sent."""
        index = math.ceil(round(audio / self.frame, 6)) - 1
        return self.sent[min(max(index, 0), len(self.sent) - 1)]

    def due_at(self, audio: float) -> float:
        """When the last byte of the first `audio` seconds was to be sent, whenever it was."""
        return self.begun + math.ceil(round(audio / self.frame, 6)) * self.frame / self.speed


def address(url: str, path: str) -> str:
    """Where a socket of the service at `url` is: ws://, or wss:// for one on https."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return f"{scheme}://{parts.netloc}{path}"


async def dial(url: str, key: str | None = None, *, intent: str = "transcription", **how: Any) -> ClientConnection:
    """A connection to the realtime endpoint of the service at `url` (http://host:port). Raises `Refused`, OSError."""
    target = address(url, f"/v1/realtime?intent={intent}")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    began = time.monotonic()
    try:
        return await connect(target, additional_headers=headers, proxy=None, compression=None, **how)
    except InvalidStatus as answer:
        seconds = time.monotonic() - began
        response = answer.response
        raise Refused(response.status_code, response.headers.get("Retry-After"), seconds) from None


def settings(rate: int, include: Sequence[str] = EXTRAS, language: str | None = "en") -> str:
    """The session.update of a stream with the service's own turn detection."""
    heard = {
        "format": {"type": "audio/pcm", "rate": rate},
        "transcription": {"language": language} if language else {},
        "turn_detection": {"type": "server_vad"},
    }
    session = {"type": "transcription", "include": list(include), "audio": {"input": heard}}
    return json.dumps({"type": "session.update", "session": session})


def append(pcm: bytes) -> str:
    """One frame of audio as the wire has it."""
    return f'{{"type":"input_audio_buffer.append","audio":"{base64.b64encode(pcm).decode()}"}}'


async def stream(
    url: str,
    script: Script,
    *,
    frame: float = 0.02,
    speed: float = 1.0,
    key: str | None = None,
    include: Sequence[str] = EXTRAS,
    patience: float = 30.0,
    told: Callable[[dict[str, Any]], None] = lambda event: None,
) -> Heard:
    """Say `script` at `speed` times real time in frames of `frame` seconds, and wait for everything that comes of it.

    `told` is given every event as it comes.
    `patience`: seconds the last finals may take. What goes wrong once the stream is admitted is in `problem`.
    Raises `Refused`, OSError.
    """
    heard = Heard(script, frame, speed)
    socket = await dial(url, key, max_queue=None)
    try:
        await socket.send(settings(script.rate, include))
        listening = asyncio.create_task(_listen(socket, heard, told))
        speaking = asyncio.create_task(_speak(socket, heard))
        try:
            await asyncio.wait({listening, speaking}, return_when=asyncio.FIRST_COMPLETED)
            if not listening.done():
                await speaking
            await asyncio.wait_for(listening, patience)
        finally:
            speaking.cancel()
            listening.cancel()
            await asyncio.gather(speaking, listening, return_exceptions=True)
    except TimeoutError:
        heard.problem = f"the last finals did not come within {patience:g} s"
    except ConnectionClosed as closed:
        heard.problem = f"the service closed the stream: {closed}"
    finally:
        await socket.close()
    return heard


async def _speak(socket: ClientConnection, heard: Heard) -> None:
    script, frame = heard.script, heard.frame
    size = round(frame * script.rate)
    data = script.samples.astype("<i2").tobytes()
    heard.begun = time.monotonic()
    for number in range(math.ceil(len(script.samples) / size)):
        message = append(data[2 * size * number : 2 * size * (number + 1)])
        due = heard.begun + (number + 1) * frame / heard.speed
        if (wait := due - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        now = time.monotonic()
        heard.late = max(heard.late, now - due)
        heard.sent.append(now)
        await socket.send(message)
    # Answered when all audio before it has been heard; the silence at the end has closed the last utterance by then.
    await socket.send('{"type":"input_audio_buffer.clear"}')


async def _listen(socket: ClientConnection, heard: Heard, told: Callable[[dict[str, Any]], None]) -> None:
    """Take events until all audio was heard and every committed item has ended."""
    open_items: set[str] = set()
    cleared = False
    while not cleared or open_items:
        text = await socket.recv()
        now = time.monotonic()
        event = json.loads(text)
        heard.events.append((now, event))
        told(event)
        kind = event["type"]
        if kind == "input_audio_buffer.committed":
            open_items.add(event["item_id"])
        elif kind.endswith((".completed", ".failed")):
            open_items.discard(event["item_id"])
        elif kind == "input_audio_buffer.cleared":
            cleared = True
        elif kind == "error":
            heard.problem = event["error"]["message"]
