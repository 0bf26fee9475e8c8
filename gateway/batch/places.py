"""Places of which there are so many, and how many of them one key may take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from workers.errors import Overloaded


def share(most: int, keys: int) -> int:
    """What one of several keys may have of `most`: half of it, so that none keeps the others out. A single one, or who
    uses a service without keys, may have all."""
    return most if keys <= 1 else (most + 1) // 2


class Places:
    """At most `most` at once, and `each` of one owner. `busy` says what they are taken for, after their number."""

    def __init__(self, most: int, each: int, busy: str, retry_after: float) -> None:
        self._most, self._each, self._busy, self._retry_after = most, each, busy, retry_after
        self._taken: Counter[str] = Counter()

    @contextmanager
    def hold(self, owner: str) -> Iterator[None]:
        """Take one; raises `Overloaded` when there is none."""
        taken = self._taken.total()
        if taken >= self._most:
            raise Overloaded(f"{taken} {self._busy} already.", retry_after=self._retry_after)
        if self._taken[owner] >= self._each:
            raise Overloaded(
                f"{self._each} {self._busy} with this key already, which is the most for one.",
                retry_after=self._retry_after,
            )
        self._taken[owner] += 1
        try:
            yield
        finally:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]
