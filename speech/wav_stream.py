"""A WAV that arrives as a stream. FFmpeg's demuxer wants 64 KiB before its first sample (two seconds at 16 kHz), so the
plain encodings are read here, from the header to the raw decoder; the rarer ones are left to FFmpeg.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from speech.audio import MAX_CHANNELS, MAX_RATE, MIN_RATE, AudioFormat, Encoding

MAX_HEADER = 64 << 10
"""Bytes before the samples (tags) that are looked through."""

_ENCODINGS: dict[tuple[int, int], Encoding] = {(1, 16): "pcm16", (3, 32): "float32", (6, 8): "alaw", (7, 8): "mulaw"}
_EXTENSIBLE = 0xFFFE
_UNKNOWN_SIZE = 0x7FFF_0000  # writers that cannot go back leave 0 or the greatest number


@dataclass(frozen=True, slots=True)
class WavHeader:
    """Where the samples are: `start` and `length` in bytes (None: to the end). No `format`: not for the raw decoder."""

    format: AudioFormat | None
    start: int
    length: int | None


def wav_header(head: bytes) -> WavHeader | None:
    """Read the header from the first bytes of a RIFF WAVE stream; None when more bytes are needed."""
    leave_it = WavHeader(None, 0, None)
    if not head.startswith(b"RIFF"):
        return leave_it
    at, format_ = 12, None
    while at + 8 <= min(len(head), MAX_HEADER):
        kind, size = head[at : at + 4], int.from_bytes(head[at + 4 : at + 8], "little")
        if kind == b"data":
            length = None if size == 0 or size >= _UNKNOWN_SIZE else size
            return WavHeader(format_, at + 8, length) if format_ else leave_it
        if kind == b"fmt ":
            if len(head) < at + 8 + min(size, 40):
                return None
            format_ = _format(head[at + 8 : at + 8 + min(size, 40)])
            if format_ is None:
                return leave_it
        at += 8 + size + size % 2
    return None if at + 8 <= MAX_HEADER else leave_it


def _format(chunk: bytes) -> AudioFormat | None:
    if len(chunk) < 16:
        return None
    tag, channels, rate, _, frame_bytes, bits = struct.unpack_from("<HHIIHH", chunk)
    if tag == _EXTENSIBLE and len(chunk) >= 26:
        tag = int.from_bytes(chunk[24:26], "little")
    encoding = _ENCODINGS.get((tag, bits))
    if encoding is None or not (MIN_RATE <= rate <= MAX_RATE and 1 <= channels <= MAX_CHANNELS):
        return None
    format_ = AudioFormat(encoding, rate, channels)
    return format_ if format_.frame_bytes == frame_bytes else None
