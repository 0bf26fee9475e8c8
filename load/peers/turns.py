"""Where a client hears that somebody has ended, for servers that leave that to the client.

Silero goes over the audio in the order of time, in windows of 32 ms, as it would while somebody speaks; what it finds
does not depend on when, so it is found before the run and takes no processor from the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from silero_vad import VADIterator, load_silero_vad

from load.script import Script

_WINDOW = 512
_BEFORE = 0.5
"""Seconds of audio before the voice that belong to a turn."""


@dataclass(frozen=True, slots=True)
class Turn:
    """From where to where in the script, in seconds, it is taken; `known`: when its end can be known."""

    start: float
    end: float
    known: float

    def samples(self, script: Script) -> NDArray[np.int16]:
        return script.samples[round(self.start * script.rate) : round(self.end * script.rate)]


def turns(script: Script, silence: float) -> list[Turn]:
    """The turns of a script at 16 kHz, each over after `silence` seconds without a voice."""
    listening: Any = VADIterator(
        load_silero_vad(onnx=True), sampling_rate=script.rate, min_silence_duration_ms=round(1000 * silence)
    )
    heard = torch.from_numpy(script.samples.astype(np.float32) / 32_768)
    found: list[Turn] = []
    start = 0.0
    for at in range(0, len(heard) - _WINDOW + 1, _WINDOW):
        event = listening(heard[at : at + _WINDOW]) or {}
        known = (at + _WINDOW) / script.rate
        if "start" in event:
            earliest = found[-1].end if found else 0.0
            start = max(earliest, event["start"] / script.rate - _BEFORE)
        if "end" in event:
            found.append(Turn(start, known, known))
    return found
