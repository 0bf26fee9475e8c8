"""Which container a client sent, told by its first bytes: FFmpeg's own guessing would also try playlists and others
that open further files, so only the demuxers named here are ever started, on an object that can only be read.
"""

from __future__ import annotations

from workers.errors import InputInvalid

SUPPORTED = "Ogg, WebM, MP3, AAC, FLAC, WAV or M4A"

HEAD_BYTES = 12
"""Bytes that `demuxer` needs to decide."""


def demuxer(head: bytes, param: str) -> str:
    """FFmpeg's name of the demuxer for data beginning with `head`; InputInvalid(param) when it is none we take."""
    if head.startswith(b"OggS"):
        return "ogg"
    if head.startswith(b"\x1a\x45\xdf\xa3"):
        return "matroska"
    if head.startswith(b"fLaC"):
        return "flac"
    if head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE":
        return "wav"
    if head[4:8] == b"ftyp":
        return "mov"
    if len(head) >= 2 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0:  # ADTS: a sync word and layer 0
        return "aac"
    if head.startswith(b"ID3") or (len(head) >= 3 and _mpeg_audio_header(head)):
        return "mp3"
    raise InputInvalid(f"{param} is not a sound file we know; send {SUPPORTED}", param=param)


def _mpeg_audio_header(head: bytes) -> bool:
    """A frame header of MPEG audio layer III with a valid version, bit rate and sample rate."""
    sync, layer_iii = head[0] == 0xFF and head[1] & 0xE0 == 0xE0, head[1] & 0x06 == 0x02
    version, bit_rate, rate = head[1] >> 3 & 3, head[2] >> 4, head[2] >> 2 & 3
    return sync and layer_iii and version != 1 and 0 < bit_rate < 15 and rate != 3


class Mp4Order:
    """Watches the top-level boxes of an MP4 that arrives as a stream: its index (moov) must come before its sound."""

    def __init__(self, param: str) -> None:
        self._param = param
        self._head = b""
        self._skip = 0
        self._decided = False

    def feed(self, data: bytes) -> None:
        """Look at the next bytes. InputInvalid when the sound (mdat) comes first."""
        at = 0
        while at < len(data) and not self._decided:
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            need = 16 if self._head[:4] == b"\x00\x00\x00\x01" else 8
            taken = data[at : at + need - len(self._head)]
            self._head += taken
            at += len(taken)
            if len(self._head) == 8 and self._head[:4] == b"\x00\x00\x00\x01":
                continue  # a 64-bit size follows
            if len(self._head) >= 8:
                self._box()

    def _box(self) -> None:
        kind, size = self._head[4:8], int.from_bytes(self._head[:4], "big")
        if size == 1:
            size = int.from_bytes(self._head[8:16], "big")
        if kind == b"mdat":
            raise InputInvalid(
                f"{self._param} is an M4A with its index (moov) at the end, which cannot be decoded as a stream;"
                " send it as a file, or write it fragmented or with the index first (ffmpeg -movflags +faststart)",
                param=self._param,
            )
        self._decided = kind == b"moov" or size < len(self._head)  # a size of nonsense is FFmpeg's to refuse
        self._skip, self._head = size - len(self._head), b""
