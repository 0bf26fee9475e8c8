"""Whose key it is, for the price of one scrypt when a key is first seen and of a look into a table from then on."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from gateway.keys.record import Key, id_of
from gateway.keys.store import KeyStore, StoreFailed
from workers.errors import Overloaded, ServingError

log = logging.getLogger("speechlane.keys")

FRESH_SECONDS = 2.0
"""A key that was made, changed or revoked counts after so long at the latest."""
MOST_KNOWN = 4096
"""Keys that are recognised without another scrypt."""
AT_ONCE = 2
"""Scrypts at once, which take a CPU and 16 MiB each."""
MOST_WAITING = 32
"""Unseen keys that may wait for theirs."""


class KeysUnavailable(ServingError):
    """The store of keys cannot be read, and has not been before."""

    code = "keys_unavailable"
    status = 503


class Checker:
    """The records of a store, read again now and then, and the keys that were found right."""

    def __init__(self, store: KeyStore, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._records: dict[str, Key] | None = None
        self._read_at = -FRESH_SECONDS
        self._reading: asyncio.Task[None] | None = None
        self._known: OrderedDict[bytes, tuple[str, str]] = OrderedDict()  # digest of the key -> id and hash of a record
        self._scrypts = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def knows(self, key: str) -> bool:
        """Whether this key was found right before and is valid still, at no cost."""
        record = await self._record(key)
        return record is not None and self._is_known(key, record)

    async def find(self, key: str) -> Key | None:
        """The record of a key that is right and valid, else None. Raises `KeysUnavailable`, `Overloaded`."""
        record = await self._record(key)
        if record is None:
            return None
        if not self._is_known(key, record):
            if self._waiting >= MOST_WAITING:
                raise Overloaded("Too many keys are being checked; try again in a moment.", retry_after=1.0)
            self._waiting += 1
            try:
                async with self._scrypts:
                    right = await asyncio.to_thread(record.fits, key)
            finally:
                self._waiting -= 1
            if not right:
                return None
            self._known[_digest(key)] = (record.id, record.digest)
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return record

    def _is_known(self, key: str, record: Key) -> bool:
        digest = _digest(key)
        known = self._known.get(digest) == (record.id, record.digest)
        if known:
            self._known.move_to_end(digest)
        return known

    async def _record(self, key: str) -> Key | None:
        id = id_of(key)
        if id is None:
            return None
        await self._refresh()
        assert self._records is not None
        record = self._records.get(id)
        return record if record is not None and record.state(self._clock()) == "valid" else None

    async def _refresh(self) -> None:
        if self._records is not None and time.monotonic() - self._read_at < FRESH_SECONDS:
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        try:
            self._records = await asyncio.to_thread(self._store.read)
        except StoreFailed as error:
            if self._records is None:
                log.error("the keys cannot be read: %s", error)
                raise KeysUnavailable("The keys of this service cannot be read; its log says why.") from None
            log.warning("the keys as they were before stay in use: %s", error)
        self._read_at = time.monotonic()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
