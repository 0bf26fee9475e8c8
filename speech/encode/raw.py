"""Float samples as the bytes of raw forms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from speech.audio import ALAW, MULAW
from speech.tts import Sound


def to_int16(samples: Sound) -> NDArray[np.int16]:
    """Signed 16 bits, rounded to the nearest; what is beyond full scale is clipped."""
    scaled = np.rint(samples * np.float32(32768))
    clipped: NDArray[np.int16] = np.clip(scaled, -32768, 32767).astype("<i2")
    return clipped


def pcm16(samples: Sound) -> bytes:
    """Little-endian signed 16 bits."""
    return to_int16(samples).tobytes()


def float32(samples: Sound) -> bytes:
    """Little-endian IEEE 754, as they are."""
    return samples.astype("<f4").tobytes()


def mulaw(samples: Sound) -> bytes:
    """The nearest of the values of G.711's mu-law."""
    return _nearest(samples, *_MULAW)


def alaw(samples: Sound) -> bytes:
    """The nearest of the values of G.711's A-law."""
    return _nearest(samples, *_ALAW)


def _nearest(samples: Sound, borders: Sound, codes: NDArray[np.uint8]) -> bytes:
    return codes[np.searchsorted(borders, samples)].tobytes()


def _search_tables(values: NDArray[np.float32]) -> tuple[Sound, NDArray[np.uint8]]:
    """Borders [n - 1] between the code's values in rising order, and the code of each value [n]."""
    levels, codes = np.unique(values, return_index=True)  # mu-law has two codes for zero; either will do
    return (levels[1:] + levels[:-1]) * np.float32(0.5), codes.astype(np.uint8)


_MULAW, _ALAW = _search_tables(MULAW), _search_tables(ALAW)
