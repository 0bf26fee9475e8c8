"""Raw audio of a stream whose decoding goes on in another process, to the sample."""

from __future__ import annotations

from math import ceil, gcd

import numpy as np

from speech.asr import SAMPLE_RATE, Samples
from speech.audio import AudioDecoder, AudioFormat

_BEHIND = 0.15
"""Seconds of audio that a resampler is given again, so that it is where the other was: more than it holds back."""


class ContinuedDecoder(AudioDecoder):
    """A decoder that keeps the newest bytes. With the `tail` and `given` of another it goes on where that one was.

    A resampler that begins at a whole number of its output's samples gives the same samples as one that runs already.
    """

    def __init__(self, format: AudioFormat, tail: bytes = b"", given: int = 0) -> None:
        """`given`: samples that came out of the other since the beginning of its tail."""
        super().__init__(format)
        self._kept = b""
        self._out = 0
        """Samples that came out since the beginning of what is kept."""
        self._grid = format.rate // gcd(format.rate, SAMPLE_RATE)
        self._behind = ceil(_BEHIND * format.rate) if format.rate != SAMPLE_RATE else 0
        self._skip = given
        self._early = np.zeros(0, np.float32)
        if tail:
            self._early = self._new(super().feed(tail))
            self._kept, self._out = tail, given

    @property
    def where(self) -> tuple[bytes, int]:
        """The `tail` and `given` for another decoder of this format."""
        return self._kept, self._out

    def feed(self, data: bytes | bytearray | memoryview) -> Samples:
        """As an `AudioDecoder` does."""
        samples = self._new(super().feed(data))
        if len(self._early):
            samples, self._early = np.concatenate([self._early, samples]), np.zeros(0, np.float32)
        self._keep(bytes(data), len(samples))
        return samples

    def flush(self) -> Samples:
        """As an `AudioDecoder` does."""
        samples = np.concatenate([self._early, self._new(super().flush())])
        self._early = np.zeros(0, np.float32)
        return samples

    def _new(self, samples: Samples) -> Samples:
        skipped = min(self._skip, len(samples))
        self._skip -= skipped
        return samples[skipped:]

    def _keep(self, data: bytes, out: int) -> None:
        size = self.format.frame_bytes
        self._kept += data
        self._out += out
        gone = max(0, len(self._kept) // size - self._behind) // self._grid * self._grid
        self._kept = self._kept[gone * size :]
        self._out -= gone * SAMPLE_RATE // self.format.rate
