"""Virtual time for many devices at once.

Each device's loop is a greenlet, so that the loop's own code runs unchanged: where a model would compute, the greenlet
sleeps until its step is over, and whatever happens meanwhile (tasks that come, a device that dies) happens in between.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from greenlet import getcurrent, greenlet


class World:
    """Events in the order of their times (seconds), at equal times in the order they were made."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.dice = random.Random(seed)
        self.luck = random.Random(seed)  # of choices, so that the same people come whatever is chosen
        self.happened = 0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._hub = getcurrent()

    def clock(self) -> float:
        """What devices take for their clock."""
        return self.now

    def at(self, time: float, event: Callable[[], object]) -> None:
        heappush(self._events, (max(time, self.now), next(self._numbers), event))

    def after(self, seconds: float, event: Callable[[], object]) -> None:
        heappush(self._events, (self.now + seconds, next(self._numbers), event))

    def run(self, until: float) -> None:
        """Let everything happen that happens up to then."""
        self._hub = getcurrent()
        events = self._events
        while events and events[0][0] <= until:
            self.now, _, event = heappop(events)
            self.happened += 1
            event()
        self.now = max(self.now, until)

    # -- for the greenlet of a device

    def sleep(self, seconds: float) -> None:
        """Go on when so much time has passed."""
        self.after(seconds, getcurrent().switch)
        self._hub.switch()

    def pause(self) -> None:
        """Go on when somebody switches back here."""
        self._hub.switch()

    def thread(self, run: Callable[[], None]) -> greenlet:
        """To be switched to for its first time."""
        return greenlet(run, parent=self._hub)
