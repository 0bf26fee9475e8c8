"""Listeners of speech over the wire: of /v1/speak, and of plain HTTP servers that are given a sentence at a time."""

from __future__ import annotations

import asyncio
import io
import json
import struct
import time
import wave
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from aiohttp import ClientError, ClientSession, ClientTimeout
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from load.client import address
from load.playing import Utterance
from load.spoken import pieces

PIECES = 50.0
"""Words of text a second, as a language model writes them."""
REPORTS = 0.25
"""Seconds between two reports of the playhead."""
PATIENCE = 20.0
"""Seconds without any sound after which an utterance has failed."""
ANSWER = 60.0
"""Seconds that a plain server may let a sentence wait."""
_HEADER = struct.Struct("<IIQ")
"""Of a binary frame: 1 for sound, the number of its context, the samples before it."""


async def dial(url: str, key: str | None = None) -> ClientConnection:
    """A socket of /v1/speak that has been welcomed. Raises InvalidStatus, OSError."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    socket = await connect(
        address(url, "/v1/speak"), additional_headers=headers, proxy=None, compression=None, max_queue=None
    )
    await socket.recv()
    return socket


async def send(socket: ClientConnection, kind: str, context: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": kind, "context": context, **fields}))


async def speak(socket: ClientConnection, name: str, text: Sequence[str], *, at_once: bool = False) -> Utterance:
    """One utterance on a socket that nothing else is said on, its text in words as a language model writes it, or
    `at_once`.

    Ends when all sound has come. The playhead of the player without a buffer is reported all the time.
    """
    began = time.monotonic()
    await send(socket, "create", name, words=False)
    while True:
        answer = await socket.recv()
        if isinstance(answer, str) and (event := json.loads(answer)).get("context") == name:
            break
    one = Utterance(began, event.get("format", {}).get("rate", 24_000))
    if event["type"] != "created":
        one.refused = event["error"]["code"] == "at_capacity"
        one.problem = None if one.refused else event["error"]["message"]
        return one
    created, whole = event, " ".join(text)
    writing = asyncio.create_task(_write(socket, name, [whole] if at_once else pieces(whole)))
    reporting = asyncio.create_task(_report(socket, name, one))
    try:
        while True:
            # What was sent in advance makes silence; a deaf service does not.
            ahead = max(0.0, one.bare.dry_at - time.monotonic())
            answer = await asyncio.wait_for(socket.recv(), PATIENCE + ahead)
            now = time.monotonic()
            if isinstance(answer, bytes):
                one.problem = one.problem or _misplaced(answer, created["number"], one)
                one.receive(now, answer[_HEADER.size :])
                continue
            event = json.loads(answer)
            if event["type"] == "done":
                if round(event["seconds"] * one.rate) != round(one.bare.received * one.rate):
                    made, came = event["seconds"], one.bare.received
                    one.problem = one.problem or f"{made} s were said to be made, {came} came"
                break
            if event["type"] in ("failed", "error", "cancelled"):
                one.problem = json.dumps(event.get("error", event["type"]))
                break
    except TimeoutError:
        one.problem = f"no sound for {PATIENCE:g} s"
    except ConnectionClosed as closed:
        one.problem = f"closed: {closed}"
    finally:
        for task in (writing, reporting):
            task.cancel()
        await asyncio.gather(writing, reporting, return_exceptions=True)
    return one


def _misplaced(answer: bytes, number: int, one: Utterance) -> str | None:
    """What is wrong with a frame of sound, which says whose it is and where it belongs."""
    kind, context, position = _HEADER.unpack_from(answer)
    came = round(one.bare.received * one.rate)
    if (kind, context) != (1, number):
        return f"a frame of kind {kind} of context {context}, which is {number}"
    return f"sound from sample {position} on came behind {came} samples" if position != came else None


async def _write(socket: ClientConnection, name: str, words: Sequence[str]) -> None:
    began = time.monotonic()
    for n, word in enumerate(words):
        if (wait := began + n / PIECES - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        await send(socket, "text", name, text=word, end=n == len(words) - 1)


async def _report(socket: ClientConnection, name: str, one: Utterance) -> None:
    while True:
        await asyncio.sleep(REPORTS)
        if one.bare.started is not None:
            await send(socket, "playback", name, seconds=round(one.bare.position(time.monotonic()), 4))


class Listener(Protocol):
    """Somebody who is spoken to, one utterance after another."""

    async def hear(self, text: Sequence[str]) -> Utterance:
        """One utterance of these sentences; ends when all its sound has come."""

    async def close(self) -> None:
        """Hang up."""


class Server(Protocol):
    """Whatever speaks."""

    async def listener(self) -> Listener:
        """One more. Raises OSError, and InvalidStatus when there is no place."""


class Speechlane:
    """Listeners of the service at `url`."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self._url, self._key = url, key

    async def listener(self) -> _SpeakListener:
        """One more, with a socket of its own. Raises OSError, and InvalidStatus when there is no place."""
        return _SpeakListener(await dial(self._url, self._key))


class _SpeakListener:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._said = socket, 0

    async def hear(self, text: Sequence[str]) -> Utterance:
        """One utterance of these sentences."""
        self._said += 1
        return await speak(self._socket, f"u{self._said}", text)

    async def close(self) -> None:
        await self._socket.close()


class Plain:
    """Listeners of an HTTP server that speaks what is posted to it. `path` takes the text as it is, or, with `wav`, as
    JSON, and answers with a WAV."""

    def __init__(self, url: str, path: str = "/", *, wav: bool = False, rate: int = 24_000) -> None:
        self.target, self.wav, self.rate = f"{url}{path}", wav, rate

    async def listener(self) -> _PlainListener:
        """One more."""
        return _PlainListener(self)


class _PlainListener:
    """Asks for the next sentence when the one before begins to play, if its text has been written by then."""

    def __init__(self, server: Plain) -> None:
        self._server = server
        self._http = ClientSession(timeout=ClientTimeout(total=None, sock_read=ANSWER))

    async def hear(self, text: Sequence[str]) -> Utterance:
        """One utterance of these sentences."""
        one = Utterance(time.monotonic(), self._server.rate)
        words = 0
        asking: list[asyncio.Task[None]] = []
        try:
            for sentence in text:
                words += len(sentence.split(" "))
                written = one.asked + (words - 1) / PIECES
                await asyncio.sleep(max(0.0, written - time.monotonic()))
                plays: asyncio.Future[float] = asyncio.get_running_loop().create_future()
                asking.append(asyncio.create_task(self._ask(sentence, one, plays)))
                either: set[asyncio.Future[Any]] = {asking[-1], plays}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if plays.done():
                    await asyncio.sleep(max(0.0, plays.result() - time.monotonic()))
            await asyncio.gather(*asking)
        except (ClientError, OSError, TimeoutError, wave.Error) as error:
            one.problem = repr(error)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        return one

    async def _ask(self, sentence: str, one: Utterance, plays: asyncio.Future[float]) -> None:
        """Have a sentence spoken; `plays` becomes the moment at which it begins to be heard."""

        def receive(pcm: bytes) -> None:
            now = time.monotonic()
            if pcm and not plays.done():
                plays.set_result(max(now, one.bare.dry_at))
            one.receive(now, pcm)

        server, odd = self._server, b""
        if server.wav:
            async with self._http.post(server.target, json={"text": sentence}) as answer:
                answer.raise_for_status()
                data = await answer.read()
            with wave.open(io.BytesIO(data)) as file:
                receive(file.readframes(file.getnframes()))
            return
        async with self._http.post(server.target, data=sentence.encode()) as answer:
            answer.raise_for_status()
            async for data in answer.content.iter_any():
                data = odd + data
                whole = len(data) // 2 * 2
                odd = data[whole:]
                receive(data[:whole])

    async def close(self) -> None:
        with suppress(Exception):
            await self._http.close()
