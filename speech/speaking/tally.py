"""What the speakers of a voice are at together, what they have made, and what that took."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Hashable

from workers.clock import Clock

_MEMORY, _ENOUGH = 60.0, 10.0
"""Seconds of sound."""


class Tally:
    """`made` and `wasted` are seconds of sound since the start: all of it, and what was made but never heard."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._silent: dict[Hashable, float] = {}
        self._open: set[Hashable] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.made = 0.0
        self.wasted = 0.0
        self._sound = self._spent = 0.0  # lately

    @property
    def speaking(self) -> int:
        """Streams that still make sound."""
        return len(self._open)

    def starting(self, within: float) -> int:
        """Streams that have made no sound yet and were opened in the last `within` seconds."""
        since = self._clock() - within
        return sum(opened >= since for opened in self._silent.values())

    def opened(self, stream: Hashable) -> None:
        self._open.add(stream)
        self._quiet.clear()
        self._silent[stream] = self._clock()

    def sound(self, stream: Hashable, seconds: float) -> None:
        """A stream has made more sound."""
        self._silent.pop(stream, None)
        self.made += seconds
        keep = math.exp(-seconds / _MEMORY)
        self._sound, self._spent = self._sound * keep + seconds, self._spent * keep

    def spent(self, seconds: float) -> None:
        """A device has worked so long for a stream: its part of the steps that it shared with others."""
        self._spent += seconds

    @property
    def cost(self) -> float:
        """Seconds of step time that a second of sound took lately; inf while there was too little sound to tell."""
        return self._spent / self._sound if self._sound >= _ENOUGH else math.inf

    def ended(self, stream: Hashable) -> None:
        """A stream makes no more sound. Idempotent."""
        self._silent.pop(stream, None)
        self._open.discard(stream)
        if not self._open:
            self._quiet.set()

    async def silence(self) -> None:
        """Wait until nobody speaks."""
        await self._quiet.wait()
