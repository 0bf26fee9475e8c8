"""Ogg pages (RFC 3533): each chunk of a stream leaves as a page of its own instead of waiting for a full one."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

BEGIN, END = 2, 4
_SEGMENTS = 255
_ONES = 0xFFFFFFFF
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class OggStream:
    """The pages of one logical stream."""

    def __init__(self, serial: int) -> None:
        self._serial = serial
        self._pages = 0

    def page(self, packets: Sequence[bytes], granule: int, flags: int = 0) -> bytes:
        """A page of whole packets; ValueError when they are more than fits. `granule`: position at its end."""
        table = b"".join(b"\xff" * (len(packet) // 255) + bytes((len(packet) % 255,)) for packet in packets)
        if len(table) > _SEGMENTS:
            raise ValueError(f"{len(packets)} packets take {len(table)} segments, and a page has {_SEGMENTS}")
        head = struct.pack("<4sBBqII", b"OggS", 0, flags, granule, self._serial, self._pages)
        self._pages += 1
        tail = bytes((len(table),)) + table + b"".join(packets)
        return head + struct.pack("<I", _checksum(head + b"\0\0\0\0" + tail)) + tail


def segments(packet: bytes) -> int:
    """How many of a page's 255 segments a packet takes."""
    return len(packet) // 255 + 1


def room(taken: int, packet: bytes) -> bool:
    """Whether a page with `taken` segments has room for the packet."""
    return taken + segments(packet) <= _SEGMENTS


def _checksum(data: bytes) -> int:
    """Ogg's CRC is that of zlib with bits the other way round, beginning with 0 and not inverted at the end."""
    reflected = zlib.crc32(data.translate(_REVERSED), _ONES) ^ _ONES
    return int(f"{reflected:032b}"[::-1], 2)
