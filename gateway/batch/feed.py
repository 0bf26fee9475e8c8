"""A file on its way from the event loop, where it comes in, to a thread that stores it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from queue import SimpleQueue

DEPTH = 8
"""Pieces that are between the two at most; then the sender, and with it the client, waits."""


class Abandoned(Exception):
    """The sender gave up: what was stored so far is no file."""


class Feed:
    """Iterated over by one thread, filled from one loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: SimpleQueue[bytes | Abandoned | None] = SimpleQueue()
        self._room = asyncio.Semaphore(DEPTH)
        self._reader: asyncio.Future[str] | None = None

    def read_by(self, reader: asyncio.Future[str]) -> None:
        """`reader` is what becomes of the thread's work; when it fails, `send` says so instead of waiting."""
        self._reader = reader
        reader.add_done_callback(self._ended)

    async def send(self, piece: bytes) -> None:
        """Hand over a piece; waits while there is no room. Raises what the thread has raised."""
        await self._room.acquire()
        if self._reader is not None and self._reader.done():
            self._room.release()
            self._reader.result()
            raise Abandoned("the thread ended before the file")
        self._pieces.put(piece)

    def end(self) -> None:
        """That was all."""
        self._pieces.put(None)

    def abandon(self) -> None:
        """Nothing more will come, and what came is not wanted."""
        self._pieces.put(Abandoned("the upload was given up"))

    def _ended(self, reader: asyncio.Future[str]) -> None:
        if not reader.cancelled():
            reader.exception()  # seen: after `abandon` nobody else looks at it
        self._room.release()

    def __iter__(self) -> Iterator[bytes]:
        while (piece := self._pieces.get()) is not None:
            if isinstance(piece, Abandoned):
                raise piece
            self._loop.call_soon_threadsafe(self._room.release)
            yield piece
