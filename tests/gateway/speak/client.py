"""A client of /v1/speak that keeps all that it is sent, context by context."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect

Event = dict[str, Any]


@dataclass
class Heard:
    """What came of one context, in order: events, and sound as ("sound", position, bytes)."""

    events: list[Event] = field(default_factory=list)
    sound: bytes = b""
    frames: list[tuple[int, int]] = field(default_factory=list)
    """Positions, and how many words had come before each."""
    words: list[Event] = field(default_factory=list)

    def samples(self, kind: str = "<i2") -> NDArray[Any]:
        return np.frombuffer(self.sound, kind)


class Client:
    """One socket. `until` reads on; everything is kept in `heard`, by context."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.heard: dict[str, Heard] = {}
        self._names: dict[int, str] = {}

    async def send(self, kind: str, context: str | None = "a", **fields: Any) -> None:
        named = {} if context is None else {"context": context}
        await self.socket.send(json.dumps({"type": kind, **named, **fields}))

    async def next(self, seconds: float = 20.0) -> Event:
        """The next message; sound as an event of type "sound"."""
        message = await asyncio.wait_for(self.socket.recv(), seconds)
        if isinstance(message, bytes):
            kind, number, position = struct.unpack_from("<IIQ", message)
            assert kind == 1
            return self._sound(self._names[number], position, message[16:])
        event: Event = json.loads(message)
        if event["type"] == "created":
            self._names[event["number"]] = event["context"]
            self.heard[event["context"]] = Heard()
        if event["type"] == "audio":
            return self._sound(event["context"], event["position"], base64.b64decode(event["audio"], validate=True))
        if event["type"] != "error" and event.get("context") in self.heard:
            heard = self.heard[event["context"]]
            heard.events.append(event)
            heard.words += event.get("words", [])
        return event

    def _sound(self, context: str, position: int, data: bytes) -> Event:
        heard = self.heard[context]
        heard.frames.append((position, len(heard.words)))
        heard.sound += data
        return {"type": "sound", "context": context, "position": position, "data": data}

    async def until(self, kind: str, context: str | None = None, seconds: float = 20.0) -> Event:
        """Read on until a message of this type, which nothing but words and sound may come before."""
        while True:
            event = await self.next(seconds)
            if event["type"] == kind and context in (None, event.get("context")):
                return event
            assert event["type"] not in ("error", "failed"), event

    async def say(self, text: str, context: str = "a", **fields: Any) -> Heard:
        """A whole context: create, text, end, done."""
        await self.send("create", context, **fields)
        await self.until("created", context)
        await self.send("text", context, text=text, end=True)
        await self.until("done", context)
        return self.heard[context]


@asynccontextmanager
async def speaking(url: str, **more: Any) -> AsyncIterator[Client]:
    """A client that has been welcomed."""
    async with connect(url, proxy=None, max_size=None, **more) as socket:
        client = Client(socket)
        ready = await client.next()
        assert ready["type"] == "ready"
        assert ready["voices"]
        yield client
