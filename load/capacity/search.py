"""The search for the largest number of clients that a service holds: double, bisect, hold. It knows no service.

A step that fails is tried once more, for a machine has bad moments; one that failed beyond doubt is not. What is found
so must then hold for longer; if it does not, a tenth fewer must, and so on. Nothing that failed to hold is ever found.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

CLOSE = 0.03
"""Part of the number that passes by which the one that fails may be above it, when the search ends."""
FEWER = 0.9
"""What is tried of a number that did not hold."""


class Phase(StrEnum):
    """What a step is for."""

    TRY = "try"
    AGAIN = "try again"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Step:
    """So many clients are to be tried."""

    phase: Phase
    count: int


class Search:
    """From `start` clients on, to `most`, when so many have `passed` before. `hold`: the number must hold before it
    counts as found."""

    def __init__(self, start: int = 1, most: int = 512, *, passed: int = 0, hold: bool = True) -> None:
        if not passed < start <= most:
            raise ValueError("a search begins with more than have passed, and not with more than it ends with")
        self._most, self._hold = most, hold
        self._passed = passed
        self._failed: int | None = None
        self.next: Step | None = Step(Phase.TRY, start)
        """What to try; None: it is over."""
        self.found = 0
        """The number found; 0 while none is, and when there is none."""

    @property
    def passed(self) -> int:
        """The largest number that passed so far, held or not."""
        return self._passed

    def tell(self, passed: bool, *, sure: bool = False) -> None:
        """The outcome of `next`. `sure`: it failed for more than a bad moment."""
        if self.next is None:
            raise ValueError("the search is over")
        phase, count = self.next.phase, self.next.count
        if phase is Phase.HOLD:
            self._held(passed, count)
        elif passed:
            self._passed = count
            self._go_on()
        elif phase is Phase.TRY and not sure:
            self.next = Step(Phase.AGAIN, count)
        else:
            self._failed = count
            self._go_on()

    def _go_on(self) -> None:
        if self._failed is None:
            more = min(2 * self._passed, self._most)
            self._try(more) if more > self._passed else self._end()
        elif self._failed - self._passed <= max(1, int(CLOSE * self._passed)):
            self._end()
        else:
            self._try((self._passed + self._failed) // 2)

    def _try(self, count: int) -> None:
        self.next = Step(Phase.TRY, count)

    def _end(self) -> None:
        if self._hold and self._passed:
            self.next = Step(Phase.HOLD, self._passed)
        else:
            self.next, self.found = None, self._passed

    def _held(self, passed: bool, count: int) -> None:
        fewer = min(count - 1, int(FEWER * count))
        if passed or not fewer:
            self.next, self.found = None, count if passed else 0
        else:
            self.next = Step(Phase.HOLD, fewer)
