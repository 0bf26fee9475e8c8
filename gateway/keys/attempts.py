"""Wrong keys by address: a few are mistakes, more are somebody who tries keys."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from workers.errors import Overloaded

MOST_FAILED = 20
WINDOW_SECONDS = 60.0
MOST_ADDRESSES = 4096
"""Addresses remembered; beyond, the one that failed longest ago is forgotten."""


class TooManyAttempts(Overloaded):
    """Too many wrong keys came from this address."""

    code = "too_many_attempts"


class Attempts:
    """A bounded table of addresses that have sent wrong keys within the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raises `TooManyAttempts` while this address has to wait."""
        count, since = self._failed.get(address, (0, 0.0))
        left = since + WINDOW_SECONDS - self._clock()
        if count >= MOST_FAILED and left > 0:
            raise TooManyAttempts(
                f"Too many wrong API keys came from this address; try again in {left:.0f} s with a valid one.",
                retry_after=left,
            )

    def failed(self, address: str) -> None:
        """A wrong key came from this address."""
        now = self._clock()
        count, since = self._failed.pop(address, (0, now))
        if now >= since + WINDOW_SECONDS:
            count, since = 0, now
        self._failed[address] = (count + 1, since)
        while len(self._failed) > MOST_ADDRESSES:
            self._failed.popitem(last=False)
