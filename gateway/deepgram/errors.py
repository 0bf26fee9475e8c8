"""Errors as Deepgram's clients expect them: err_code and err_msg over HTTP, an Error message on a socket."""

from __future__ import annotations

import logging
from typing import Any
from uuid import uuid4

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.http_errors import error_response, http_status
from workers.errors import ServingError

log = logging.getLogger("speechlane.http")

PATH = "/v1/listen"

_CODES = {
    400: "Bad Request",
    401: "INVALID_AUTH",
    403: "INSUFFICIENT_PERMISSIONS",
    404: "Bad Request",
    408: "SLOW_UPLOAD",
    413: "PAYLOAD_TOO_LARGE",
    429: "TOO_MANY_REQUESTS",
    503: "SERVICE_UNAVAILABLE",
}

REQUEST_ID = web.RequestKey("deepgram_request_id", str)


def response(error: ServingError, request_id: str) -> web.Response:
    """The answer to a request that failed; a socket's client sees no more of it than `dg-error`."""
    answer = error_response(error)
    # They have no place for a model that is not there but this one.
    status = 400 if answer.status in (404, 426) else answer.status
    code = "INVALID_QUERY_PARAMETER" if status == 400 and error.param else _CODES.get(status, "INTERNAL_SERVER_ERROR")
    told = f"{error.param}: {error.message}" if error.param else error.message
    headers = {name: answer.headers[name] for name in ("Retry-After",) if name in answer.headers}
    headers |= {"dg-request-id": request_id, "dg-error": _one_line(told)}
    if status == 401:
        headers["WWW-Authenticate"] = "Token"
    return web.json_response(
        {"err_code": code, "err_msg": told, "request_id": request_id}, status=status, headers=headers
    )


def message(error: ServingError, source: str | None = None) -> dict[str, Any]:
    """A message on a socket; `source` is the client's own that could not be read."""
    variant = "SchemaError" if source is not None else error.code
    told = {"type": "Error", "variant": variant, "description": error.message, "message": source or error.message}
    return told | ({"param": error.param} if error.param else {})


@web.middleware
async def deepgram_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give what fails on their path their form; everything else passes."""
    if request.path != PATH:
        return await handler(request)
    request[REQUEST_ID] = request_id = str(uuid4())
    try:
        return await handler(request)
    except ServingError as error:
        if http_status(error) >= 500:
            log.warning("%s %s: %s: %s", request.method, request.path, error.code, error.message)
        return response(error, request_id)


def _one_line(text: str) -> str:
    """As a header can carry it."""
    return "".join(c if " " <= c <= "~" else "?" for c in text)[:500]
