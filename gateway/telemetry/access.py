"""A line of the log for every HTTP request, and its place among the counters."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.http_errors import CLIENT_GONE
from gateway.keys.identity import IDENTITY
from gateway.state import SERVICE
from gateway.telemetry.place import traced
from gateway.telemetry.sessions import SESSION
from workers.labels import labelled

log = logging.getLogger("speechlane.access")

QUIET = frozenset({"/healthz", "/readyz", "/metrics", "/v1/status", "/static"})
"""Asked for all the time by machines, or many at once by a page."""
MOST_ID = 64
REQUEST_ID = web.RequestKey("request_id", str)
"""What the lines of the log call a request; its answer has it as `x-request-id`."""


@web.middleware
async def observed(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Around everything else: what is logged for a request names it, and how it was answered is counted."""
    resource = request.match_info.route.resource
    route = resource.canonical if resource is not None else "unmatched"
    service, began, status = request.app[SERVICE], time.monotonic(), 500
    request[REQUEST_ID] = f"req_{secrets.token_hex(8)}"
    ids = {"request": request[REQUEST_ID]}
    if route.startswith("/v1/batch/jobs/{"):
        ids["job"] = request.match_info["job"][:MOST_ID]
    response: web.StreamResponse | None = None
    session = SESSION.set(None)
    try:
        with labelled(**ids):
            try:
                traces = service.metrics.traces if route not in QUIET else None
                with traced(traces, request, _known(request.method), route) as place:
                    response = await handler(request)
                    status = response.status
                    if place is not None:
                        place.status = status
                return response
            except web.HTTPException as answer:
                status = answer.status
                raise
            except asyncio.CancelledError:
                status = CLIENT_GONE
                raise
            finally:
                seconds = time.monotonic() - began
                socket = isinstance(response, web.WebSocketResponse) and response.prepared
                service.metrics.request(route, status, None if socket else seconds)
                level = logging.DEBUG if socket or route in QUIET else logging.INFO
                if log.isEnabledFor(level):
                    log.log(level, "%s %s: %d", _known(request.method), route, status, extra=_fields(
                        request, route, status, seconds, response
                    ))  # fmt: skip
    finally:
        SESSION.reset(session)


async def name_answer(request: web.Request, response: web.StreamResponse) -> None:
    """Before the head of an answer is sent. OpenAI's clients keep the id, and tell it with what went wrong."""
    if REQUEST_ID in request:
        response.headers["x-request-id"] = request[REQUEST_ID]


def _fields(
    request: web.Request, route: str, status: int, seconds: float, response: web.StreamResponse | None
) -> dict[str, object]:
    identity = request.get(IDENTITY)
    fields: dict[str, object] = {
        "method": _known(request.method),
        "route": route,
        "status": status,
        "seconds": round(seconds, 4),
        "bytes_in": request.content.total_bytes,
        "bytes_out": _size(response),
    }
    return fields | ({"key": identity.name} if identity is not None else {})


def _size(response: web.StreamResponse | None) -> int:
    """Of the body: what has been sent, or what is about to be."""
    if response is None or isinstance(response, web.WebSocketResponse):
        return 0
    return response.body_length if response.prepared else response.content_length or 0


def _known(method: str) -> str:
    """A client may invent methods."""
    return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "OTHER"
