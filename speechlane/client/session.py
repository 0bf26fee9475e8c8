"""One transcription session of the client's, over as many connections as it takes."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from speechlane.client.buffer import Message, Unacknowledged
from speechlane.client.errors import ClientError, Refused, Unreachable, closed, come_again
from speechlane.client.events import Event, Gap
from speechlane.client.samples import Audio, pcm16
from speechlane.client.sources import RATE, Source
from speechlane.client.wire import LAST, Heard, connected, session_update

log = logging.getLogger("speechlane.client")

WAITING_EVENTS = 1024
"""Events that wait for their reader; then no more are received."""
FIRST_RETRY, LAST_RETRY = 0.1, 5.0
"""Seconds before a connection is tried again: twice as many every time."""
PATIENCE = 60.0
FINISH_SECONDS = 60.0
"""What the service may take for the last words once all audio is sent."""
MAY_PASS = (429, 500, 502, 503, 504)
"""HTTP statuses of troubles that pass."""
SESSION_GONE = (404, 410)
COMMIT = Message(json.dumps({"type": "input_audio_buffer.commit", "event_id": LAST}))
ENDING = (COMMIT, Message(json.dumps({"type": "input_audio_buffer.clear"})))
"""The second is answered when all audio before it has been dealt with."""
FINALISED = (1001, 1012)
"""Close codes after which all that was taken in has been transcribed."""
FOR_GOOD = (1000, 4103)
"""Close codes after which nothing is tried again."""


@asynccontextmanager
async def connect(
    url: str,
    key: str | None = None,
    *,
    rate: int = RATE,
    model: str | None = None,
    language: str | None = None,
    buffer_seconds: float = 60.0,
    patience: float = PATIENCE,
) -> AsyncIterator[Session]:
    """A session at the service `url` (ws://127.0.0.1:8700) for audio of `rate` Hz, mono.

    `model`, `language`: unset, the service's default and what the model finds. A connection that breaks is made again
    for `patience` seconds; meanwhile `buffer_seconds` of audio are kept, and who sends more waits. Raises `ClientError`
    when there is no session to be had.
    """
    session = Session(url, key, rate, model, language, buffer_seconds, patience)
    await session.begin()
    try:
        yield session
    finally:
        await session.close()


class Session:
    """Send audio and iterate over the events, in two tasks; or do both with `transcribe`. Made by `connect`."""

    def __init__(
        self,
        url: str,
        key: str | None,
        rate: int,
        model: str | None,
        language: str | None,
        buffer_seconds: float,
        patience: float,
    ) -> None:
        self.rate = rate
        self.breaks = 0
        """Connections that broke so far."""
        self._url, self._key, self._patience = url, key, patience
        self._greeting = Message(json.dumps(session_update(rate, model, language)))
        self._buffer = Unacknowledged(round(buffer_seconds * rate))
        self._heard = Heard(0.0)
        self._token: str | None = None
        self._last_event = 0
        self._finalised = True
        self._progress = True
        self._finished = False
        self._events: asyncio.Queue[Event] = asyncio.Queue(WAITING_EVENTS)
        self._problem: Exception | None = None
        self._running: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        """Connect for the first time. Raises `ClientError`."""
        socket = await self._connected()
        self._running = asyncio.create_task(self._run(socket), name="speechlane session")

    async def send(self, audio: Audio) -> None:
        """Audio of any length: PCM16 as bytes, or samples. Waits when too much of it is not known to have arrived.

        Raises ValueError for what is no audio, `ClientError` when the session is over.
        """
        data = pcm16(audio)
        for first in range(0, len(data), 2 * self.rate):
            await self._room()
            piece = data[first : first + 2 * self.rate]
            event = {"type": "input_audio_buffer.append", "audio": base64.b64encode(piece).decode()}
            self._buffer.put(Message(json.dumps(event), len(piece) // 2))

    async def commit(self) -> None:
        """What is being said ends here. Raises `ClientError` when the session is over."""
        await self._room()
        self._buffer.put(COMMIT)

    async def finish(self) -> None:
        """There is no more audio: the iteration ends with the last words."""
        if self._finished:
            return
        await self._room()
        self._finished = True
        for message in ENDING:
            self._buffer.put(message)
        late = ClientError(f"the last words did not come within {FINISH_SECONDS:g} s")
        self._timer = asyncio.get_running_loop().call_later(FINISH_SECONDS, self._end, late)

    async def transcribe(self, source: Source) -> AsyncIterator[Event]:
        """Send all of a source, and give what is said in it. Raises `ClientError`, `SourceError`."""
        if source.rate != self.rate:
            raise ValueError(f"the source has {source.rate} Hz and the session {self.rate}")

        async def feed() -> None:
            try:
                async for block in source:
                    await self.send(block)
                await self.finish()
            except Exception as error:
                self._end(error)

        feeding = asyncio.create_task(feed(), name="speechlane source")
        try:
            async for event in self:
                yield event
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    async def __aiter__(self) -> AsyncIterator[Event]:
        """What is said, as it is said, until everything is told after `finish`. Raises `ClientError`."""
        assert self._running is not None
        while True:
            getting = asyncio.ensure_future(self._events.get())
            try:
                await asyncio.wait({getting, self._running}, return_when=asyncio.FIRST_COMPLETED)
                if not getting.done():
                    break
                yield getting.result()
            finally:
                getting.cancel()
        if self._problem is not None:
            raise self._problem

    async def close(self) -> None:
        """End it at once, whatever is still to come."""
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def _end(self, problem: Exception) -> None:
        self._problem = self._problem or problem
        if self._running is not None:
            self._running.cancel()

    async def _room(self) -> None:
        if self._finished:
            raise ClientError("no audio can follow the end of it")
        assert self._running is not None
        if self._buffer.full and not self._running.done():
            room = asyncio.ensure_future(self._buffer.room())
            try:
                await asyncio.wait({room, self._running}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                room.cancel()
        if self._running.done():
            raise self._problem or ClientError("the session is over")

    # Connections

    async def _run(self, socket: ClientConnection | None) -> None:
        loop, since, retry = asyncio.get_running_loop(), 0.0, FIRST_RETRY
        try:
            while not self._heard.complete:
                wait = 0.0
                try:
                    # Behind a load balancer, the same address may be another gateway that goes on with the session.
                    socket = socket or await self._connected()
                    try:
                        await self._talk(socket)
                    finally:
                        await socket.close()  # with 1000 in every case: who leaves is not waited for
                    return
                except ConnectionClosed as error:
                    self.breaks += 1
                    problem: ClientError = self._judged(error)
                    wait = come_again(error.rcvd.reason if error.rcvd is not None else "") * random.uniform(1.0, 1.5)
                except Unreachable as error:
                    problem = error
                except Refused as error:
                    if error.status not in MAY_PASS:
                        raise
                    problem, wait = error, error.retry_after or 0.0
                socket = None
                if self._progress:
                    self._progress, since, retry = False, loop.time(), FIRST_RETRY
                if loop.time() - since > self._patience:
                    raise problem
                log.info("connecting again: %s", problem)
                await asyncio.sleep(max(wait, retry * random.uniform(0.5, 1.0)))
                retry = min(2 * retry, LAST_RETRY)
        except ClientError as error:
            self._problem = self._problem or error

    async def _connected(self) -> ClientConnection:
        """To the session that is there, or else to a new one."""
        if self._token is not None:
            try:
                last, taken = self._last_event, self._buffer.taken_messages
                return await connected(self._url, self._key, session=self._token, last_event=last, taken=taken)
            except Refused as error:
                if error.status not in SESSION_GONE:
                    raise
                log.warning("the session is gone: %s", error)
                self._token = None
        return await connected(self._url, self._key, intent="transcription", resume=1)

    def _judged(self, error: ConnectionClosed) -> ClientError:
        """What the end of a connection was; raises it if it is one for good."""
        code, reason = (error.rcvd.code, error.rcvd.reason) if error.rcvd is not None else (1006, "")
        problem = ClientError(closed(code, reason))
        if code in FOR_GOOD:
            raise problem
        self._finalised = code in FINALISED
        return problem

    async def _talk(self, socket: ClientConnection) -> None:
        """Until all is told, or the connection ends."""
        sending: asyncio.Task[None] | None = None
        try:
            while not self._heard.complete:
                event: dict[str, Any] = json.loads(await socket.recv())
                kind = event["type"]
                if kind == "x.taken":
                    self._taken(event["events"])
                elif kind == "x.session.resumed":
                    self._taken(event["events"])
                    self._buffer.again()
                    sending = asyncio.create_task(self._send(socket))
                elif self._is_new(event):
                    if kind == "session.created":
                        await self._begun(event["session"])
                        sending = asyncio.create_task(self._send(socket))
                    if (told := self._heard.take(event)) is not None:
                        self._progress = True
                        await self._events.put(told)
        finally:
            if sending is not None:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, socket: ClientConnection) -> None:
        while True:
            message = await self._buffer.get()
            await socket.send(message.text)

    def _is_new(self, event: dict[str, Any]) -> bool:
        """Whether an event has not been heard before. The numbers of a new session begin anew."""
        if event["type"] == "session.created" and self._token is None:
            self._last_event = 0
        if "sequence" not in event:
            raise ClientError("this service keeps no sessions for clients that come back; update it")
        if event["sequence"] <= self._last_event:
            return False
        self._last_event = event["sequence"]
        return True

    def _taken(self, events: int) -> None:
        before = self._buffer.taken_samples
        self._buffer.taken(events)
        self._progress = self._progress or self._buffer.taken_samples > before

    async def _begun(self, session: dict[str, Any]) -> None:
        """A session is new: the first one, or the one after one that is gone."""
        self._token = session["resume"]["token"]
        settled = self._heard.settled
        self._buffer.restart(self._greeting, round(settled * self.rate), ENDING if self._finished else ())
        taken = self._buffer.taken_samples / self.rate
        if taken > settled and not self._finalised:
            await self._events.put(Gap(settled, taken))
        self._finalised = False
        self._heard = Heard(taken)
