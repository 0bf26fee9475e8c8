"""Server-sent events from a stream of bytes, bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator

LONGEST = 1024 * 1024
"""Bytes of one event."""


class EventTooLong(ValueError):
    """An event has more bytes than are kept."""


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The data of each event, however the bytes were cut. Raises `EventTooLong`.

    Names and ids of events are not looked at. An event that the end of the stream cuts off is dropped, as the
    specification has it.
    """
    pending, data, size = bytearray(), list[bytes](), 0
    async for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        for end in lines:
            line = bytes(pending + end).removesuffix(b"\r")
            pending.clear()
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
                size += len(line)
                _check(size)
            elif not line and data:
                yield b"\n".join(data).decode("utf-8", "replace")
                data, size = [], 0
        pending += rest
        _check(len(pending) + size)


def _check(size: int) -> None:
    if size > LONGEST:
        raise EventTooLong(f"an event of more than {LONGEST} bytes")
