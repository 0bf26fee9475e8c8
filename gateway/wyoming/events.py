"""Events on the wire: a line of JSON, then as many bytes of more JSON and of payload as it says. All of it bounded."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from gateway.outbox import encode
from gateway.speak.fields import FieldInvalid, json_object
from workers.errors import InputTooLarge

MIB = 1024 * 1024
LINE_BYTES = MIB
"""The longest line; a text may stand in it."""
DATA_BYTES = MIB
PAYLOAD_BYTES = MIB
"""Of one event, half a minute of 16 kHz sound."""
SKIPPED_BYTES = 32 * MIB
"""What is too large is read and thrown away up to this, so that the connection can go on."""


class Broken(Exception):
    """What comes is no event, or so large that it is not read to its end: nobody knows where the next one begins."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of either side."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)
    payload: bytes = field(default=b"", repr=False)


async def read_event(reader: asyncio.StreamReader) -> Event | None:
    """The next event; None at the end. Raises `Broken`, and InputTooLarge or FieldInvalid for one event alone."""
    try:
        line = await reader.readline()
    except ValueError:
        raise Broken(f"A line of an event may have {LINE_BYTES} bytes.") from None
    if not line:
        return None
    try:
        header = json_object(line.decode("utf-8"))
    except (FieldInvalid, UnicodeDecodeError):
        raise Broken("An event begins with a line that is a JSON object.") from None
    kind, inline = header.get("type"), header.get("data") or {}
    sizes = [header.get(name) or 0 for name in ("data_length", "payload_length")]
    if not isinstance(kind, str) or not all(type(size) is int and size >= 0 for size in sizes):
        raise Broken("An event has a type, and lengths that are whole numbers.")
    if sum(sizes) > SKIPPED_BYTES:
        raise Broken(f"An event of more than {SKIPPED_BYTES} bytes is not read at all.")
    try:
        if sizes[0] > DATA_BYTES or sizes[1] > PAYLOAD_BYTES:
            await _skip(reader, sum(sizes))
            raise InputTooLarge(
                f"{kind[:60]} has {sizes[0]} bytes of data and {sizes[1]} of payload; send at most {DATA_BYTES} and "
                f"{PAYLOAD_BYTES} in one event.",
                param=kind[:60],
            )
        more, payload = await reader.readexactly(sizes[0]), await reader.readexactly(sizes[1])
    except asyncio.IncompleteReadError:
        raise Broken("The connection ended in the middle of an event.") from None
    try:
        data = json_object(more.decode("utf-8")) if more else {}
    except UnicodeDecodeError:
        raise FieldInvalid("The data of the event is not UTF-8.", code="invalid_json", param=kind[:60]) from None
    if not isinstance(inline, dict):
        raise FieldInvalid("The data of an event is a JSON object.", code="invalid_json", param=kind[:60])
    return Event(kind, {**inline, **data}, payload)


def encoded(event: Event) -> bytes:
    """The bytes of an event."""
    data = encode(event.data) if event.data else b""
    lengths = {"data_length": len(data), "payload_length": len(event.payload)}
    line = json.dumps({"type": event.type} | {name: length for name, length in lengths.items() if length})
    return b"".join((line.encode(), b"\n", data, event.payload))


async def _skip(reader: asyncio.StreamReader, size: int) -> None:
    while size:
        piece = await reader.readexactly(min(size, 64 * 1024))
        size -= len(piece)
