"""One thread of a gateway that does everything there is to do for its remote devices, in the order in which it comes.

Calls end on threads of Ray's that must not be held up, and tasks are submitted on an event loop that must not either;
both only leave a note here. Nothing that the courier runs may block.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from workers.clock import Clock, monotonic

log = logging.getLogger(__name__)

Errand = Callable[[], None]


class Courier:
    """Runs errands as they come and at the time they were put off to. A test may turn it by hand."""

    def __init__(self, clock: Clock = monotonic) -> None:
        self.clock = clock
        self._errands: deque[Errand] = deque()
        self._later: list[tuple[float, int, Errand]] = []  # of the courier's thread alone
        self._numbers = itertools.count()
        self._called = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="courier", daemon=True)
        self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Stop after what has come so far. Idempotent."""
        self._closed = True
        self._called.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def call(self, errand: Errand) -> None:
        """Run it soon. From any thread."""
        self._errands.append(errand)
        self._called.set()

    def later(self, seconds: float, errand: Errand) -> None:
        """Run it in so many seconds. From an errand only."""
        heappush(self._later, (self.clock() + seconds, next(self._numbers), errand))

    def turn(self) -> bool:
        """Run what there is to run now. False when that was nothing."""
        ran = False
        now = self.clock()
        while self._later and self._later[0][0] <= now:
            self._errand(heappop(self._later)[2])
            ran = True
        for _ in range(len(self._errands)):
            self._errand(self._errands.popleft())
            ran = True
        return ran

    @property
    def next_at(self) -> float | None:
        """When something is due; None: nothing is."""
        if self._errands:
            return self.clock()
        return self._later[0][0] if self._later else None

    def _errand(self, errand: Errand) -> None:
        try:
            errand()
        except Exception:
            log.exception("an errand of the courier failed")

    def _run(self) -> None:
        while not (self._closed and not self._errands):
            self._called.clear()
            if self.turn():
                continue
            at = self.next_at
            self._called.wait(None if at is None else max(0.0, at - self.clock()))
