"""The header of a WAV file with 16-bit mono samples."""

from __future__ import annotations

import struct

HEADER_BYTES = 44
UNKNOWN = 0xFFFFFFFF
"""Says that the file goes on until it ends: players and FFmpeg take it so, where 0 would mean that there is nothing."""


def header(rate: int, samples: int | None) -> bytes:
    """For `samples` at `rate` Hz; None, or more than the form can say (4 GiB), is the honest unknown."""
    data = riff = UNKNOWN
    if samples is not None and HEADER_BYTES + 2 * samples < UNKNOWN:
        data, riff = 2 * samples, HEADER_BYTES - 8 + 2 * samples
    shape = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    return struct.pack("<4sI4s", b"RIFF", riff, b"WAVE") + shape + struct.pack("<4sI", b"data", data)
