"""How many bytes of requests are held at once: bodies that come in, and the pixels that were in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from workers.errors import Overloaded

RETRY = 3.0


class InHand:
    """At most `most` bytes of all requests together."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0

    @contextmanager
    def claim(self) -> Iterator[Claim]:
        """What one request holds, until the context ends."""
        claim = Claim(self)
        try:
            yield claim
        finally:
            claim.drop(claim.size)


class Claim:
    """Of one request."""

    def __init__(self, whole: InHand) -> None:
        self._whole, self.size = whole, 0

    def add(self, size: int) -> None:
        """Raises `Overloaded` when it is more than may be held now."""
        if self._whole.taken + size > self._whole.most:
            raise Overloaded(
                "So many pictures and clips are in hand that there is no room for these; try again soon.",
                retry_after=RETRY,
            )
        self._whole.taken += size
        self.size += size

    def drop(self, size: int) -> None:
        """So much of it is held no more."""
        self._whole.taken -= size
        self.size -= size
