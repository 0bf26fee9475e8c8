"""Answers that come in parts, as server-sent events; a client that takes nothing for a minute is let go."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from aiohttp import web

from gateway.http_errors import error_fields
from workers.errors import ServingError

log = logging.getLogger("speechlane.http")

STALL_SECONDS = 60.0
_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class EventStream:
    """The answer to one request."""

    def __init__(self, response: web.StreamResponse) -> None:
        self._response = response

    @classmethod
    async def open(cls, request: web.Request) -> EventStream:
        """Send the head: from here on whatever fails is an event."""
        response = web.StreamResponse(headers=_HEADERS)
        await response.prepare(request)
        return cls(response)

    async def send(self, data: dict[str, Any] | str, event: str | None = None) -> None:
        """One event. Raises ConnectionError when nobody takes it."""
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        head = f"event: {event}\n" if event else ""
        try:
            async with asyncio.timeout(STALL_SECONDS):
                await self._response.write(f"{head}data: {text}\n\n".encode())
        except TimeoutError:
            raise ConnectionResetError("the client takes nothing any more") from None

    async def fail(self, error: Exception, path: str) -> None:
        """The last event: what went wrong after the status was sent."""
        if not isinstance(error, ServingError):
            log.error("%s failed", path, exc_info=error)
            error = ServingError("The service failed on this request; its log says why.")
        await self.send({"error": error_fields(error)}, "error")

    async def end(self) -> web.StreamResponse:
        """No more of them."""
        await self._response.write_eof()
        return self._response
