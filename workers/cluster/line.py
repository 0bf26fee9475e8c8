"""A gateway's end of the way to a device, from one welcome until the device is lost."""

from __future__ import annotations

import itertools
from collections import deque

from workers.cluster.channel import Incoming, Outgoing
from workers.cluster.messages import Answer, Order
from workers.cluster.packing import Copy

_keys = itertools.count(1)


class Line:
    """Also what `Task.run` of the tasks sent over it is: answers of an older line do not count.

    `asked_at`, `heard_at` are when the newest call for answers, and the newest that was answered, were made; `acked_at`
    when the device last told that orders had come.
    """

    __slots__ = ("number", "orders", "answers", "asked_at", "heard_at", "acked_at", "posted_at", "polls", "_dropped")

    def __init__(self, number: int, now: float) -> None:
        self.number = number
        self.orders: Outgoing[Order] = Outgoing()
        self.answers: Incoming[Answer] = Incoming()
        self.asked_at = self.heard_at = self.acked_at = self.posted_at = now
        self.polls = 0
        self._dropped: deque[int] = deque()

    def copy(self) -> Copy:
        return Copy(self, next(_keys), self._dropped.append)

    def dropped(self) -> tuple[int, ...]:
        """Keys of the copies that nobody holds any more, each once."""
        return tuple(self._dropped.popleft() for _ in range(len(self._dropped)))
