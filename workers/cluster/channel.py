"""The two ends of a channel over calls that are lost, come twice or overtake each other: each message once, in order.

Not thread-safe: whoever has an end has a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Generic, TypeVar

Message = TypeVar("Message")

EARLY = 256
"""Batches that came before one that is missing; further ones are dropped, and come again with it."""


class Outgoing(Generic[Message]):
    """Messages are numbered from 1 and kept until the other end has them."""

    __slots__ = ("_first", "_kept", "_sent")

    def __init__(self) -> None:
        self._first = 1  # number of the oldest that is kept
        self._kept: deque[Message] = deque()
        self._sent = 0  # number of the newest that was sent

    def put(self, message: Message) -> None:
        self._kept.append(message)

    @property
    def last(self) -> int:
        """Number of the newest."""
        return self._first + len(self._kept) - 1

    @property
    def unacknowledged(self) -> int:
        return len(self._kept)

    @property
    def waiting(self) -> bool:
        """Whether there is something that was not sent."""
        return self._sent < self.last

    def unsent(self, most: int) -> tuple[int, tuple[Message, ...]]:
        """(number of the first, the messages) of what was not sent; it counts as sent from now on."""
        first = max(self._sent + 1, self._first)
        begin = first - self._first
        messages = tuple(islice(self._kept, begin, begin + most))
        self._sent = first + len(messages) - 1
        return first, messages

    def all(self, most: int) -> tuple[int, tuple[Message, ...]]:
        """The same of everything that is kept, sent or not."""
        self._sent = self._first - 1
        return self.unsent(most)

    def acknowledged(self, number: int) -> bool:
        """The other end has everything up to this number. Whether that is news."""
        before = self._first
        while self._kept and self._first <= number:
            self._kept.popleft()
            self._first += 1
        return self._first != before

    def rewind(self) -> None:
        """Nobody knows what became of what was sent: send it again."""
        self._sent = self._first - 1


class Incoming(Generic[Message]):
    """Gives each message once, in order."""

    __slots__ = ("seen", "_early")

    def __init__(self) -> None:
        self.seen = 0
        """Number of the last that was given out."""
        self._early: dict[int, Sequence[Message]] = {}

    def take(self, first: int, messages: Sequence[Message]) -> list[Message]:
        """What is new of a batch that begins with number `first`, and of those that waited for it."""
        if messages and first > self.seen + 1:
            if len(self._early) < EARLY:
                self._early[first] = messages
            return []
        new = list(messages[self.seen + 1 - first :])
        self.seen += len(new)
        while self._early and (follows := min(self._early)) <= self.seen + 1:
            more = self._early.pop(follows)[self.seen + 1 - follows :]
            new += more
            self.seen += len(more)
        return new
