"""Stateful resampling of one mono stream to 16 kHz, by soxr. The same samples come out however the input was cut."""

from __future__ import annotations

import numpy as np
import soxr

from speech.asr import SAMPLE_RATE, Samples

TELEPHONE = 8_000


class Resampler:
    """Mono float32 in [-1, 1] at `rate` Hz to the same at 16 kHz; at 16 kHz the samples pass unchanged.

    soxr works in blocks and holds back at most 40 ms from 16 kHz on. At telephone rate that would be 115 ms, so there
    its variable-rate engine serves (30 ms); at other rates that one shifts the signal or lets the band's edge fall.
    """

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._stream = None
        if rate != SAMPLE_RATE:
            self._stream = soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32", vr=rate == TELEPHONE)
        self._ended = False

    def feed(self, samples: Samples) -> Samples:
        """Take samples, any number of them, and return the output that is complete. ValueError after `flush`."""
        return self._resample(samples, last=False)

    def flush(self) -> Samples:
        """End the stream: the rest, so that the total is received * 16000 / rate samples, rounded."""
        out = self._resample(np.zeros(0, np.float32), last=True)
        self._ended = True
        return out

    def _resample(self, samples: Samples, *, last: bool) -> Samples:
        if self._ended:
            raise ValueError("the stream was flushed; start a new resampler")
        if self._stream is None:
            return samples
        out: Samples = self._stream.resample_chunk(np.ascontiguousarray(samples), last=last)
        return np.clip(out, -1.0, 1.0, out=out)  # the filter overshoots at the corners of a clipped wave
