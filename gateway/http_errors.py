"""Errors as OpenAI's clients expect them: {"error": {message, type, code, param}} with the right status."""

from __future__ import annotations

import logging
import math

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from workers.errors import InputInvalid, Overloaded, ServingError

log = logging.getLogger("speechlane.http")

UNAVAILABLE_RETRY = 5.0
"""Seconds after which a client may ask again when the service is loading, draining or repairing something."""

CLIENT_GONE = 499


class ModelNotFound(InputInvalid):
    """The named model is not loaded here."""

    code = "model_not_found"
    status = 404


def error_fields(error: ServingError) -> dict[str, str | None]:
    """The `error` object of OpenAI's protocols, HTTP and Realtime alike."""
    return {
        "message": error.message,
        "type": error_type(http_status(error)),
        "code": error.code,
        "param": error.param,
    }


def error_type(status: int) -> str:
    """OpenAI's class of error for an HTTP status."""
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"


def http_status(error: ServingError) -> int:
    """The status on this wire: OpenAI answers an invalid value with 400 where the rest of the house says 422."""
    return 400 if error.status == 422 else error.status


def error_response(error: ServingError) -> web.Response:
    """The whole answer to a request that failed, with Retry-After where trying again may help."""
    status = http_status(error)
    response = web.json_response({"error": error_fields(error)}, status=status)
    if isinstance(error, Overloaded):
        response.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    elif status == 503:
        response.headers["Retry-After"] = str(math.ceil(UNAVAILABLE_RETRY))
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


@web.middleware
async def errors_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever a handler raises into an error answer; what nobody foresaw is logged with its traceback."""
    try:
        return await handler(request)
    except ServingError as error:
        if error.status >= 500:
            log.warning("%s %s: %s: %s", request.method, request.path, error.code, error.message)
        return error_response(error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return _plain_http_error(request, error)
    except ConnectionError:
        return web.Response(status=CLIENT_GONE)  # nobody is there to read it; it is for the counters
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return error_response(ServingError("The service failed on this request; its log says why."))


def hide_requests_in_logs() -> None:
    """Keep aiohttp from logging the bytes of requests that it cannot parse: a client's key may be among them."""
    logging.getLogger("aiohttp.server").addFilter(_without_request)


def _without_request(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError | web.RequestPayloadError):
        record.msg, record.args = "a request could not be parsed: %s", (type(error).__name__,)
        record.exc_info, record.levelno, record.levelname = None, logging.WARNING, "WARNING"
    return True


def _plain_http_error(request: web.Request, error: web.HTTPException) -> web.Response:
    messages = {
        404: f"There is nothing at {request.method} {request.path[:200]}.",
        405: f"{request.path[:200]} does not take {request.method}.",
    }
    fields = {
        "message": messages.get(error.status, error.reason),
        "type": error_type(error.status),
        "code": "not_found" if error.status == 404 else None,
        "param": None,
    }
    response = web.json_response({"error": fields}, status=error.status)
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response
