"""The silence that models put before the first sound: a quarter of a second that a listener need not wait for."""

from __future__ import annotations

import numpy as np

from speech.tts import Sound

HEAD = 0.030
"""Seconds of silence left before the first audible sample of a stream."""
AUDIBLE = 10 ** (-45 / 20)
"""Magnitude from which a sample counts as heard: -45 dB of full scale."""


def trim_head(samples: Sound, rate: int) -> Sound:
    """Without the silence at the beginning, but for its last 30 ms; a silent window keeps as much of its end."""
    audible = np.flatnonzero(np.abs(samples) > AUDIBLE)
    onset = int(audible[0]) if len(audible) else len(samples)
    return samples[max(0, onset - round(HEAD * rate)) :]
