"""How a model's payloads travel. Most are sent as they are; one that grows from task to task is sent as what is new.

What a model keeps between the tasks of a payload (the caches of an utterance) stays at the device, under a key that a
`Copy` has here. The copy knows how much of the payload the device has got; when nobody holds it any more, the device is
told to forget.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

KEPT = 1024
"""Things kept at a device for one gateway; past it the one not used for longest goes and is sent anew if need be."""


class Copy:
    """A payload's copy at the other end of `link`. `sent`: how much of it is there, in the packing's own unit."""

    __slots__ = ("key", "link", "sent", "_dropped")

    def __init__(self, link: object, key: int, dropped: Callable[[int], None]) -> None:
        self.link, self.key, self.sent = link, key, 0
        self._dropped = dropped

    def __del__(self) -> None:
        self._dropped(self.key)  # appends to a deque: this may run on any thread, whatever that is at


class Link(Protocol):
    """What a packing asks of the way to a device."""

    def copy(self) -> Copy:
        """A new copy of something, of which nothing is sent yet."""


class Gone(Exception):
    """The copy that a parcel builds on is not kept here any more."""


class Kept:
    """Copies at a device, for one gateway. Each is told to `drop` when it goes."""

    def __init__(self, drop: Callable[[Any], None], most: int = KEPT) -> None:
        self._drop, self._most = drop, most
        self._things: OrderedDict[int, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._things)

    def get(self, key: int) -> Any:
        """The copy. Raises `Gone`."""
        try:
            self._things.move_to_end(key)
        except KeyError:
            raise Gone from None
        return self._things[key]

    def put(self, key: int, thing: Any) -> None:
        self.forget(key)
        self._things[key] = thing
        if len(self._things) > self._most:
            self._drop(self._things.popitem(last=False)[1])

    def forget(self, key: int) -> None:
        thing = self._things.pop(key, None)
        if thing is not None:
            self._drop(thing)

    def clear(self) -> None:
        for key in list(self._things):
            self.forget(key)


class Packing(Protocol):
    """Of the payloads of one kind of model. The same at both ends, so it is made of code alone."""

    def pack(self, payload: Any, link: Link) -> Any:
        """What goes over `link` for `payload`, in the order in which the device will unpack."""

    def unpack(self, parcel: Any, kept: Kept) -> Any:
        """The payload. Raises `Gone` when it builds on a copy that is not there."""

    def renew(self, payload: Any) -> None:
        """The device has lost its copy: have the next `pack` send the whole."""

    def drop(self, thing: Any) -> None:
        """At the device: a copy goes, and with it what the model keeps for it."""


class Plain:
    """Payloads that pickle well and keep nothing."""

    def pack(self, payload: Any, link: Link) -> Any:
        return payload

    def unpack(self, parcel: Any, kept: Kept) -> Any:
        return parcel

    def renew(self, payload: Any) -> None:
        """There is no copy."""

    def drop(self, thing: Any) -> None:
        """There is no copy."""
