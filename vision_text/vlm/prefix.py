"""Prompts that begin alike are computed once: blocks of keys and values, named by the content of all that precedes.

A name is a hash over the tenant, the model, how the cache is kept, and every token before the block's end. A visual
token stands for its place in a picture: the sha256 of decoded pixels with all that decides how they are looked at.
A file's name, an address or an identifier that a client makes up is no part of it.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from vision_text.vlm.kv import Block

BLOCK = 16
"""Tokens."""


class Sized(Protocol):
    @property
    def bytes(self) -> int: ...


Kept = TypeVar("Kept", bound=Sized)


class Bounded(OrderedDict[bytes, Kept]):
    """At most `limit` bytes; what was used longest ago goes first. Not safe by itself for several threads."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit, self.held = limit, 0

    def keep(self, key: bytes, value: Kept) -> None:
        if key in self or value.bytes > self.limit:
            return
        self[key] = value
        self.held += value.bytes
        while self.held > self.limit:
            _, old = self.popitem(last=False)
            self.held -= old.bytes


class PrefixCache:
    """Safe from all threads. A block that somebody works with stays alive after it has left."""

    def __init__(self, limit: int) -> None:
        self._blocks: Bounded[Block] = Bounded(limit)
        self._lock = threading.Lock()

    def match(self, keys: Sequence[bytes]) -> list[Block]:
        """The blocks that are there of these consecutive ones, from the first on."""
        found: list[Block] = []
        with self._lock:
            for key in keys:
                block = self._blocks.get(key)
                if block is None:
                    break
                found.append(block)
            for key in reversed(keys[: len(found)]):  # the first ends as the newest: without it the rest is of no use
                self._blocks.move_to_end(key)
        return found

    def has(self, key: bytes) -> bool:
        with self._lock:
            return key in self._blocks

    def keep(self, key: bytes, block: Block) -> None:
        with self._lock:
            self._blocks.keep(key, block)

    @property
    def bytes(self) -> int:
        with self._lock:
            return self._blocks.held

    @property
    def limit(self) -> int:
        return self._blocks.limit

    def clear(self) -> None:
        with self._lock:
            self._blocks.clear()
            self._blocks.held = 0


def block_keys(root: bytes, ids: NDArray[np.int64], media: Sequence[tuple[NDArray[np.int64], bytes]]) -> list[bytes]:
    """A key for each whole block. `media`: the places of each picture's or clip's tokens in `ids`, and its name."""
    names: dict[int, list[bytes]] = {}
    for places, digest in media:
        for offset, place in enumerate(places.tolist()):
            if place // BLOCK < len(ids) // BLOCK:
                names.setdefault(place // BLOCK, []).append(digest + offset.to_bytes(4, "little"))
    keys, parent = [], root
    for number in range(len(ids) // BLOCK):
        tokens = ids[number * BLOCK : (number + 1) * BLOCK].astype("<i8").tobytes()
        parent = hashlib.sha256(b"".join((parent, tokens, *names.get(number, ())))).digest()
        keys.append(parent)
    return keys


def digest_of(*parts: object) -> bytes:
    """Of texts, bytes and arrays, each with its kind and length, so that no two lists run into one."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            total.update(f"array {part.dtype.str} {part.shape}".encode())
            total.update(np.ascontiguousarray(part).data)
        else:
            data = part if isinstance(part, bytes) else repr(part).encode()
            total.update(f"{type(part).__name__} {len(data)} ".encode())
            total.update(data)
    return total.digest()
