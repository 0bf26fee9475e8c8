"""The listener's clock: how far the sound has been heard, and when the listener will have nothing left to hear.

The listener plays at real time what it has been sent and waits when that runs out. Its own reports say where it is;
between them, and without any, time goes on from the last moment that is known. All positions are seconds of the
stream's sound, moments are seconds on the given clock.
"""

from __future__ import annotations

import math

from workers.clock import Clock
from workers.errors import InputInvalid


class Playback:
    """Pure bookkeeping, from one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sent = 0.0
        self._position = 0.0
        self._at = clock()
        self._reported = 0.0

    @property
    def sent(self) -> float:
        """Seconds of sound that have been handed to the listener."""
        return self._sent

    @property
    def heard(self) -> float:
        """Seconds heard by now, never more than were sent."""
        return min(self._sent, self._position + max(0.0, self._clock() - self._at))

    @property
    def dry_at(self) -> float:
        """When the listener has heard all it was sent; in the past when it waits already."""
        return self._at + self._sent - self._position

    def hand(self, seconds: float) -> None:
        """The listener has been sent everything up to `seconds`."""
        if seconds > self._sent:
            self._position, self._at = self.heard, self._clock()
            self._sent = seconds

    def report(self, seconds: float) -> None:
        """The listener says that it has heard everything up to `seconds`; it cannot have heard what was not sent.

        Reports that come in the wrong order are outdated and change nothing. Raises InputInvalid when it is no time.
        """
        if not (math.isfinite(seconds) and seconds >= 0):
            raise InputInvalid("a playback position is a number of seconds, 0 or more", param="played")
        if seconds >= self._reported:
            self._reported = seconds
            self._position, self._at = min(seconds, self._sent), self._clock()

    def reaches(self, position: float) -> float:
        """The first moment at which the listener can be at `position`; never while it has not been sent so much."""
        if position > self._sent:
            return math.inf
        return self._at + position - self._position
