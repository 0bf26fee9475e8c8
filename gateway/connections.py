"""What a connection may do before, and beside, a request that somebody answers: the defence against slow clients.

A request's head has to be complete within `HEAD_SECONDS`; whoever reads its body keeps the time for that. Bodies come
as they are: one that would have to be unpacked first is refused, for it could be a thousand times as large as it looks.
"""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from gateway.http_errors import error_response
from workers.errors import ServingError

HEAD_SECONDS = 10.0


class BodyEncoded(ServingError):
    """The body of the request is compressed."""

    code = "unsupported_content_encoding"
    status = 415


class Unreadable(ServingError):
    """What came is no HTTP request that can be read."""

    code = "malformed_request"
    status = 400


class Patient(RequestHandler):
    """A connection that is closed when its client begins no request, or does not finish the head of one."""

    __slots__ = ("_head",)

    _head: asyncio.TimerHandle | None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        if self._request_count > before:
            self._stop()
        elif self._head is None and not self._request_in_progress and not self._upgraded:
            self._await_head()  # the beginning of another request

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop()
        waiting = self._task_handler if not self._request_in_progress else None
        super().connection_lost(exc)
        if waiting is not None:
            # For another request, or for the rest of a body that was refused: neither comes any more, and nobody would
            # tell it.
            waiting.cancel()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What cannot be read as a request is told in the form of other errors, and not repeated."""
        super().handle_error(request, status, exc, message)
        what = "its head is too long" if isinstance(exc, LineTooLong) else type(exc).__name__
        response = error_response(
            Unreadable(f"This cannot be read as an HTTP request: {what}.")
            if status == Unreadable.status
            else ServingError("The service failed on this request; its log says why.")
        )
        response.force_close()
        return response

    def _await_head(self) -> None:
        self._head = self._loop.call_later(HEAD_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._head = None
        if not self._request_in_progress:  # else it was the rest of a body, which came before its handler had begun
            self.force_close()

    def _stop(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


class _Server(web.Server):
    def __call__(self) -> RequestHandler:
        return Patient(self, loop=self._loop, **self._kwargs)


class PatientRunner(web.AppRunner):
    """Serves an application on such connections."""

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            # What is packed is refused, and until then stays as it is.
            **{**made._kwargs, "auto_decompress": False},
        )


@web.middleware
async def plain_bodies(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse bodies that are packed."""
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise BodyEncoded("Send the body as it is, without Content-Encoding.", param="Content-Encoding")
    return await handler(request)
