"""Decoded frames as arrays.

PyAV finds the channels of a planar frame by looking for a null behind the last one. FFmpeg keeps none there for eight
channels and more, so numbers that are no addresses would be read from: such frames are interleaved by FFmpeg first.
"""

from __future__ import annotations

from typing import Any

import av
from numpy.typing import NDArray

_COUNTED_RIGHT = 8
"""Channels from which on PyAV finds too many."""


class Frames:
    """Reads the frames of one track, whose form may change."""

    def __init__(self) -> None:
        self._form: tuple[str, str, int] | None = None
        self._interleaver: av.AudioResampler | None = None

    def samples(self, frame: av.AudioFrame) -> NDArray[Any]:
        """[sample, channel] in the type that the frame has them. ValueError when it is one that numpy does not know."""
        channels = frame.layout.nb_channels
        if frame.format.is_planar and channels >= _COUNTED_RIGHT:
            frame = self._interleaved(frame)
        data: NDArray[Any] = frame.to_ndarray()
        return data.T if frame.format.is_planar else data.reshape(-1, channels)

    def _interleaved(self, frame: av.AudioFrame) -> av.AudioFrame:
        form = (frame.format.name, frame.layout.name, frame.sample_rate)
        if self._interleaver is None or form != self._form:
            packed = frame.format.packed.name
            self._interleaver = av.AudioResampler(format=packed, layout=frame.layout, rate=frame.sample_rate)
            self._form = form
        frame.pts = None  # or gaps between frames would be told apart
        (interleaved,) = self._interleaver.resample(frame)
        return interleaved
