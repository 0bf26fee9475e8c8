"""The numbered events of a session that may be resumed: sent as they are made, and kept for who has missed them.

Where a session is kept for other gateways, an event waits until it has been kept there: `gated`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from gateway.outbox import encode
from gateway.shared.image import Image
from gateway.sockets import Connection

KEPT_EVENTS = 1024
KEPT_BYTES = 1024 * 1024
"""Of a session, the newest. At a few events a second that is minutes, where a break is noticed within one."""
HIDDEN = b"\0"
"""Stands for the session's token where events are kept elsewhere. JSON has no such byte."""
FIELD = "event:"
"""How the names of the fields that events are kept in begin."""


class EventLog:
    """Every event gets the next number as its `sequence`. A state that a newer one replaces is not kept."""

    def __init__(
        self,
        connection: Connection | None = None,
        events: int = KEPT_EVENTS,
        size: int = KEPT_BYTES,
        image: Image | None = None,
    ) -> None:
        """`image`: where events are kept for other gateways as well."""
        self.newest = self.gone = self.told = 0
        """Numbers: of the newest event, of the newest that is no longer kept, of the newest that may be known."""
        self.gated = False
        self.on_wait: Callable[[], None] | None = None
        """Called when an event waits to be kept elsewhere."""
        self._connection = connection
        self._events, self._bytes = events, size
        self._kept: OrderedDict[int, tuple[object, bytes]] = OrderedDict()
        self._states: dict[object, int] = {}
        self._size = 0
        self._image = image
        self._token: bytes | None = None

    @classmethod
    def of(cls, image: Image, newest: int, gone: int) -> EventLog:
        """The log of a session that another gateway has kept in `image`; there is no connection yet."""
        log = cls(image=image)
        log.newest, log.gone, log.told = newest, gone, newest
        for number in sorted(int(name[len(FIELD) :]) for name in image.names() if name.startswith(FIELD)):
            data = image.get(f"{FIELD}{number}")
            assert data is not None
            log._kept[number] = (None, data)
            log._size += len(data)
        return log

    def hide(self, token: str) -> None:
        """Keep no event elsewhere with this token in it."""
        self._token = token.encode()
        for number, (key, data) in self._kept.items():
            self._kept[number] = key, data.replace(HIDDEN, self._token)

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
        return self.gone <= after <= self.newest

    def tell(self, number: int) -> None:
        """Events up to this number may be known now: send them."""
        for each in range(self.told + 1, number + 1):
            if each in self._kept:
                self._send(each)
        self.told = max(self.told, number)

    async def follow(self, connection: Connection, after: int) -> None:
        """Send what came after number `after`; from then on each event goes to this connection as it is made."""
        while missed := [(number, data) for number, (_, data) in self._kept.items() if after < number <= self.told]:
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
        if self._image is not None:
            hidden = data.replace(self._token, HIDDEN) if self._token is not None else data
            self._image.put(f"{FIELD}{self.newest}", hidden)
        if not self.gated:
            self.tell(self.newest)
        elif self.on_wait is not None:
            self.on_wait()
        # What waits to be kept elsewhere waits for a second at most, and its client has not had it.
        while (len(self._kept) > self._events or self._size > self._bytes) and next(iter(self._kept)) <= self.told:
            self.gone = next(iter(self._kept))
            self._drop(self.gone)

    def _send(self, number: int) -> None:
        key, data = self._kept[number]
        if self._connection is not None:
            self._connection.send_encoded(data, key)

    def _drop(self, number: int) -> None:
        key, data = self._kept.pop(number)
        self._size -= len(data)
        if self._image is not None:
            self._image.drop(f"{FIELD}{number}")
        if self._states.get(key) == number:
            del self._states[key]
