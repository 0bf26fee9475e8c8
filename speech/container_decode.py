"""FFmpeg's part of decoding containers: opening with nothing but known demuxers and codecs, and frames to samples.

The bytes are a stranger's. FFmpeg may read the object it is given and open nothing else, and its single allocations are
bounded, because an index of a hundred bytes may claim a hundred million entries.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

import av
import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from numpy.typing import NDArray

from speech.asr import Samples
from speech.audio import MAX_CHANNELS, MIN_RATE, checked_float, downmix
from speech.container_format import SUPPORTED
from speech.frames import Frames
from speech.resample import Resampler
from workers.errors import InputInvalid, InputTooLarge

MAX_RATE = 192_000
"""Hz; recordings come at higher rates than live streams."""

_CODECS = (
    "opus,libopus,vorbis,flac,mp3float,mp3,aac,alac,adpcm_ms,adpcm_ima_wav,pcm_u8,pcm_s16le,pcm_s24le,pcm_s32le,"
    "pcm_f32le,pcm_f64le,pcm_s16be,pcm_s24be,pcm_s32be,pcm_f32be,pcm_mulaw,pcm_alaw"
)
_DEMUXERS = "ogg,matroska,flac,wav,mov,aac,mp3"
_HONEST_DURATION = {"ogg", "matroska", "flac", "mov"}  # WAV and MP3 headers are often wrong without malice
_DAMAGED_READS = 100  # read errors in a row after which the rest is given up
_RATE_CHANGES = 64  # chained streams may change their rate; each change costs a new filter
_LARGEST_ALLOCATION = 64 << 20  # bytes; the index of 16 hours of AAC

_log = logging.getLogger(__name__)


_LARGEST_INDEX = 256 << 20  # bytes; two days of AAC
_INDEX_BYTES = 32  # that FFmpeg keeps of a packet, of which no file says more than that it is there in a byte
_opening = threading.Lock()


@cache
def _limits() -> tuple[Callable[[int], object], ...]:
    """What sets FFmpeg's limit for one allocation (2 GiB by itself) for the process; its library is among the loaded
    ones."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    found = []
    for path in {line.split(maxsplit=5)[-1] for line in lines if "libavutil" in line}:
        limit = ctypes.CDLL(path).av_max_alloc
        limit.argtypes, limit.restype = [ctypes.c_size_t], None
        found.append(limit)
    if not found:
        _log.warning("FFmpeg's library was not found, so its allocations are not limited")
    return tuple(found)


def _limit_allocations(largest: int) -> None:
    for limit in _limits():
        limit(largest)


_limit_allocations(_LARGEST_ALLOCATION)


@contextmanager
def room_for_index(size: int) -> Iterator[None]:
    """While a file of `size` bytes is opened: its index may be as large as one of such a file can be. One at a time."""
    needed = min(_LARGEST_INDEX, _INDEX_BYTES * size)
    if needed <= _LARGEST_ALLOCATION:
        yield
        return
    with _opening:
        _limit_allocations(needed)
        try:
            yield
        finally:
            _limit_allocations(_LARGEST_ALLOCATION)


def decode(source: Any, kind: str, param: str, max_seconds: float | None) -> Iterator[Samples]:
    """The first sound track of a container as 16 kHz mono, frame by frame."""
    with _open(source, kind, param) as container:
        track = _track(container, param)
        if (
            max_seconds is not None
            and kind in _HONEST_DURATION
            and (container.duration or 0) / av.time_base > max_seconds
        ):
            _too_long(max_seconds, param)
        resampler: Resampler | None = None
        arrays, form = Frames(), (0, 0)
        exact = track.codec_context.name.startswith("pcm_f")
        seconds, changes = 0.0, 0
        for frame in _frames(container, track):
            if form != (frame.sample_rate, frame.layout.nb_channels):
                form = (frame.sample_rate, frame.layout.nb_channels)
                _check(*form, param)
            if resampler is None or resampler.rate != frame.sample_rate:
                if resampler is not None:
                    changes += 1
                    if changes > _RATE_CHANGES:
                        raise InputInvalid(
                            f"{param} changes its sample rate over and over; send it at one", param=param
                        )
                    yield resampler.flush()
                resampler = Resampler(frame.sample_rate)
            seconds += frame.samples / frame.sample_rate
            if max_seconds is not None and seconds > max_seconds:
                _too_long(max_seconds, param)
            yield resampler.feed(_mono(arrays.samples(frame), exact, param))
        if resampler is None:
            raise InputInvalid(f"no sound in {param} could be decoded; it is damaged or cut off", param=param)
        yield resampler.flush()


def _open(source: Any, kind: str, param: str) -> InputContainer:
    options = {
        "format_whitelist": _DEMUXERS,
        "codec_whitelist": _CODECS,
        "protocol_whitelist": "none",
        "probesize": "1048576",
        "analyzeduration": "1",
    }
    try:
        # Tags in another character set than they say are no reason to refuse the sound.
        container: InputContainer = av.open(
            source, "r", format=kind, container_options=options, metadata_errors="replace", io_open=refuse_to_open
        )
        return container
    except FFmpegError as error:
        raise InputInvalid(
            f"{param} could not be read as {kind}: {error.strerror}; send {SUPPORTED}", param=param
        ) from error


def _track(container: InputContainer, param: str) -> av.AudioStream:
    """The first sound track, when its codec and what it says of itself are among what we take."""
    if not container.streams.audio:
        raise InputInvalid(f"{param} has no sound track; send a recording with sound", param=param)
    track = container.streams.audio[0]
    codec: av.AudioCodecContext | None = track.codec_context  # None when FFmpeg knows no decoder
    if codec is None or codec.name not in _CODECS.split(","):
        name = "unknown" if codec is None else codec.name
        raise InputInvalid(
            f"the sound in {param} is coded as {name}; use Opus, Vorbis, FLAC, MP3, AAC or PCM", param=param
        )
    _check(codec.sample_rate, codec.layout.nb_channels, param)
    codec.thread_count = 1
    return track


def _frames(container: InputContainer, track: av.AudioStream) -> Iterator[av.AudioFrame]:
    """The decoded frames of the track, going on behind damage where FFmpeg can."""
    damaged = failed_reads = 0
    packets = container.demux(track)
    while True:
        try:
            packet = next(packets)
            failed_reads = 0
        except StopIteration:
            break
        except FFmpegError:
            damaged += 1
            failed_reads += 1
            if failed_reads >= _DAMAGED_READS:
                break
            packets = container.demux(track)  # the demuxer goes on behind the damage if it can
            continue
        try:
            yield from packet.decode()
        except FFmpegError:
            damaged += 1
    if damaged:
        _log.warning("skipped %d damaged parts of a %s", damaged, container.format.name)


def _mono(frames: NDArray[Any], exact: bool, param: str) -> Samples:
    """Decoded samples, [sample, channel], as mono float32 at their own rate; `exact`: floats are as the sender wrote
    them."""
    if frames.dtype.kind == "f":
        mono = downmix(frames.astype(np.float32))
        if exact:
            return checked_float(mono, param)
        # A lossy decoder overshoots full scale by design, and without bounds in a damaged frame.
        return cast(Samples, np.clip(np.nan_to_num(mono, copy=False, nan=0.0), -1.0, 1.0))
    full_scale = float(2 ** (8 * frames.dtype.itemsize - 1))
    middle = full_scale if frames.dtype.kind == "u" else 0.0  # 8-bit WAV has its silence at 128
    return downmix(((frames - middle) / full_scale).astype(np.float32))


def _check(rate: int, channels: int, param: str) -> None:
    if rate == 0 or channels == 0:
        raise InputInvalid(
            f"{param} tells no sample rate or number of channels (1 to {MAX_CHANNELS}) that can be decoded",
            param=param,
        )
    if not MIN_RATE <= rate <= MAX_RATE:
        raise InputInvalid(f"{param} has {rate} samples a second; send {MIN_RATE} to {MAX_RATE}", param=param)
    if not 1 <= channels <= MAX_CHANNELS:
        raise InputInvalid(f"{param} has {channels} channels; send 1 to {MAX_CHANNELS}", param=param)


def _too_long(max_seconds: float, param: str) -> NoReturn:
    raise InputTooLarge(f"{param} is longer than {max_seconds:g} s; send a shorter one", param=param)


def refuse_to_open(url: str, flags: int, options: dict[str, str]) -> NoReturn:
    """FFmpeg wants to open another file or address."""
    raise InputInvalid("the file refers to another file; send one that holds its own sound", param="file")


class ReadOnly:
    """A seekable file object, from where it stands, giving FFmpeg reading and seeking and nothing else."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._base = file, file.tell()

    def read(self, size: int) -> bytes:
        return self._file.read(size)[:size]  # more than was asked for would run over FFmpeg's buffer

    def tell(self) -> int:
        return self._file.tell() - self._base

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset + self._base if whence == 0 else offset, whence) - self._base
