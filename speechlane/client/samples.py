"""Samples as programs have them, as the service takes them: little-endian PCM16."""

from __future__ import annotations

import array
import sys
from collections.abc import Sequence

Audio = bytes | bytearray | memoryview | Sequence[float]
"""PCM16 as bytes; or samples: whole numbers of 16 bits in an array of such ("h", int16), else floats in [-1, 1]."""


def pcm16(audio: Audio) -> bytes:
    """Raises ValueError for half a sample or what cannot be samples."""
    try:
        view = memoryview(audio)  # type: ignore[arg-type]  # arrays of numpy and of the standard library
    except TypeError:
        return _of_floats(audio)
    if view.ndim != 1:
        raise ValueError("samples of one channel are needed, in one dimension")
    if view.format in ("B", "b", "c"):
        data = view.tobytes()
        if len(data) % 2:
            raise ValueError(f"PCM16 has two bytes a sample; {len(data)} bytes end in half of one")
        return data
    if view.format == "h":
        return _little(array.array("h", view.tobytes()))
    if view.format in ("f", "d"):
        return _of_floats(view.tolist())
    raise ValueError(f"samples of the kind {view.format!r} are not understood; give int16, or floats in [-1, 1]")


def _of_floats(samples: Sequence[float]) -> bytes:
    return _little(array.array("h", (round(32_767 * min(1.0, max(-1.0, sample))) for sample in samples)))


def _little(samples: array.array[int]) -> bytes:
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tobytes()
