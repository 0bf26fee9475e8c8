"""One short visit to a service in each of its protocols, byte by byte, and every way to leave it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import socket
import ssl
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from load.crowd import CLOSE, TEXT, frame, opening, speech

BINARY = 2
WAYS = ("close", "end", "reset", "half closed", "silent")
"""With a close frame; by an end of the stream; by a TCP reset; by an end of one's own side while still reading; and by
saying nothing any more, with the socket left open until the service closes it."""


@dataclass(frozen=True)
class Visit:
    """What is sent on a connection. `path` None: no HTTP. `head` cut short when `whole` is false: it never ends."""

    name: str
    path: str | None
    said: Sequence[bytes] = ()
    whole: bool = True
    port: int | None = None
    encrypted: bool = True
    """Where the service speaks TLS; False sends plain bytes to it all the same."""


def _wyoming(kind: str, data: object = None, payload: bytes = b"") -> bytes:
    line = {"type": kind, **({"data": data} if data else {}), **({"payload_length": len(payload)} if payload else {})}
    return json.dumps(line).encode() + b"\n" + payload


def visits(pcm: bytes, wyoming: int | None) -> list[Visit]:
    """Every protocol; `pcm` are some seconds of speech (16 kHz, 16 bit)."""
    pieces = [pcm[at : at + 3200] for at in range(0, len(pcm), 3200)]
    sound = [frame(BINARY, piece) for piece in pieces]
    spoken = [opening(16_000), *speech(pcm, 16_000, 0.1)]
    texts = ({"type": "create", "context": "a"}, {"type": "text", "context": "a", "text": "Some words that are said. "})
    eleven = ({"text": " "}, {"text": "Some words that are said. "}, {"text": "And some more, quite a few. "})
    form = {"format": {"type": "audio/pcm", "rate": 24000}}
    talk = {"type": "session.update", "session": {"type": "realtime", "audio": {"input": form}}}
    talking = [frame(TEXT, json.dumps(talk).encode()), *spoken[1:]]
    found = [
        Visit("realtime", "/v1/realtime?intent=transcription", spoken),
        Visit("realtime, resumable", "/v1/realtime?intent=transcription&resume=1", spoken),
        Visit("conversation", "/v1/realtime?intent=conversation", talking),
        Visit("deepgram", "/v1/listen?encoding=linear16&sample_rate=16000", sound),
        Visit("vosk", "/vosk", sound),
        Visit("speak", "/v1/speak", [frame(TEXT, json.dumps(text).encode()) for text in texts]),
        Visit(
            "elevenlabs",
            "/v1/text-to-speech/heart/stream-input",
            [frame(TEXT, json.dumps(text).encode()) for text in eleven],
        ),
        Visit("half a head", "/v1/realtime", whole=False),
        Visit("no HTTP", None, [b"\x16\x03\x01\x02\x00\x01"], encrypted=False),
    ]
    if wyoming is not None:
        format = {"rate": 16000, "width": 2, "channels": 1}
        said = [_wyoming("transcribe"), _wyoming("audio-start", format)]
        said += [_wyoming("audio-chunk", format, piece) for piece in pieces]
        found.append(Visit("wyoming", None, said, port=wyoming, encrypted=False))
        found.append(Visit("half an event", None, [b'{"type": "descr'], port=wyoming, encrypted=False))
    return found


class Full(Exception):
    """The service has no place now."""


async def come(visit: Visit, host: str, port: int, tls: ssl.SSLContext | None, chance: random.Random) -> Guest:
    """Connect, and say as much of it as chance will have. Raises `Full`, OSError."""
    reader, writer = await asyncio.open_connection(
        host, visit.port or port, ssl=tls if visit.encrypted and visit.port is None else None
    )
    guest = Guest(visit, reader, writer)
    # The service may find out first that something is wrong; that is its right.
    with suppress(OSError):
        if visit.path is not None:
            nonce = base64.b64encode(os.urandom(16)).decode()
            head = (
                f"GET {visit.path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {nonce}\r\n\r\n"
            ).encode()
            if not visit.whole:
                writer.write(head[: chance.randrange(len(head) - 4)])
                return guest
            writer.write(head)
            async with asyncio.timeout(30):
                answer = await reader.readuntil(b"\r\n\r\n")
            if b" 503 " in answer.splitlines()[0]:
                guest.abort()
                raise Full
            if b" 101 " not in answer.splitlines()[0]:
                raise RuntimeError(f"{visit.name}: {answer.splitlines()[0].decode()}")
        for data in visit.said[: chance.randint(0, len(visit.said))]:
            writer.write(data)
        if chance.random() < 0.5:
            await asyncio.sleep(chance.uniform(0, 0.2))
    return guest


@dataclass
class Guest:
    """A connection that is open."""

    visit: Visit
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def abort(self) -> None:
        """Break it by a TCP reset: nothing that is under way arrives any more."""
        transport = self.writer.transport
        if not transport.is_closing():
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()

    async def leave(self, way: str) -> None:
        """One of `WAYS`, but for "silent"."""
        with suppress(OSError):
            if way == "reset":
                self.abort()
            elif way == "close" and self.visit.path is not None and self.visit.whole:
                self.writer.write(frame(CLOSE, struct.pack("!H", 1000)))
                await self.heard()
            elif way == "half closed" and self.writer.can_write_eof():
                self.writer.write_eof()
                await self.heard()
        self.writer.close()
        with suppress(OSError):
            async with asyncio.timeout(5):
                await self.writer.wait_closed()

    async def heard(self, seconds: float = 10.0) -> None:
        """Read on until the service ends it. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while await self.reader.read(65536):
                pass
