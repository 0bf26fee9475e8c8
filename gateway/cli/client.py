"""A small client of the realtime endpoint: sends blocks of audio, gives back what was said."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

PATH = "/v1/realtime"
TRANSCRIPTION = "conversation.item.input_audio_transcription."
COMMIT_ID = "listen_commit"
EMPTY_ID = "listen_empty"
"""A second commit that follows the closing one. It has nothing to commit, so its error says that all was dealt with."""
FINISH_SECONDS = 60.0
"""What the service may take for the last words once all audio is sent."""


class ListenError(Exception):
    """Listening is over; the message says why and how to mend it."""


@dataclass
class Utterance:
    """What is known of one utterance. Times in seconds since the first sample; words are the wire's objects.

    `unstable` continues `stable` as it is, spaces included; both together are the text so far.
    """

    item: str
    start: float = 0.0
    end: float = 0.0
    stable: str = ""
    unstable: str = ""
    text: str | None = None
    words: list[dict[str, Any]] = field(default_factory=list)
    problem: str | None = None


Shown = Callable[[Utterance], None]


async def listen(
    blocks: AsyncIterator[bytes],
    *,
    url: str,
    key: str | None,
    rate: int,
    model: str | None,
    language: str | None,
    show: Shown,
    stop: asyncio.Event,
) -> None:
    """Stream `blocks` (PCM16 mono, `rate` Hz) until they end or `stop` is set, then wait for the last words.

    `show` is called with an utterance whenever it has changed: `text` is set by its final, `problem` when it failed.
    Raises `ListenError`.
    """
    async with await connected(url, key, PATH, "intent=transcription") as socket:
        await _converse(socket, blocks, _session(rate, model, language), show, stop)


async def connected(url: str, key: str | None, path: str, query: str = "") -> ClientConnection:
    """A socket to the endpoint `path` of the service at `url`. Raises `ListenError`."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        target = endpoint(url, path, query)
    except ValueError as error:
        raise ListenError(f"{url} is no address of a service ({error}); it looks like ws://127.0.0.1:8700") from error
    local = (urlsplit(target).hostname or "").startswith(("127.", "localhost", "::1"))
    try:
        return await connect(target, additional_headers=headers, proxy=None if local else True)
    except InvalidStatus as error:
        raise ListenError(refusal(error.response.status_code, error.response.body or b"", url)) from error
    except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as error:
        raise ListenError(f"no service answers at {url} ({error}); start one with: speechlane serve") from error


def endpoint(url: str, path: str = PATH, query: str = "intent=transcription") -> str:
    """The endpoint `path` (/v1/...) of a service given by its address, ws:// or http://, with or without a path.

    Raises ValueError for one that is malformed.
    """
    parts = urlsplit(url if "://" in url else f"ws://{url}")
    if not parts.hostname or parts.port == 0:
        raise ValueError("a host and perhaps a port are needed")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    given, name = parts.path.rstrip("/"), path.removeprefix("/v1")
    whole = given if given.endswith(name) else given + name if given.endswith("/v1") else given + path
    return urlunsplit((scheme, parts.netloc, whole, parts.query or query, ""))


def _session(rate: int, model: str | None, language: str | None) -> dict[str, Any]:
    asked = {"model": model, "language": language}
    return {
        "type": "transcription",
        "include": ["x.words", "x.unstable"],
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": rate},
                "transcription": {name: value for name, value in asked.items() if value is not None},
                "turn_detection": {"type": "server_vad"},
            }
        },
    }


async def _converse(
    socket: ClientConnection, blocks: AsyncIterator[bytes], session: dict[str, Any], show: Shown, stop: asyncio.Event
) -> None:
    receiver = asyncio.create_task(_receive(socket, _Heard(show)))
    sender = asyncio.create_task(_send(socket, blocks, session, stop))
    try:
        await asyncio.wait({receiver, sender}, return_when=asyncio.FIRST_COMPLETED)
        if not receiver.done():
            sender.result()  # all audio is sent, or the source has failed
            await asyncio.wait_for(receiver, FINISH_SECONDS)
        receiver.result()
    except TimeoutError:
        raise ListenError(f"the last words did not come within {FINISH_SECONDS:g} s") from None
    except ConnectionClosed as error:
        code = error.rcvd.code if error.rcvd is not None else 1006
        reason = error.rcvd.reason if error.rcvd is not None else ""
        raise ListenError(closed(code, reason)) from error
    finally:
        receiver.cancel()
        sender.cancel()
        await asyncio.gather(receiver, sender, return_exceptions=True)


async def _send(
    socket: ClientConnection, blocks: AsyncIterator[bytes], session: dict[str, Any], stop: asyncio.Event
) -> None:
    await socket.send(json.dumps({"type": "session.update", "session": session}))
    async for block in _until(blocks, stop):
        audio = base64.b64encode(block).decode()
        await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
    for event_id in (COMMIT_ID, EMPTY_ID):
        await socket.send(json.dumps({"type": "input_audio_buffer.commit", "event_id": event_id}))


async def _until(blocks: AsyncIterator[bytes], stop: asyncio.Event) -> AsyncIterator[bytes]:
    """The blocks until `stop` is set, even when none comes any more."""
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            block = asyncio.ensure_future(anext(blocks, None))
            await asyncio.wait({block, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not block.done():
                block.cancel()
                return
            if (data := block.result()) is None:
                return
            yield data
    finally:
        stopping.cancel()


async def _receive(socket: ClientConnection, heard: _Heard) -> None:
    while not heard.complete:
        heard.take(json.loads(await socket.recv()))


class _Heard:
    """Utterances put together from the server's events."""

    def __init__(self, show: Shown) -> None:
        self._show = show
        self._open: dict[str, Utterance] = {}
        self._ended = False

    @property
    def complete(self) -> bool:
        """All audio has been dealt with and no utterance is open."""
        return self._ended and not self._open

    def take(self, event: dict[str, Any]) -> None:
        """Take in one server event; raises `ListenError` for an error that listening cannot go on after."""
        kind, item = event["type"], event.get("item_id", "")
        if kind == "error":
            self._refused(event["error"])
        elif kind == "input_audio_buffer.speech_started":
            self._open[item] = Utterance(item, start=event["audio_start_ms"] / 1000)
        elif kind == "input_audio_buffer.committed":
            self._open.setdefault(item, Utterance(item))
        elif item in self._open:
            self._change(kind, event, self._open[item])

    def _change(self, kind: str, event: dict[str, Any], utterance: Utterance) -> None:
        if kind == "input_audio_buffer.speech_stopped":
            utterance.end = event["audio_end_ms"] / 1000
            return
        if kind == f"{TRANSCRIPTION}delta":
            utterance.stable += event["delta"]
            return  # the tail that belongs to it follows at once
        if kind == "x.transcription.unstable":
            utterance.unstable = event["text"]
        elif kind == f"{TRANSCRIPTION}completed":
            utterance.text = event["transcript"].strip()
            utterance.words = event.get("words") or []
            if utterance.words:
                utterance.start, utterance.end = utterance.words[0]["start"], utterance.words[-1]["end"]
            del self._open[utterance.item]
        elif kind == f"{TRANSCRIPTION}failed":
            utterance.problem = event["error"]["message"]
            del self._open[utterance.item]
        else:
            return
        self._show(utterance)

    def _refused(self, error: dict[str, Any]) -> None:
        if error.get("event_id") == EMPTY_ID:
            self._ended = True
        elif error.get("event_id") != COMMIT_ID:
            raise ListenError(f"the service refused: {error['message']}")


def refusal(status: int, body: bytes | bytearray, url: str) -> str:
    """What is said of an answer that is no success."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = f"HTTP {status}"
    hints = {
        401: " Give the key with --key or SPEECHLANE_API_KEY.",
        404: f" Is {url} a Speechlane service?",
    }
    return f"the service refused: {message}{hints.get(status, '')}"


def closed(code: int, reason: str) -> str:
    """What is said of a socket that was closed before the work was done."""
    meanings = {
        1001: "the session has reached its longest duration; start again to go on",
        1006: "the connection broke; is the service still running?",
        1012: "the service is shutting down; try again in a few seconds",
        1013: "the service is full; try again later",
    }
    said = f" ({reason})" if reason else ""
    return f"the connection was closed with {code}: {meanings.get(code, 'the session ended')}{said}"
