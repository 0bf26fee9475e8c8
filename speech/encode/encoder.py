"""One sound out: samples in as they are made, bytes out as soon as they are complete, nothing lost at either end."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol

import numpy as np

from speech.encode import raw, wav
from speech.encode.formats import OutputFormat
from speech.encode.muxed import MuxedCoder, Pipe
from speech.encode.opus import OpusCoder
from speech.encode.rate import RateChange
from speech.tts import Sound

RAW: dict[str, Callable[[Sound], bytes]] = {
    "pcm16": raw.pcm16,
    "float32": raw.float32,
    "mulaw": raw.mulaw,
    "alaw": raw.alaw,
}
PIECE = 48_000
"""Samples coded at once, so that what a coder holds does not grow with what it is given."""


class Coder(Protocol):
    """Bytes of one form from samples at the form's own rate."""

    def encode(self, samples: Sound) -> bytes: ...
    def end(self) -> bytes: ...


class _Raw:
    def __init__(self, to_bytes: Callable[[Sound], bytes]) -> None:
        self.encode = to_bytes

    def end(self) -> bytes:
        return b""


class _Wav:
    """`total`: samples that will come; when they do not, the tail is cut or filled up, since the header was sent."""

    def __init__(self, rate: int, total: int | None) -> None:
        self._intro = wav.header(rate, total)
        self._left = total

    def encode(self, samples: Sound) -> bytes:
        if self._left is not None:
            samples = samples[: self._left]
            self._left -= len(samples)
        intro, self._intro = self._intro, b""
        return intro + raw.pcm16(samples)

    def end(self) -> bytes:
        return self.encode(np.zeros(self._left or 0, np.float32))


class Encoder:
    """A stream of mono float32 at `source_rate` Hz, any number of samples at a time, as `format`.

    `total` (samples at `source_rate`), where it is known before, makes a WAV header say the right sizes.
    """

    def __init__(self, format: OutputFormat, source_rate: int, *, total: int | None = None) -> None:
        if total is not None:
            total = round(total * format.rate / source_rate)
        self._begin(format, source_rate, _coder(format, total, Pipe()))

    def _begin(self, format: OutputFormat, source_rate: int, coder: Coder) -> None:
        self.format = format
        self.position = 0
        """Samples at the format's rate that have gone into the bytes given out so far, or wait in the codec."""
        self._rate = RateChange(source_rate, format.rate)
        self._coder = coder
        self._ended = False

    def feed(self, samples: Sound) -> bytes:
        """The bytes that are complete, maybe none. ValueError after `flush`."""
        if self._ended:
            raise ValueError("the stream was flushed; start a new encoder")
        return b"".join(self._code(piece) for piece in _pieces(samples))

    def flush(self) -> bytes:
        """End the stream: the rest of the bytes."""
        if self._ended:
            raise ValueError("the stream was flushed already")
        self._ended = True
        rest = self._rate.flush()
        self.position += len(rest)
        return self._coder.encode(rest) + self._coder.end()

    def _code(self, piece: Sound) -> bytes:
        changed = self._rate.feed(piece)
        self.position += len(changed)
        return self._coder.encode(changed)


class SoundFile(Encoder):
    """The same into a file that can be gone back in, where all lengths are right once it is closed.

    `feed` and `flush` write and return nothing. The file stays open.
    """

    def __init__(self, file: BinaryIO, format: OutputFormat, source_rate: int) -> None:
        self._file = file
        self._begin(format, source_rate, _coder(format, None, file))

    def feed(self, samples: Sound) -> bytes:
        """Write samples."""
        self._file.write(super().feed(samples))
        return b""

    def flush(self) -> bytes:
        """Write the rest, and the header anew."""
        self._file.write(super().flush())
        if self.format.name == "wav":
            self._file.seek(0)
            self._file.write(wav.header(self.format.rate, self.position))
            self._file.seek(0, io.SEEK_END)
        return b""


def encode_whole(samples: Sound, format: OutputFormat, source_rate: int) -> bytes:
    """A whole sound as one file, lengths and all."""
    file = io.BytesIO()
    writer = SoundFile(file, format, source_rate)
    writer.feed(samples)
    writer.flush()
    return file.getvalue()


def _coder(format: OutputFormat, total: int | None, file: BinaryIO | Pipe) -> Coder:
    match format.name:
        case "wav":
            return _Wav(format.rate, total)
        case "opus":
            return OpusCoder(format.rate)
        case "mp3" | "flac" | "aac":
            return MuxedCoder(format.name, format.rate, file)
    return _Raw(RAW[format.name])


def _pieces(samples: Sound) -> Iterator[Sound]:
    for first in range(0, len(samples), PIECE):
        yield samples[first : first + PIECE]
