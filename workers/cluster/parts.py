"""Orders and replies as bytes.

Ray hands bytes on as they are, where it would take a slower pickler to anything else, and an argument of up to 100 kB
travels with the call, where a larger one goes through the object stores of both hosts. So orders are put into parts.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Sequence

from workers.cluster.messages import Order, Reply

PART = 90_000
"""Bytes of a part, unless a single order takes more."""


def parts(orders: Sequence[Order]) -> list[bytes]:
    """The orders, as few parts as are small enough."""
    made: list[list[bytes]] = []
    room = 0
    for order in orders:
        data = pickle.dumps(order, protocol=5)
        if not made or len(data) > room:
            made.append([])
            room = PART
        made[-1].append(data)
        room -= len(data)
    return [b"".join(part) for part in made]


def orders(made: Iterable[bytes]) -> list[Order]:
    """What `parts` was given."""
    found: list[Order] = []
    for part in made:
        reader = io.BytesIO(part)
        while reader.tell() < len(part):
            found.append(pickle.load(reader))  # noqa: S301 - whoever reaches a cluster's ports owns it in any case
    return found


def packed(reply: Reply | None) -> bytes:
    return pickle.dumps(reply, protocol=5)


def unpacked(data: bytes) -> Reply | None:
    reply: Reply | None = pickle.loads(data)  # noqa: S301
    return reply
