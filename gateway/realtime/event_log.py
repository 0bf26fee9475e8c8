"""The numbered events of a session that may be resumed: sent as they are made, and kept for who has missed them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from gateway.outbox import encode
from gateway.sockets import Connection

KEPT_EVENTS = 1024
KEPT_BYTES = 1024 * 1024
"""Of a session, the newest. At a few events a second that is minutes, where a break is noticed within one."""


class EventLog:
    """Every event gets the next number as its `sequence`. A state that a newer one replaces is not kept."""

    def __init__(self, connection: Connection | None = None, events: int = KEPT_EVENTS, size: int = KEPT_BYTES) -> None:
        self.newest = 0
        self._connection = connection
        self._events, self._bytes = events, size
        self._kept: OrderedDict[int, tuple[object, bytes]] = OrderedDict()
        self._states: dict[object, int] = {}
        self._size = 0
        self._gone = 0

    def send(self, event: dict[str, Any]) -> None:
        """An event that must arrive."""
        self._add(event, None)

    def send_text(self, key: object, event: dict[str, Any], field: str) -> None:
        """Text that only grows. It is not joined with what is unsent, which would leave its number out of order."""
        self._add(event, None)

    def send_latest(self, key: object, event: dict[str, Any]) -> None:
        """A state of which only the newest counts."""
        self._add(event, key)

    def holds(self, after: int) -> bool:
        """Whether every event after number `after` is still here."""
        return self._gone <= after <= self.newest

    async def follow(self, connection: Connection, after: int) -> None:
        """Send what came after number `after`; from then on each event goes to this connection as it is made."""
        while missed := [(number, data) for number, (_, data) in self._kept.items() if number > after]:
            for number, data in missed:
                connection.send_encoded(data)
                after = number
                await connection.room()
                if connection.ended():
                    return
        self._connection = connection

    def leave(self) -> None:
        """There is no connection now; events are only kept."""
        self._connection = None

    def _add(self, event: dict[str, Any], key: object) -> None:
        self.newest += 1
        data = encode({**event, "sequence": self.newest})
        if key is not None:
            if (replaced := self._states.get(key)) is not None:
                self._drop(replaced)
            self._states[key] = self.newest
        self._kept[self.newest] = (key, data)
        self._size += len(data)
        while len(self._kept) > self._events or self._size > self._bytes:
            self._gone = next(iter(self._kept))
            self._drop(self._gone)
        if self._connection is not None:
            self._connection.send_encoded(data, key)

    def _drop(self, number: int) -> None:
        key, data = self._kept.pop(number)
        self._size -= len(data)
        if self._states.get(key) == number:
            del self._states[key]
