"""Errors as ElevenLabs' clients expect them: "detail" over HTTP, a message with "error" and "code" on a socket."""

from __future__ import annotations

import logging
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.http_errors import error_response, error_type, http_status
from gateway.speak.fields import FieldInvalid
from workers.errors import Draining, InputInvalid, InputTooLarge, Overloaded, ServingError

log = logging.getLogger("speechlane.http")

PATHS = ("/v1/text-to-speech/", "/v1/voices/", "/v2/voices")

POLICY = 1008
"""Their one close code for whatever is wrong."""

_NOT_FOUND = {"voice": "voice_not_found", "model": "model_not_found"}


class InputTimedOut(ServingError):
    """The client has sent nothing for too long."""

    code = "input_timeout_exceeded"
    status = 408


def word(error: ServingError) -> str:
    """What they call it."""
    if isinstance(error, InputInvalid) and error.param in _NOT_FOUND:
        return _NOT_FOUND[error.param]
    if isinstance(error, Overloaded):
        return "system_busy"
    if isinstance(error, InputTooLarge):
        return "text_too_long"
    if isinstance(error, Draining):
        return "service_unavailable"
    return error.code


def message(error: ServingError, context: str | None = None) -> dict[str, Any]:
    """A message on a socket; `context` where it concerns one of several."""
    told: dict[str, Any] = {"message": error.message, "error": word(error), "code": POLICY}
    if error.param is not None:
        told["param"] = error.param
    if isinstance(error, Overloaded):
        told["retry_after"] = round(error.retry_after, 3)
    if context is not None:
        told["contextId"] = context
    return told


def response(error: ServingError) -> web.Response:
    """The answer to a request that failed, with Retry-After where trying again may help."""
    answer = error_response(error)
    status = answer.status
    detail: Any
    if isinstance(error, FieldInvalid) and error.param is not None:
        status = 422
        where = ["body", *error.param.replace("[", ".").replace("]", "").split(".")]
        detail = [{"loc": where, "msg": error.message, "type": error.code}]
    else:
        if isinstance(error, InputInvalid) and error.param in _NOT_FOUND:
            status = 404
        detail = {
            "status": word(error),
            "message": error.message,
            "type": error_type(status),
            "code": word(error),
            "param": error.param,
        }
    kept = {name: answer.headers[name] for name in ("Retry-After", "WWW-Authenticate") if name in answer.headers}
    return web.json_response({"detail": detail}, status=status, headers=kept)


@web.middleware
async def elevenlabs_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give what fails on their paths their form; everything else passes."""
    try:
        return await handler(request)
    except ServingError as error:
        if not request.path.startswith(PATHS):
            raise
        if http_status(error) >= 500:
            log.warning("%s %s: %s: %s", request.method, request.path, error.code, error.message)
        return response(error)
