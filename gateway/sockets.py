"""The life of one WebSocket, whatever protocol runs on it: who is alive, who reads, when it ends, how it is closed.

A protocol iterates `Connection.frames()` and calls `send`, `send_text` or `send_latest`; everything that can make a
connection end (the peer, its silence, its slowness, the session's length, the service going down) arrives as `ending`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from aiohttp import WSMessage, WSMsgType, web

from gateway.keys.budget import audio_allowed
from gateway.outbox import Control, Message, Outbox
from gateway.telemetry.sessions import SESSION

if TYPE_CHECKING:
    from gateway.settings import Settings

MIB = 1024 * 1024
SEND_BUFFER = 256 * 1024
TURN = 32
"""Frames after which the other connections get their turn: reading does not wait while a flood of them is buffered."""
FAREWELLS = (None, 0, 1000, 1001)
"""Close codes, or none, by which a client says that it is done; others tell of a fault on the way."""
RETRY_SECONDS = 5
"""After which a client may connect to what comes after a service that shuts down."""
REASON_BYTES = 123
"""What fits into a close frame beside its code (RFC 6455, 5.5)."""

log = logging.getLogger("speechlane.sockets")


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """What one connection may take. Sizes in bytes, times in seconds."""

    max_message_bytes: int = 24 * MIB
    """A larger message closes the connection with 1009; it leaves room to answer an append that is too large."""
    max_append_bytes: int = 15 * MIB
    """Base64 characters of one append; a larger one is answered with an error."""
    session_seconds: float = 1800.0
    """Announced as expires_at; then the open utterance is finalised and the connection closed with 1001."""
    idle_seconds: float = 600.0
    """Without any message for so long, the open utterance is finalised and the connection closed with 1000."""
    heartbeat_seconds: float = 20.0
    """After so long without a frame the peer is asked for one; two unanswered questions mean that it is gone."""
    send_seconds: float = 10.0
    """A peer that takes nothing for so long is not reading: it is closed with 1008 and its state is freed."""
    finish_seconds: float = 15.0
    """What the last final may take when the session ends before its client does."""
    drain_seconds: float = 10.0
    """When the service goes down, what is being said gets so long to come to its end."""
    queue_messages: int = 512
    queue_bytes: int = 4 * MIB
    """Unsent messages, after merging; one more than either closes the connection with 1008."""


LIMITS = web.AppKey("socket_limits", SocketLimits)
"""Overrides the default limits of an application."""


class Close(IntEnum):
    """Close codes and what they mean to a client. 1001, 1011, 1012 and 1013 make OpenAI's clients reconnect."""

    NORMAL = 1000
    EXPIRED = 1001
    LOST = 1006
    SLOW_READER = 1008
    FAILED = 1011
    DRAINING = 1012
    OVERLOADED = 1013
    TAKEN_OVER = 4103
    """The session goes on on another connection of its client."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a connection ends. `code` LOST means that there is no peer any more to say it to."""

    code: Close
    reason: str
    left: bool = False
    """The client has said that it goes, where else its connection is lost."""

    @property
    def finalise(self) -> bool:
        """Whether the client is still there to read what its open utterance says."""
        return self.code in (Close.NORMAL, Close.EXPIRED, Close.DRAINING)


class Connection:
    """One accepted WebSocket. `open()` it, iterate `frames()`, then `close()` it in every case."""

    def __init__(self, ws: web.WebSocketResponse, request: web.Request, limits: SocketLimits) -> None:
        self.ws = ws
        self.limits = limits
        self.ending: Ending | None = None
        self.before_drain: Callable[[], Awaitable[object]] | None = None
        """When the service goes down, the connection ends after this, or after `drain_seconds`."""
        self._transport = request.transport
        self._outbox = Outbox(limits.queue_messages, limits.queue_bytes)
        self._loop = asyncio.get_running_loop()
        self._receiving: asyncio.Timeout | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._idle_until = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    def ended(self) -> bool:
        """Whether something has made the connection end; who works long for it should look in between."""
        return self._stopped() or (self._transport is not None and self._transport.is_closing())

    def open(self, draining: asyncio.Event, seconds: float | None = None) -> None:
        """Begin to send, and to count the session's time; when `draining` is set the connection ends with 1012.

        `seconds` are what the session has left; None: all of `session_seconds`.
        """
        longest = "the session has reached its longest duration"
        left = self.limits.session_seconds if seconds is None else seconds
        self._expiry = self._loop.call_later(left, self.stop, Close.EXPIRED, longest)
        bound_send_buffer(self._transport)
        self._tasks = [
            self._loop.create_task(self._send_all(), name="socket sender"),
            self._loop.create_task(self._await_drain(draining), name="socket drain"),
        ]

    def send(self, event: Message) -> None:
        """Queue a message that must arrive."""
        self._check(self._outbox.put(event))

    def send_bytes(self, data: bytes) -> None:
        """Queue a binary frame that must arrive."""
        self._check(self._outbox.put_bytes(data))

    def send_encoded(self, data: bytes, key: object = None) -> None:
        """Queue a message that is JSON already; with a key as `send_latest` does, else as `send` does."""
        if key is None:
            self._check(self._outbox.put_bytes(data, WSMsgType.TEXT))
        else:
            self._check(self._outbox.put_latest(key, Control(WSMsgType.TEXT, data)))

    async def room(self) -> None:
        """Wait until at most half of what may wait does: who sends as much as there is asks before each message."""
        await self._outbox.room()

    async def flushed(self) -> None:
        """Wait until everything queued has left."""
        await self._outbox.flushed()

    def touch(self) -> None:
        """The connection is in use though its client says nothing: its idle time begins anew."""
        self._idle_until = self._loop.time() + self.limits.idle_seconds

    def send_text(self, key: object, event: Message, field: str) -> None:
        """Queue text that only grows: it joins the unsent message of the same key, whose `field` it continues."""
        self._check(self._outbox.put_text(key, event, field))

    def send_latest(self, key: object, event: Message) -> None:
        """Queue a state of which only the newest counts: it takes the place of an unsent one of the same key."""
        self._check(self._outbox.put_latest(key, event))

    def stop(self, code: Close, reason: str, *, left: bool = False) -> None:
        """End the connection: `frames()` ends once the frame at hand is dealt with. The first reason counts."""
        if self.ending is not None:
            return
        self.ending = Ending(code, reason, left)
        if code in (Close.SLOW_READER, Close.LOST):
            self._outbox.release()
        if self._receiving is not None and not self._receiving.expired():
            self._receiving.reschedule(self._loop.time())

    async def frames(self) -> AsyncIterator[WSMessage]:
        """Text and binary frames in order, until the connection ends; `ending` then says why.

        A caller that takes long over a frame holds back the peer: nothing is read in the meantime, and it is not held
        against the peer that nothing was heard of it.
        """
        limits, now = self.limits, self._loop.time
        heard, unanswered, frames = now(), 0, 0
        self.touch()
        while not self._stopped():
            try:
                async with asyncio.timeout_at(min(heard + limits.heartbeat_seconds, self._idle_until)) as wait:
                    self._receiving = wait
                    message: WSMessage = await self.ws.receive()
            except TimeoutError:
                if self._stopped():
                    break
                heard = now()
                if heard >= self._idle_until:
                    self.stop(Close.NORMAL, f"nothing was sent for {limits.idle_seconds:g} s")
                elif unanswered == 2:
                    self.stop(Close.LOST, "the peer does not answer pings")
                else:
                    unanswered += 1
                    self._outbox.put_latest("ping", Control(WSMsgType.PING))
                continue
            finally:
                self._receiving = None
            heard, unanswered = now(), 0
            if message.type is WSMsgType.PING:
                self._outbox.put_latest("pong", Control(WSMsgType.PONG, message.data))
            elif message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                yield message
                await self._outbox.room()
                await audio_allowed(self.ended)
                frames += 1
                if not frames % TURN:
                    await asyncio.sleep(0)
                heard = now()
                self.touch()
            elif message.type is WSMsgType.CLOSE:
                self.stop(Close.LOST, "the client has closed the connection", left=message.data in FAREWELLS)
            elif message.type is not WSMsgType.PONG:
                self.stop(Close.LOST, "the connection broke")

    async def close(self) -> None:
        """Send what is queued, close with the code of `ending`, and free the socket within a bounded time."""
        ending = self.ending or Ending(Close.NORMAL, "")
        if (session := SESSION.get()) is not None and ending.code is not Close.TAKEN_OVER:
            session.ends(ending.code.name.lower(), ending.reason, left=ending.left)
        try:
            if ending.code is not Close.LOST and not self.ws.closed:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.limits.send_seconds):
                        if ending.code is not Close.SLOW_READER:
                            await self._outbox.flushed()
                        await self.ws.close(code=ending.code, message=_fitting(ending.reason))
        finally:
            if self._expiry is not None:
                self._expiry.cancel()
            for task in self._tasks:
                task.cancel()
            # A socket with bytes that nobody takes would otherwise stay open until the network stack gives up on it.
            if self._transport is not None and (
                ending.code in (Close.LOST, Close.SLOW_READER) or self._transport.get_write_buffer_size()
            ):
                self._transport.abort()

    def _stopped(self) -> bool:
        return self.ending is not None

    def _check(self, fits: bool) -> None:
        if not fits:
            self.stop(Close.SLOW_READER, "the client does not read what it is sent")

    async def _send_all(self) -> None:
        try:
            while True:
                control = await self._outbox.get()
                async with asyncio.timeout(self.limits.send_seconds):
                    await self.ws.send_frame(control.payload, control.opcode)
                self._outbox.sent()
        except TimeoutError:
            self.stop(Close.SLOW_READER, "the client does not read what it is sent")
        except (ConnectionError, RuntimeError) as error:  # aiohttp's answers to a transport that has closed
            log.debug("send failed: %s", error)
            self.stop(Close.LOST, "the connection broke")
        finally:
            self._outbox.release()

    async def _await_drain(self, draining: asyncio.Event) -> None:
        await draining.wait()
        if self.before_drain is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.drain_seconds):
                    await self.before_drain()
        self.stop(Close.DRAINING, f"the service is shutting down; try again in {RETRY_SECONDS} s")


def limits_of(app: web.Application, settings: Settings, **own: Any) -> SocketLimits:
    """What a connection may take: as the settings and a protocol's `own` say, or the application's limits if it has."""
    return app.get(LIMITS) or SocketLimits(
        session_seconds=settings.session_seconds,
        # One half is for the end of what is being said, the other for its words.
        drain_seconds=settings.drain_seconds / 2,
        **own,
    )


def bound_send_buffer(transport: asyncio.Transport | None) -> None:
    """The system would grow this to megabytes for a client that does not read, and we would not notice it."""
    if transport is not None and not transport.is_closing():
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)


def _fitting(reason: str) -> bytes:
    return reason.encode()[:REASON_BYTES].decode(errors="ignore").encode()
