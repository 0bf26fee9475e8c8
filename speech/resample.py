"""Stateful resampling of one mono stream to 16 kHz: a windowed-sinc filter evaluated at each output instant.

Why not soxr's stream: its fixed-rate engine works in transform blocks and holds back up to 37 ms at 24 kHz and 115 ms
at 8 kHz, which every partial and final would pay; its variable-rate engine is quick but shifts the signal by up to two
samples. Here an output sample leaves as soon as half a filter of input has arrived after it: 4.5 ms for rates of
16 kHz and more, 9 ms at 8 kHz. Every output sample is its own dot product over the same input samples in the same
order, so the output is bit-identical however the input was cut.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from speech.asr import SAMPLE_RATE, Samples

PASSBAND = 0.92
"""Share of the narrower band that passes unharmed; from there to its edge the filter falls by 90 dB."""

_ATTENUATION_DB = 90.0
_EXACT_PHASES = 640  # enough for the 11.025 kHz family; odder ratios interpolate between this many phases
_STRIDED_PHASES = 4  # up to here (8, 12, 24, 32, 48, 96 kHz) each phase is one strided view, without copies
_PIECE = 640  # output samples per pass: bounds the scratch memory of a long feed


class Resampler:
    """Mono float32 in [-1, 1] at `rate` Hz to the same at 16 kHz. Output n stands for the instant n / 16000 s exactly.

    At 16 kHz the samples pass unchanged. The signal is taken to be silent before its start and after its end.
    """

    def __init__(self, rate: int) -> None:
        self.rate = rate
        divisor = math.gcd(rate, SAMPLE_RATE)
        self._up, self._down = SAMPLE_RATE // divisor, rate // divisor
        self._bank, self._half = _filter_bank(rate)
        self._received = 0
        self._made = 0
        # Input samples from stream index `_origin` on; the silence before the start is half a filter of zeros.
        self._history: Samples = np.zeros(self._half, np.float32)
        self._origin = -self._half
        self._ended = False

    def feed(self, samples: Samples) -> Samples:
        """Take samples, any number of them, and return the output that is complete. ValueError after `flush`."""
        if self._ended:
            raise ValueError("the stream was flushed; start a new resampler")
        if self.rate == SAMPLE_RATE:
            return samples
        self._received += len(samples)
        self._history = np.concatenate((self._history, samples))
        # Output n needs input up to floor(n * down / up) + half.
        reached = self._received - self._half  # outputs whose instant lies before this input sample are complete
        return self._make(-(-reached * self._up // self._down) if reached > 0 else 0)

    def flush(self) -> Samples:
        """End the stream: the rest, so that the total is round(received * 16000 / rate) samples."""
        if self._ended:
            raise ValueError("the stream was flushed; start a new resampler")
        self._ended = True
        if self.rate == SAMPLE_RATE:
            return np.zeros(0, np.float32)
        self._history = np.concatenate((self._history, np.zeros(self._half + self._down // self._up + 1, np.float32)))
        return self._make((2 * self._received * self._up + self._down) // (2 * self._down))

    def _make(self, end: int) -> Samples:
        """The outputs from the last one made up to `end`; input that none needs any more is dropped."""
        out = np.empty(max(0, end - self._made), np.float32)
        width = 2 * self._half
        for first in range(self._made, end, _PIECE):
            last = min(first + _PIECE, end)
            piece = out[first - self._made : last - self._made]
            if self._up <= _STRIDED_PHASES:
                self._strided(sliding_window_view(self._history, width), first, piece)
            else:
                self._gathered(sliding_window_view(self._history, width), first, piece)
        self._made = max(self._made, end)
        drop = min(self._window(self._made), len(self._history))
        self._history = self._history[drop:]
        self._origin += drop
        return np.clip(out, -1.0, 1.0, out=out)  # the filter overshoots at the corners of a clipped wave

    def _window(self, n: int) -> int:
        """Where in the history the window of output n begins."""
        return n * self._down // self._up - self._half + 1 - self._origin

    def _strided(self, windows: Samples, first: int, out: Samples) -> None:
        """Outputs of equal phase are equally spaced in the input: a view, no copy."""
        for offset in range(min(self._up, len(out))):
            part = out[offset :: self._up]
            start = self._window(first + offset)
            rows = windows[start : start + (len(part) - 1) * self._down + 1 : self._down]
            np.vecdot(rows, self._bank[(first + offset) * self._down % self._up], out=part)

    def _gathered(self, windows: Samples, first: int, out: Samples) -> None:
        """Any ratio: each output with its own row of the bank, interpolated when the bank has fewer phases."""
        instants = np.arange(first, first + len(out), dtype=np.int64) * self._down
        starts = instants // self._up + (1 - self._half - self._origin)
        phases = instants % self._up
        if self._up <= _EXACT_PHASES:
            rows = self._bank[phases]
        else:
            scaled = phases * _EXACT_PHASES
            index, rest = scaled // self._up, (scaled % self._up / self._up).astype(np.float32)
            rows = self._bank[index]
            rows += rest[:, None] * (self._bank[index + 1] - rows)
        np.vecdot(windows[starts], rows, out=out)


@lru_cache(maxsize=16)
def _filter_bank(rate: int) -> tuple[NDArray[np.float32], int]:
    """The filter at every phase, [phase, tap], and half its length in input samples.

    Tap k of phase p weighs the input sample (k - half + 1 - p / phases) sample periods from the output's instant.
    The last row repeats the first one sample on, for interpolation.
    """
    phases = min(SAMPLE_RATE // math.gcd(rate, SAMPLE_RATE), _EXACT_PHASES)
    narrow = min(1.0, SAMPLE_RATE / rate)  # the narrower band as a share of the input's
    transition = math.pi * narrow * (1.0 - PASSBAND)  # radians per input sample
    half = math.ceil((_ATTENUATION_DB - 7.95) / (2.285 * transition) / 2)
    beta = 0.1102 * (_ATTENUATION_DB - 8.7)
    time = np.arange(1 - half, half + 1)[None, :] - (np.arange(phases + 1) / phases)[:, None]
    window = np.i0(beta * np.sqrt(np.maximum(0.0, 1.0 - (time / half) ** 2)))
    bank = np.sinc(narrow * (1.0 + PASSBAND) / 2 * time) * window
    bank /= bank.sum(axis=1, keepdims=True)
    return bank.astype(np.float32), half
