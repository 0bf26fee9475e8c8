"""What all speakers together are at and have made."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from workers.clock import Clock


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

    def ended(self, stream: Hashable) -> None:
        """A stream makes no more sound. Idempotent."""
        self._silent.pop(stream, None)
        self._open.discard(stream)
        if not self._open:
            self._quiet.set()

    async def silence(self) -> None:
        """Wait until nobody speaks."""
        await self._quiet.wait()
