"""Pages of which origins may use this service, and what their browsers are told about it (CORS)."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from workers.errors import ServingError

PREFLIGHT_SECONDS = 600
ALLOWED_HEADERS = (
    "Authorization, Content-Type, xi-api-key, OpenAI-Beta, Range, "
    "Tus-Resumable, Upload-Length, Upload-Offset, Upload-Metadata, Idempotency-Key"
)
EXPOSED_HEADERS = "Retry-After, Location, Content-Range, Upload-Offset, Upload-Length, Tus-Resumable"


class Forbidden(ServingError):
    """The request comes from a web page that may not use this service."""

    code = "origin_not_allowed"
    status = 403


class Origins:
    """`allowed` are the pages that may use it besides its own; () with keys: all of them, since they need the key."""

    def __init__(self, allowed: Collection[str]) -> None:
        self._allowed = frozenset(allowed)

    def check(self, request: web.BaseRequest, *, open: bool) -> None:
        """Raises `Forbidden` for a page that may not ask. `open`: no key is asked for.

        An open service trusts the machine, not every page its browser shows: a page elsewhere could open a WebSocket
        to 127.0.0.1, or rebind its own host name to it; so the Host must be a loopback one, and an Origin, which
        browsers always send here, the same host or one that is allowed.
        """
        host, origin = _authority(f"//{request.host}"), request.headers.get("Origin")
        if open and (host is None or not _names_loopback(host.hostname)):
            raise Forbidden(
                "Without an API key this service answers to localhost and 127.0.0.1 only, not to "
                f"{request.host[:200]}. Configure api_keys to use it under another name."
            )
        if origin is None or origin in self._allowed or (not open and not self._allowed):
            return
        page = _authority(origin)
        if page is None or host is None or page.netloc != host.netloc:
            remedy = "Name it in allowed_origins." if not open else "Configure api_keys, or name it in allowed_origins."
            raise Forbidden(f"Pages of {origin[:200]} may not use this service. {remedy}")

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Tell the browsers of allowed pages that they may, and answer their questions before they ask."""
        origin = request.headers.get("Origin")
        if origin is None or origin not in self._allowed:
            return await handler(request)
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            response: web.StreamResponse = web.Response(status=204)
            response.headers["Access-Control-Allow-Methods"] = "GET, HEAD, POST, PATCH, DELETE"
            response.headers["Access-Control-Allow-Headers"] = ALLOWED_HEADERS
            response.headers["Access-Control-Max-Age"] = str(PREFLIGHT_SECONDS)
            _allow(response, origin)
            return response
        return await handler(request)

    async def on_prepare(self, request: web.Request, response: web.StreamResponse) -> None:
        """Also on answers that are streamed, before their first byte."""
        origin = request.headers.get("Origin")
        if self._allowed:
            response.headers.add("Vary", "Origin")
        if origin is not None and origin in self._allowed:
            _allow(response, origin)


def _allow(response: web.StreamResponse, origin: str) -> None:
    response.headers["Access-Control-Allow-Origin"] = origin
    response.headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS


def _authority(url: str) -> SplitResult | None:
    """The parts of a URL, or None for one that is none: a host in brackets that is no IPv6 address."""
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _names_loopback(host: str | None) -> bool:
    if host is None:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
