"""Opening a stranger's file of any kind: which track holds the sound, and how long the file says that it is.

FFmpeg guesses the kind from the bytes alone (never from a name) and may read the one object it is given. Only sound is
decoded: the decoders of pictures, where most of FFmpeg's holes were found, are never opened.
"""

from __future__ import annotations

import io
import struct
from functools import cache
from typing import BinaryIO

import av
from av.container import InputContainer
from av.error import FFmpegError
from av.stream import Discard

from speech.audio import MAX_CHANNELS
from speech.container_decode import MAX_RATE, ReadOnly, refuse_to_open, room_for_index
from workers.errors import InputInvalid

LEAST_RATE = 4_000
"""Hz; below it there is no speech that can be understood."""
_BUFFER = 256 << 10
_OPENERS = {
    *("hls", "dash", "concat", "imf", "image2", "sdp", "rtsp", "rtp", "sap", "webm_dash_manifest", "vobsub"),
    *("lavfi", "alsa", "oss", "fbdev", "kmsgrab", "x11grab", "video4linux2", "v4l2", "rawvideo", "ffmetadata", "tty"),
}
"""Demuxers of playlists, addresses and devices: what they would open is refused anyway."""
_ESTIMATED = {"mp3", "mp2", "aac", "ac3", "eac3", "dts", "dtshd", "loas", "truehd", "mlp", "amr", "amrnb", "amrwb"}
"""Bare frames without a header of the file: their length is FFmpeg's guess from the bit rate."""
_PLAIN_WAV = (1, 3, 6, 7, 0xFFFE)
"""Integers, floats, A-law, mu-law, and the form that adds a channel layout to one of these."""
_SOUNDLESS_BOXES = (b"moov", b"mfra", b"free", b"skip", b"wide", b"udta", b"meta", b"uuid", b"sidx", b"styp")
_MOST_CHUNKS = 100
_STREAMED_WAV = 0x7FFF_0000
"""Bytes; a WAV that claims so many was written to a pipe, by a program that could not know."""


class Source:
    """An open file and its first track with sound. `claimed` (seconds) is its length if the file states it."""

    def __init__(self, file: BinaryIO) -> None:
        """Blocks. Raises InputInvalid(param="file") when it is empty, no recording, or one without sound."""
        data = ReadOnly(file)
        if not data.read(1):
            raise InputInvalid("the file is empty (0 bytes); send a recording", param="file")
        data.seek(0)
        self._data = data
        self.container = _open(data)
        try:
            self.track = _track(self.container)
            self.codec = self.track.codec_context.name
            self.alone = len(self.container.streams) == 1
            self.claimed = _claimed(self.container, self.track, data)
            kind = self.container.format.name
            self.pauses = kind.startswith("matroska")
            """Its sound may pause in silence without being damaged."""
            self.flags_loss = kind == "mpegts"
            """Packets marked as corrupt are so; elsewhere the mark only means that the file's last one is short."""
        except BaseException:
            self.container.close()
            raise

    @property
    def start(self) -> float | None:
        """The time stamp (seconds) at which the file's clock starts; None: at the first sound."""
        start = self.container.start_time
        return None if start is None else start / av.time_base

    def unread(self, read: int, damaged: bool) -> float:
        """How much of a file of sound alone lies behind byte `read`, as a share of what lies before it.

        Without damage that is what writers add behind the sound (tags, an index), but in an MP4 it may be fragments
        that FFmpeg did not find.
        """
        if not self.alone or not read:
            return 0.0
        size = self.container.size
        if self.container.format.name.startswith("mov"):
            return max(size - self._behind_boxes(read), 0) / read
        return max(size - read, 0) / read if damaged else 0.0

    def _behind_boxes(self, at: int) -> int:
        """The byte behind the boxes of an MP4 that follow each other from byte `at` on and hold no sound."""
        here = self._data.tell()
        try:
            for _ in range(_MOST_CHUNKS):
                self._data.seek(at)
                head = _read(self._data, 16)
                size = int.from_bytes(head[:4], "big")
                size = int.from_bytes(head[8:], "big") if size == 1 else size
                if head[4:8] not in _SOUNDLESS_BOXES or size < 8:
                    break
                at += size
            return at
        finally:
            self._data.seek(here)


def check(rate: int, channels: int) -> None:
    """Raises InputInvalid for what cannot be resampled or mixed."""
    if not LEAST_RATE <= rate <= MAX_RATE:
        raise InputInvalid(f"the sound has {rate} samples a second; send {LEAST_RATE} to {MAX_RATE}", param="file")
    if not 1 <= channels <= MAX_CHANNELS:
        raise InputInvalid(f"the sound has {channels} channels; send 1 to {MAX_CHANNELS}", param="file")


def _open(data: ReadOnly) -> InputContainer:
    options = {
        "format_whitelist": _formats(),
        "codec_whitelist": _codecs(),
        "protocol_whitelist": "none",
    }
    size = data.seek(0, io.SEEK_END)
    data.seek(0)
    try:
        with room_for_index(size):
            return av.open(
                data,
                "r",
                container_options=options,
                metadata_errors="replace",
                io_open=refuse_to_open,
                buffer_size=_BUFFER,
            )
    except (FFmpegError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputInvalid(
            f"the file is no recording that can be read, or its beginning or index is lost ({why});"
            " send a sound or video file that plays",
            param="file",
        ) from error


def _track(container: InputContainer) -> av.AudioStream:
    kind = container.format.long_name or container.format.name
    if not container.streams.audio:
        raise InputInvalid(f"the file ({kind}) has no sound track; send a recording with sound", param="file")
    track = container.streams.audio[0]
    codec: av.AudioCodecContext | None = track.codec_context  # None when FFmpeg knows no decoder
    if codec is None:
        raise InputInvalid(f"the sound in the file ({kind}) is coded in a way that is not known here", param="file")
    codec.thread_count = 1
    if codec.name == "flac":
        codec.options = {"err_detect": "crccheck+explode"}  # a frame whose checksum is wrong would be a burst of noise
    for stream in container.streams:
        if stream.index != track.index:
            stream.discard = Discard.all
    return track


def _claimed(container: InputContainer, track: av.AudioStream, data: ReadOnly) -> float | None:
    kind = container.format.name
    if kind == "mp3":
        return _mp3_length(data, track)
    if kind in _ESTIMATED:
        return None
    if track.duration is not None and track.time_base is not None:
        seconds = float(track.duration * track.time_base)
    elif container.duration is not None and len(container.streams) == 1:
        seconds = container.duration / av.time_base
    else:
        return _tagged(track)
    if kind == "wav":
        return _wav_length(data, seconds)
    return seconds if seconds > 0 else None


def _tagged(track: av.AudioStream) -> float | None:
    """Matroska's own length of a track, when its writer gave one."""
    try:
        hours, minutes, seconds = track.metadata.get("DURATION", "").split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    except ValueError:
        return None


def _read(data: ReadOnly, size: int) -> bytes:
    """`size` bytes, fewer only at the end: a store may give less at a time."""
    held = b""
    while len(held) < size and (more := data.read(size - len(held))):
        held += more
    return held


def _wav_length(data: ReadOnly, seconds: float) -> float | None:
    """By the header, because FFmpeg takes what is left of plain samples that were cut off; None when written to a pipe.

    Of other codings FFmpeg's `seconds` are those that the header states.
    """
    here = data.tell()
    try:
        data.seek(12)
        rate = 0
        for _ in range(_MOST_CHUNKS):
            kind, size = struct.unpack("<4sI", _read(data, 8))
            if kind == b"data":
                claims = 0 < size < _STREAMED_WAV
                return None if not claims else size / rate if rate else seconds
            if kind == b"fmt ":
                tag, _, frames, _, frame = struct.unpack("<HHIIH", _read(data, 14))
                rate = frames * frame if tag in _PLAIN_WAV else 0
                size -= 14
            data.seek(size + size % 2, io.SEEK_CUR)
        return None
    except struct.error:  # the end of the file
        return None
    finally:
        data.seek(here)


def _mp3_length(data: ReadOnly, track: av.AudioStream) -> float | None:
    """Seconds by the frame count that an encoder wrote into the first frame (Xing, Info or VBRI); None without one."""
    here = data.tell()
    try:
        data.seek(0)
        head = _read(data, 10)
        start = 0
        if head[:3] == b"ID3" and len(head) == 10:
            start = 10 + (head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9])
        data.seek(start)
        frame = _read(data, 4096)
    finally:
        data.seek(here)
    frames = None
    for mark in (b"Xing", b"Info"):
        at = frame.find(mark)
        if 0 <= at <= len(frame) - 12 and frame[at + 7] & 1:
            frames = struct.unpack_from(">I", frame, at + 8)[0]
    at = frame.find(b"VBRI")
    if 0 <= at <= len(frame) - 18:
        frames = struct.unpack_from(">I", frame, at + 14)[0]
    rate = track.codec_context.sample_rate
    if not frames or not rate:
        return None
    return float(frames * (1152 if rate >= 32_000 else 576) / rate)


@cache
def _formats() -> str:
    return ",".join(name for name in sorted(_readable()) if not set(name.split(",")) & _OPENERS)


def _readable() -> set[str]:
    found = set()
    for name in av.formats_available:
        try:
            if av.ContainerFormat(name, "r").is_input:
                found.add(name)
        except ValueError:
            continue
    return found


@cache
def _codecs() -> str:
    found = []
    for name in sorted(av.codecs_available):
        try:
            codec = av.Codec(name, "r")
        except ValueError:
            continue
        if codec.type == "audio" and name != "wavesynth":
            found.append(name)
    return ",".join(found)
