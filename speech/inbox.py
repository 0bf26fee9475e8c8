"""What a live stream has been given and not yet taken: samples, and orders that hold from a place among them."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

import numpy as np

from speech.asr import Samples
from speech.config import StreamConfig

_SMALL = 1600
_AT_ONCE = 0.01
"""Seconds of wall time within which arrivals count as one."""


@dataclass(frozen=True, slots=True)
class Order:
    """Something to do when all audio before it has been heard."""

    what: str
    done: asyncio.Future[None]
    config: StreamConfig | None = None


class Waiting:
    """Samples that wait; small ones that come together share a buffer, so that their count costs nothing."""

    __slots__ = ("_buffer", "_length", "arrived")

    def __init__(self, samples: Samples, arrived: float) -> None:
        self._buffer = np.empty(max(len(samples), _SMALL), np.float32)
        self._length = 0
        self.arrived = arrived
        self.take(samples, arrived)

    @property
    def samples(self) -> Samples:
        return self._buffer[: self._length]

    def take(self, samples: Samples, arrived: float) -> bool:
        """Add samples; False when they do not fit, or came too much later than the first."""
        end = self._length + len(samples)
        if end > len(self._buffer) or arrived - self.arrived > _AT_ONCE:
            return False
        self._buffer[self._length : end] = samples
        self._length = end
        return True


class Arrivals:
    """When the samples of a stream came, in seconds of wall time."""

    def __init__(self, now: float) -> None:
        self.last = now
        """When the newest samples came."""
        self._ends: deque[tuple[int, float]] = deque()

    def add(self, end: int, arrived: float, *, together: bool) -> None:
        """The samples before stream position `end` came; `together` with those before them, as one."""
        self.last = arrived
        if together:
            self._ends[-1] = (end, self._ends[-1][1])
        else:
            self._ends.append((end, arrived))

    def of(self, position: int) -> float:
        """When the sample before stream position `position` came."""
        return next((arrived for end, arrived in self._ends if end >= position), self.last)

    def forget(self, heard: int) -> None:
        """Nobody will ask for what lies before position `heard` any more."""
        while len(self._ends) > 1 and self._ends[0][0] < heard:
            self._ends.popleft()
