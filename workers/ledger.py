"""What a device has spent and holds: seconds of step time per second, by who they were for, and resident bytes."""

from __future__ import annotations

import math

WINDOW = 10.0
"""Seconds over which use is averaged; older use fades exponentially."""


class Meter:
    """Seconds of step time per second, averaged over `WINDOW`."""

    __slots__ = ("_sum", "_at")

    def __init__(self) -> None:
        self._sum = 0.0
        self._at = 0.0

    def add(self, seconds: float, now: float) -> None:
        """A step that ended at `now` took `seconds`."""
        self._sum = self._faded(now) + seconds
        self._at = now

    def rate(self, now: float) -> float:
        return min(1.0, self._faded(now) / WINDOW)

    def _faded(self, now: float) -> float:
        return self._sum * math.exp((self._at - now) / WINDOW)


class Ledger:
    """The account of one device."""

    __slots__ = ("all", "live", "seconds", "steps", "items", "model_bytes", "task_bytes")

    def __init__(self) -> None:
        self.all = Meter()
        self.live = Meter()
        self.seconds = 0.0
        self.steps = 0
        self.items = 0
        self.model_bytes = 0
        self.task_bytes = 0

    def step(self, seconds: float, live: float, items: int, now: float) -> None:
        """A step of `items` tasks took `seconds`; the fraction `live` of it was for live lanes."""
        self.seconds += seconds
        self.steps += 1
        self.items += items
        self.all.add(seconds, now)
        if live:
            self.live.add(seconds * live, now)
