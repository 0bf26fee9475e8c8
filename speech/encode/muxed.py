"""MP3, FLAC and AAC by FFmpeg's encoders and muxers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import BinaryIO

import av
from av.audio.stream import AudioStream

from speech.encode.raw import to_int16
from speech.tts import Sound


@dataclass(frozen=True, slots=True)
class _Codec:
    muxer: str
    encoder: str
    samples: str
    bit_rate: int | None = None


CODECS = {
    "mp3": _Codec("mp3", "libmp3lame", "fltp", 96_000),
    "flac": _Codec("flac", "flac", "s16"),
    "aac": _Codec("adts", "aac", "fltp", 96_000),
}
LOW_RATE, LOW_BIT_RATE = 16_000, 48_000
"""Up to this sample rate (Hz) half of the bits do, and MPEG 2.5 has no more than 64 kbit/s."""


class Pipe:
    """What a muxer writes into when nobody can go back in it. It has no seek, which is how the muxer knows."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        """Called by the muxer."""
        self._written += data
        return len(data)

    def take(self) -> bytes:
        """All that was written since the last time."""
        taken, self._written = bytes(self._written), bytearray()
        return taken


class MuxedCoder:
    """Mono float32 at `rate` Hz into `file`, which gets its lengths right at the end when it can be gone back in.

    MP3 and AAC put samples of their own before the first one (1105 and 1024); an MP3 file that can be gone back in
    says so, and players then leave them out. Less than a frame of the codec is held back (192 ms at most).
    """

    def __init__(self, name: str, rate: int, file: BinaryIO | Pipe) -> None:
        codec = CODECS[name]
        self._samples, self._rate = codec.samples, rate
        self._file = file
        self._container = av.open(file, "w", format=codec.muxer)
        stream = self._container.add_stream(codec.encoder, rate=rate)
        assert isinstance(stream, AudioStream)
        stream.codec_context.layout, stream.codec_context.format = "mono", codec.samples
        if codec.bit_rate is not None:
            stream.codec_context.bit_rate = LOW_BIT_RATE if rate <= LOW_RATE else codec.bit_rate
        self._stream = stream
        self._given = 0

    def encode(self, samples: Sound) -> bytes:
        """The bytes that are complete; none when they go into a file."""
        if len(samples):
            plane = (to_int16(samples) if self._samples == "s16" else samples)[None]
            frame = av.AudioFrame.from_ndarray(plane, self._samples, "mono")
            frame.sample_rate, frame.pts, frame.time_base = self._rate, self._given, Fraction(1, self._rate)
            self._given += len(samples)
            self._container.mux(self._stream.encode(frame))
        return self._taken()

    def end(self) -> bytes:
        """The rest."""
        # A muxer that was never given a packet would not even write its header.
        self._container.start_encoding()
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._taken()

    def _taken(self) -> bytes:
        return self._file.take() if isinstance(self._file, Pipe) else b""
