"""A speaker's sound in the form that a client asked for, coded where it does not hold up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from speech.encode import Encoder, OutputFormat
from speech.tts import Sound

PIECE_SECONDS = 0.5
"""The longest sound that goes out at once: voices that make a whole sentence at a time give more."""


class Sounding:
    """One stream of sound. `rate` is the voice's, in Hz."""

    def __init__(self, format: OutputFormat, rate: int) -> None:
        self._encoder = Encoder(format, rate)
        self._piece = round(rate * PIECE_SECONDS)

    @property
    def position(self) -> int:
        """Samples at the format's rate that have gone in, or for raw forms come out."""
        return self._encoder.position

    def pieces(self, samples: Sound) -> Iterator[Sound]:
        """The samples in pieces that are small enough."""
        for first in range(0, len(samples), self._piece):
            yield samples[first : first + self._piece]

    async def feed(self, samples: Sound) -> bytes:
        """The bytes that are complete, maybe none."""
        if self._encoder.format.raw:
            return self._encoder.feed(samples)
        # Codecs take some milliseconds for a second of sound, and give the interpreter lock back meanwhile.
        return await asyncio.to_thread(self._encoder.feed, samples)

    async def flush(self) -> bytes:
        """The last bytes."""
        return await asyncio.to_thread(self._encoder.flush)
