"""Media files made for the tests of the batch lane: recordings of tests/data in all kinds of containers."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import av
import numpy as np

from speech.asr import SAMPLE_RATE, Samples
from tests.speech.sounds import joined, recording, silence

NAMES = ("austen-0870.wav", "austen-0880.wav", "austen-0890.wav", "austen-0920.wav", "austen-0930.wav")
LAYOUTS = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}


@cache
def talk(seconds: int) -> Samples:
    """The recordings one after another, pauses of 0.2 to 4 s between them, over and over."""
    pauses = np.random.default_rng(5)
    parts, length = [], 0
    while length < seconds * SAMPLE_RATE:
        for name in NAMES:
            pause = silence(float(pauses.choice([0.2, 0.6, 1.0, 4.0])))
            parts += [recording(name), pause]
            length += len(parts[-2]) + len(pause)
    return joined(*parts)[: seconds * SAMPLE_RATE]


def encoded(
    kind: str,
    codec: str,
    rate: int,
    planes: Samples,
    options: Mapping[str, str] | None = None,
    *,
    bit_rate: int = 64_000,
    video: bool = False,
    target: io.BytesIO | Path | None = None,
) -> bytes:
    """`planes` [channel, sample] (or one channel) at 16 kHz in a container; `video` adds a picture track before it."""
    planes = np.atleast_2d(planes)
    layout = LAYOUTS[len(planes)]
    out = io.BytesIO() if target is None else target
    with av.open(str(out) if isinstance(out, Path) else out, "w", format=kind, options=dict(options or {})) as file:
        pictures = file.add_stream("mpeg4", rate=10) if video else None
        if pictures is not None:
            pictures.width = pictures.height = 64
        track = file.add_stream(codec, rate=rate)
        track.codec_context.layout = layout
        track.bit_rate = bit_rate
        size = track.codec_context.frame_size or None
        convert = av.AudioResampler(format=track.codec_context.format, layout=layout, rate=rate, frame_size=size)
        for first in range(0, planes.shape[1], SAMPLE_RATE):
            if pictures is not None:
                for number in range(10):
                    picture = av.VideoFrame.from_ndarray(np.full((64, 64, 3), number, np.uint8))
                    picture.pts = first // SAMPLE_RATE * 10 + number
                    file.mux(pictures.encode(picture))
            piece = np.ascontiguousarray(planes[:, first : first + SAMPLE_RATE])
            frame = av.AudioFrame.from_ndarray(piece, format="fltp", layout=layout)
            frame.sample_rate, frame.pts = SAMPLE_RATE, first
            for ready in convert.resample(frame):
                file.mux(track.encode(ready))
        for ready in convert.resample(None):
            file.mux(track.encode(ready))
        file.mux(track.encode(None))
        if pictures is not None:
            file.mux(pictures.encode(None))
    return out.getvalue() if isinstance(out, io.BytesIO) else b""


def garbled(data: bytes, share: float, size: int) -> bytes:
    """The file with `size` bytes of noise written over it, from `share` of its length on."""
    at = int(share * len(data))
    return data[:at] + random.Random(7).randbytes(size) + data[at + size :]
