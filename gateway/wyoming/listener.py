"""The port that Wyoming is spoken on."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress

from gateway.state import Service
from gateway.wyoming.connection import WyomingConnection
from gateway.wyoming.events import LINE_BYTES

log = logging.getLogger("speechlane.wyoming")

MOST_CONNECTIONS = 128
"""At once; one more is closed as soon as it comes."""
CLOSE_SECONDS = 5.0


class WyomingListener:
    """Takes connections from `start` to `close`."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        """Open ones."""
        return len(self._open)

    async def start(self, sock: socket.socket) -> None:
        """Listen on a socket that is bound."""
        self._server = await asyncio.start_server(self._serve, sock=sock, limit=LINE_BYTES)
        log.info("Wyoming is spoken on tcp://%s:%d, without keys", *sock.getsockname()[:2])

    async def close(self) -> None:
        """Take no more, and end those that are open."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=CLOSE_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= MOST_CONNECTIONS or self._service.draining.is_set():
            log.warning("a connection is refused: %d are open", len(self._open))
            writer.transport.abort()
            return
        self._open.add(task)
        try:
            await WyomingConnection(reader, writer, self._service).run()
        except asyncio.CancelledError:
            log.debug("a connection is cut off")  # asyncio would log a handler that ends in this as a fault
        finally:
            self._open.discard(task)
            writer.close()
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await writer.wait_closed()
            writer.transport.abort()
