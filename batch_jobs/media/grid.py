"""Decoded frames of any size and sample format, gathered into whole seconds of float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from speech.asr import Samples
from speech.frames import Frames


@dataclass(frozen=True, slots=True)
class Block:
    """Sound at the file's own `rate` (Hz)."""

    rate: int
    samples: Samples
    """[channel, sample]"""


class Grid:
    """Gathers frames of one form into whole seconds, with little Python for each frame."""

    def __init__(self, frame: av.AudioFrame, sane: Callable[[Samples], Samples], channels: int) -> None:
        self.rate = frame.sample_rate
        self.form = (self.rate, frame.layout.name, frame.format.name)
        self.pieces: list[Samples] = []
        self.count = 0
        self._fifo = av.AudioFifo()
        self._fresh = 0
        self._channels = channels
        self._sane = sane

    @property
    def ready(self) -> bool:
        return self.count + self._fresh >= self.rate

    def add(self, frame: av.AudioFrame) -> None:
        self._fresh += frame.samples
        frame.pts = None  # or the queue would check it
        self._fifo.write(frame)

    def silence(self, samples: int) -> Iterator[Block]:
        """Samples of silence, by the second."""
        self._drain()
        while samples:
            step = min(samples, self.rate)
            self._keep(np.zeros((self._channels, step), np.float32))
            samples -= step
            yield from self._whole()

    def take(self, *, last: bool) -> Iterator[Block]:
        """The whole seconds there are; the rest too when it is the last of its rate."""
        self._drain()
        yield from self._whole()
        if last and self.count:
            rest = self._joined()
            self.pieces, self.count = [], 0
            yield Block(self.rate, rest)

    def _whole(self) -> Iterator[Block]:
        if self.count < self.rate:
            return
        joined = self._joined()
        whole = self.count - self.count % self.rate
        self.pieces, self.count = [joined[:, whole:].copy()], self.count - whole
        for first in range(0, whole, self.rate):
            yield Block(self.rate, np.ascontiguousarray(joined[:, first : first + self.rate]))

    def _joined(self) -> Samples:
        return self.pieces[0] if len(self.pieces) == 1 else np.concatenate(self.pieces, axis=1)

    def _keep(self, samples: Samples) -> None:
        self.pieces.append(samples)
        self.count += samples.shape[1]

    def _drain(self) -> None:
        if not self._fresh:
            return
        self._fresh = 0
        frame = self._fifo.read(0, True)
        if frame is None:
            return
        data: NDArray[Any] = Frames().samples(frame).T
        if data.dtype.kind == "f":
            samples = self._sane(data.astype(np.float32, copy=False))
        else:
            full_scale = 2.0 ** (8 * data.dtype.itemsize - 1)
            samples = data.astype(np.float32)
            if data.dtype.kind == "u":
                samples -= np.float32(full_scale)
            samples *= np.float32(1 / full_scale)
        if len(samples) != self._channels:  # the track changed: all channels get the mean of what there is
            samples = np.repeat(samples.mean(axis=0, keepdims=True), self._channels, axis=0)
        self._keep(samples)
