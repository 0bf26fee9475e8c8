"""Raw audio of a stream to 16 kHz mono float32: PCM16, float32, mu-law and A-law, any rate, interleaved channels.

A decoder's output depends on the bytes alone, never on how they were cut: a sample or frame split between two feeds is
carried over, and the resampler keeps its state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from speech.asr import Samples
from speech.resample import Resampler
from workers.errors import InputInvalid

Encoding = Literal["pcm16", "float32", "mulaw", "alaw"]
"""Signed 16-bit little-endian, IEEE 754 32-bit little-endian, and the two 8-bit companded codes of ITU-T G.711."""

MIN_RATE, MAX_RATE = 8_000, 48_000
MAX_CHANNELS = 32

MAX_FLOAT = 16.0
"""Float samples beyond full scale are clipped, but beyond this (24 dB over) they are not audio in [-1, 1] at all:
integers that were cast without scaling, another byte order, or bytes out of step."""

_BYTES: dict[str, int] = {"pcm16": 2, "float32": 4, "mulaw": 1, "alaw": 1}


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """How raw audio is laid out: `rate` in Hz, `channels` interleaved. Raises InputInvalid naming the wrong field."""

    encoding: Encoding
    rate: int
    channels: int = 1

    def __post_init__(self) -> None:
        if self.encoding not in get_args(Encoding):
            raise InputInvalid(
                f"encoding {self.encoding!r} is not known; use one of {', '.join(get_args(Encoding))}", param="encoding"
            )
        _whole(self.rate, MIN_RATE, MAX_RATE, "rate", " Hz")
        _whole(self.channels, 1, MAX_CHANNELS, "channels", "")

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of every channel."""
        return _BYTES[self.encoding] * self.channels


class AudioDecoder:
    """One stream of raw audio. At most one frame and the resampler's half filter (under 10 ms) are held back."""

    def __init__(self, format: AudioFormat) -> None:
        self.format = format
        self.dangling = 0
        """Bytes of an incomplete frame that were left at the end and dropped by `flush`; 0 before it."""
        self._carry = b""
        self._resampler = Resampler(format.rate)

    def feed(self, data: bytes | bytearray | memoryview) -> Samples:
        """Decode bytes cut anywhere; returns the 16 kHz mono samples that are complete, maybe none.

        Raises InputInvalid(param="audio") for float samples that are not finite or far out of range; a refused feed
        leaves the stream as it was. ValueError after `flush`.
        """
        joined = self._carry + bytes(data)
        whole = len(joined) - len(joined) % self.format.frame_bytes
        samples = self._resampler.feed(downmix(self._decode(joined[:whole])))
        self._carry = joined[whole:]
        return samples

    def flush(self) -> Samples:
        """End the stream: the rest of the samples. An incomplete frame is dropped, never padded (see `dangling`)."""
        self.dangling, self._carry = len(self._carry), b""
        return self._resampler.flush()

    def _decode(self, data: bytes) -> Samples:
        """Whole frames to float32, [frame, channel]."""
        match self.format.encoding:
            case "pcm16":
                flat = np.frombuffer(data, "<i2").astype(np.float32) * np.float32(1 / 32768)
            case "float32":
                flat = checked_float(np.frombuffer(data, "<f4").astype(np.float32), "audio")
            case "mulaw":
                flat = MULAW[np.frombuffer(data, np.uint8)]
            case "alaw":
                flat = ALAW[np.frombuffer(data, np.uint8)]
        return flat.reshape(-1, self.format.channels)


def downmix(frames: Samples) -> Samples:
    """[frame, channel] to mono by the mean of the channels, the same for a frame whatever others come with it."""
    channels = frames.shape[1]
    if channels == 1:
        return frames[:, 0]
    mono = frames[:, 0].copy()
    for channel in range(1, channels):
        mono += frames[:, channel]
    mono *= np.float32(1 / channels)
    return mono


def checked_float(samples: Samples, param: str) -> Samples:
    """Float samples clipped to [-1, 1]; InputInvalid(param) when some are not finite or beyond MAX_FLOAT."""
    if not len(samples):
        return samples
    low, high = float(samples.min()), float(samples.max())  # a NaN anywhere makes both NaN
    if not (np.isfinite(low) and np.isfinite(high)):
        at = int(np.flatnonzero(~np.isfinite(samples))[0])
        raise InputInvalid(
            f"sample {at} of {param} is {samples[at]}; send finite little-endian float32 in [-1, 1]", param=param
        )
    if max(-low, high) > MAX_FLOAT:
        raise InputInvalid(
            f"samples of {param} reach {max(-low, high):.6g}; send little-endian float32 in [-1, 1]"
            " (divide 16-bit integers by 32768)",
            param=param,
        )
    return cast(Samples, np.clip(samples, -1.0, 1.0))


def _whole(value: object, low: int, high: int, param: str, unit: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InputInvalid(f"{param} must be a whole number from {low} to {high}{unit}, not {value!r}", param=param)


def _mulaw_table() -> NDArray[np.float32]:
    code = ~np.arange(256, dtype=np.uint8)
    exponent, mantissa = (code >> 4).astype(np.int32) & 7, code.astype(np.int32) & 15
    magnitude = (((mantissa << 3) + 0x84) << exponent) - 0x84
    return (np.where(code & 0x80, -magnitude, magnitude) / 32768).astype(np.float32)


def _alaw_table() -> NDArray[np.float32]:
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent, mantissa = (code >> 4).astype(np.int32) & 7, code.astype(np.int32) & 15
    magnitude = np.where(exponent == 0, (mantissa << 4) + 8, ((mantissa << 4) + 0x108) << np.maximum(exponent - 1, 0))
    return (np.where(code & 0x80, magnitude, -magnitude) / 32768).astype(np.float32)


MULAW, ALAW = _mulaw_table(), _alaw_table()
"""The value of each of the 256 codes, in [-1, 1]."""
