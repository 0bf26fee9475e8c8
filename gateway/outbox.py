"""Messages that wait to be sent: bounded, with what may be merged merged, so that a slow reader costs no memory."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Control:
    """A frame as it goes out."""

    opcode: WSMsgType
    payload: bytes = b""


class Outbox:
    """At most `messages` entries and `size` bytes. Every put says whether it fitted; what did not fit is not kept.

    Once `release()`d nobody waits any more and nothing more is taken, because nobody sends.
    """

    def __init__(self, messages: int, size: int) -> None:
        self._messages = messages
        self._limit = size
        self._entries: OrderedDict[object, tuple[Control | Message, int]] = OrderedDict()
        self._size = 0
        self._serial = 0
        self._sending = False
        self._released = False
        self._filled = asyncio.Event()
        self._moved = asyncio.Event()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, event: Message) -> bool:
        """Add a message at the end. It is encoded now, so that its size is known."""
        frame = Control(WSMsgType.TEXT, encode(event))
        self._serial += 1
        return self._add(self._serial, frame, len(frame.payload))

    def put_bytes(self, data: bytes, opcode: WSMsgType = WSMsgType.BINARY) -> bool:
        """Add a frame at the end, as it goes out."""
        self._serial += 1
        return self._add(self._serial, Control(opcode, data), len(data))

    def put_text(self, key: object, event: Message, field: str) -> bool:
        """Continue the text in `field` of the unsent message of this key, or add the message at the end."""
        waiting = self._entries.get(key)
        if waiting is None or self._released:
            return self._add(key, event, len(event[field]))
        before, size = waiting
        assert not isinstance(before, Control)
        grown = len(event[field])
        if self._size + grown > self._limit:
            return False
        self._entries[key] = ({**event, field: before[field] + event[field]}, size + grown)
        self._size += grown
        return True

    def put_latest(self, key: object, event: Message | Control) -> bool:
        """Add a message at the end, instead of the unsent one of this key."""
        if (waiting := self._entries.pop(key, None)) is not None:
            self._size -= waiting[1]
        size = len(event.payload) if isinstance(event, Control) else len(encode(event))
        return self._add(key, event, size)

    async def get(self) -> Control:
        """The next frame; it counts as on its way until `sent()`."""
        while not self._entries:
            self._filled.clear()
            await self._filled.wait()
        _, (event, size) = self._entries.popitem(last=False)
        self._size -= size
        self._sending = True
        return event if isinstance(event, Control) else Control(WSMsgType.TEXT, encode(event))

    def sent(self) -> None:
        """The frame that `get` gave has been taken by the network."""
        self._sending = False
        self._moved.set()

    async def room(self) -> None:
        """Wait until at most half of the places are taken: requests wait so that their answers find one."""
        await self._until(lambda: len(self._entries) <= self._messages // 2 and self._size <= self._limit // 2)

    async def flushed(self) -> None:
        """Wait until everything has been sent."""
        await self._until(lambda: not self._entries and not self._sending)

    def release(self) -> None:
        """Let nobody wait for a sender that has ended."""
        self._released = True
        self._moved.set()

    def _add(self, key: object, entry: Control | Message, size: int) -> bool:
        if self._released:
            return True
        if len(self._entries) >= self._messages or self._size + size > self._limit:
            return False
        self._entries[key] = (entry, size)
        self._size += size
        self._filled.set()
        return True

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not (self._released or condition()):
            self._moved.clear()
            await self._moved.wait()


def encode(event: Message) -> bytes:
    """One message as compact UTF-8 JSON. Half of a surrogate pair, which UTF-8 cannot say, becomes a question mark."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
