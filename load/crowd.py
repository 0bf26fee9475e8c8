"""Thousands of realtime sessions from one process, for next to nothing each: WebSocket frames made beforehand.

A client library would cost more for a session than the service does, and so measure itself. `Caller` speaks just what
this takes of RFC 6455, and tells when a pong came back.
"""

from __future__ import annotations

import asyncio
import base64
import os
import struct
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from load.client import append, settings

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
_REQUEST = (
    "GET /v1/realtime?intent=transcription HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {nonce}\r\n{more}\r\n"
)


def frame(opcode: int, payload: bytes) -> bytes:
    """A client's frame, masked."""
    size = len(payload)
    length = (
        bytes((0x80 | size,)) if size < 126
        else struct.pack("!BH", 0xFE, size) if size < 65536
        else struct.pack("!BQ", 0xFF, size)
    )  # fmt: skip
    mask = os.urandom(4)
    key = np.frombuffer(mask * (size // 4 + 1), np.uint8)[:size]
    return bytes((0x80 | opcode,)) + length + mask + (np.frombuffer(payload, np.uint8) ^ key).tobytes()


def speech(pcm: bytes, rate: int, seconds: float) -> list[bytes]:
    """The appends of a recording, as they go out."""
    size = 2 * round(rate * seconds)
    return [frame(TEXT, append(pcm[at : at + size]).encode()) for at in range(0, len(pcm), size)]


def opening(rate: int) -> bytes:
    """What sets a session up."""
    return frame(TEXT, settings(rate, include=()).encode())


@dataclass(slots=True)
class Heard:
    """What all callers were told. `pongs`: seconds from a ping to its pong, with whether its session was speaking."""

    pongs: list[tuple[float, bool]] = field(default_factory=list)
    events: Counter[bytes] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)


class Caller(asyncio.Protocol):
    """One session. `ready` is done once it was created, with an error when it was refused; `gone` once it ended."""

    def __init__(self, host: str, key: str | None, heard: Heard) -> None:
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self.speaking = False
        self.leaving = False
        self.transport: asyncio.Transport
        self._host, self._key, self._heard = host, key, heard
        self._data = bytearray()
        self._open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        nonce = base64.b64encode(os.urandom(16)).decode()
        more = f"Authorization: Bearer {self._key}\r\n" if self._key else ""
        transport.write(_REQUEST.format(host=self._host, nonce=nonce, more=more).encode())

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(error or ConnectionError("closed before the session began"))
        if not self.leaving:
            self._heard.lost["broken"] += 1
        self.gone.set_result(None)

    def ping(self) -> None:
        """Its time is its payload."""
        self.transport.write(frame(PING, struct.pack("!d", time.monotonic())))

    def leave(self) -> None:
        """Say that it is over."""
        self.leaving = True
        self.transport.write(frame(CLOSE, struct.pack("!H", 1000)))

    def data_received(self, data: bytes) -> None:
        buffer = self._data
        buffer += data
        if not self._open:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            if not buffer.startswith(b"HTTP/1.1 101"):
                self.ready.set_exception(ConnectionError(buffer[:200].decode(errors="replace")))
                self.transport.abort()
                return
            del buffer[: end + 4]
            self._open = True
        at = 0
        while len(buffer) - at >= 2:
            size, start = buffer[at + 1], at + 2
            if size == 126:
                if len(buffer) < at + 4:
                    break
                size, start = struct.unpack_from("!H", buffer, at + 2)[0], at + 4
            elif size == 127:
                if len(buffer) < at + 10:
                    break
                size, start = struct.unpack_from("!Q", buffer, at + 2)[0], at + 10
            if len(buffer) < start + size:
                break
            self._take(buffer[at] & 15, bytes(buffer[start : start + size]))
            at = start + size
        del buffer[:at]

    def _take(self, opcode: int, payload: bytes) -> None:
        if opcode == TEXT:
            kind = payload[9 : payload.index(b'"', 9)]  # {"type":"…
            self._heard.events[kind] += 1
            if kind == b"session.created":
                self.ready.set_result(None)
        elif opcode == PONG:
            sent = struct.unpack("!d", payload)[0]
            self._heard.pongs.append((time.monotonic() - sent, self.speaking))
        elif opcode == PING:
            self.transport.write(frame(PONG, payload))
        elif opcode == CLOSE:
            if not self.leaving:
                self._heard.lost[f"closed {payload[:2].hex()} {payload[2:].decode(errors='replace')}"] += 1
            self.leaving = True
            self.transport.close()


class Crowd:
    """Callers of one service at `host`:`port`, in `callers` in the order in which they came."""

    def __init__(self, host: str, port: int, key: str | None = None) -> None:
        self.heard = Heard()
        self.callers: list[Caller] = []
        self._host, self._port, self._key = host, port, key

    def listen(self) -> Heard:
        """Count anew."""
        self.heard.pongs.clear()
        self.heard.events.clear()
        return self.heard

    async def come(self, count: int, rate: float, rate_of_sound: int) -> None:
        """`count` more, `rate` a second. Raises `ConnectionError` when one is refused."""
        loop, hello = asyncio.get_running_loop(), opening(rate_of_sound)
        begun, coming = loop.time(), []
        for number in range(count):
            if (wait := begun + number / rate - loop.time()) > 0:
                await asyncio.sleep(wait)
            coming.append(asyncio.create_task(self._one(hello)))
        self.callers += await asyncio.gather(*coming)

    async def _one(self, hello: bytes) -> Caller:
        loop = asyncio.get_running_loop()
        _, caller = await loop.create_connection(
            lambda: Caller(f"{self._host}:{self._port}", self._key, self.heard), self._host, self._port
        )
        async with asyncio.timeout(60):
            await caller.ready
        caller.transport.write(hello)
        return caller

    async def ping(self, each_second: float) -> None:
        """One caller after another, until cancelled."""
        while True:
            for caller in self.callers[:: 1 + len(self.callers) // 97]:  # of those that came early and late
                if not caller.leaving:
                    caller.ping()
                await asyncio.sleep(1 / each_second)

    async def leave(self) -> None:
        """Everybody, and wait until the connections are gone."""
        for caller in self.callers:
            caller.leave()
        await asyncio.wait([caller.gone for caller in self.callers], timeout=30)
        self.callers.clear()


async def speak(callers: list[Caller], sounds: list[list[bytes]], seconds: float) -> None:
    """Each of `callers` sends a recording over and over, a frame every `seconds`, until cancelled; one after another,
    evenly over the time of a frame.
    """
    count = len(callers)
    begun = time.monotonic()
    for caller in callers:
        caller.speaking = True
    number = 0
    while True:
        if (wait := begun + number * seconds / count - time.monotonic()) > 0:
            await asyncio.sleep(max(wait, 0.002))  # a few at a time, so that waking up costs little
            continue
        turn, which = divmod(number, count)
        caller = callers[which]
        if not caller.leaving:
            sound = sounds[which % len(sounds)]
            caller.transport.write(sound[(turn + 7 * which) % len(sound)])
        number += 1
