"""The way out of a connection, shared by whoever answers on it."""

from __future__ import annotations

import asyncio

from gateway.sockets import bound_send_buffer
from gateway.wyoming.events import Event, encoded
from workers.errors import ServingError

SEND_SECONDS = 30.0
"""A client that takes nothing for so long is not listening any more."""


class Wire:
    """Sends whole events, and waits while the client is slow to take them."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        bound_send_buffer(writer.transport)  # type: ignore[arg-type]

    async def send(self, event: Event) -> None:
        """Raises ConnectionError when there is nobody to take it."""
        if self._writer.is_closing():
            raise ConnectionResetError("the client has closed the connection")
        self._writer.write(encoded(event))
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._writer.drain()
        except TimeoutError:
            self._writer.transport.abort()
            raise ConnectionResetError("the client does not read") from None

    async def fail(self, error: ServingError) -> None:
        """Tell an error; `param` is part of the text, since the protocol has no place for it."""
        named = f"{error.param}: {error.message}" if error.param is not None else error.message
        await self.send(Event("error", {"text": named, "code": error.code}))
