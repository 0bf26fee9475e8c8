"""Who a request comes from: an API key by header, browser subprotocol or message, or anybody on this machine.

A key is compared in constant time with every configured key and never leaves this module: everywhere else a client is
an `Identity`, which is what limits are counted by and what logs show.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from workers.errors import ServingError

SUBPROTOCOL_PREFIX = "openai-insecure-api-key."
"""Browsers cannot set a header on a WebSocket; OpenAI's clients send the key as this subprotocol instead."""

KEY_SCHEMES = ("bearer", "token")
"""Words before a key: in the header Authorization, or as Deepgram's browsers have it the subprotocol before it."""

OPEN_PATHS = ("/", "/jobs", "/voice", "/healthz", "/readyz")
OPEN_PREFIXES = ("/static/",)

KEY_MAY_FOLLOW = tuple(f"/v1/text-to-speech/{{voice_id}}/{name}" for name in ("stream-input", "multi-stream-input"))
"""Routes of sockets whose client may send its key as a part of the first message instead; their handlers ask for it."""


class Unauthorized(ServingError):
    """The API key is missing or wrong."""

    code = "invalid_api_key"
    status = 401


class Forbidden(ServingError):
    """The request comes from a web page that may not use this service."""

    code = "origin_not_allowed"
    status = 403


@dataclass(frozen=True, slots=True)
class Identity:
    """A client as limits and logs know it: "local" without keys, else "key-1", "key-2"... in configured order."""

    name: str
    owner: str = field(default="", compare=False)
    """Whose the things are that outlive the service: "" without keys, else the same for a key wherever it stands in
    the configuration, so that nobody inherits another's jobs when a key is added or withdrawn."""


LOCAL = Identity("local")
IDENTITY = web.RequestKey("identity", Identity)


class Guard:
    """Tells who a request comes from. Without keys only this machine may ask, and no foreign web page."""

    def __init__(self, keys: Sequence[str]) -> None:
        # Digests have one length, so that the comparison's time does not tell the length of a key.
        self._digests = [_digest(key) for key in keys]
        self._owners = [f"key-{_digest(f'owner of jobs: {key}').hex()[:16]}" for key in keys]

    @property
    def open(self) -> bool:
        """True when no key is asked for."""
        return not self._digests

    def identify(self, request: web.BaseRequest) -> Identity:
        """The client's identity; raises `Unauthorized`, or `Forbidden` for a foreign page on an open service."""
        if self.open:
            _check_origin(request)
            return LOCAL
        key = presented_key(request)
        if key is None:
            raise Unauthorized(
                "No API key was given. Send it as 'Authorization: Bearer KEY', or from a browser as the WebSocket "
                f"subprotocol '{SUBPROTOCOL_PREFIX}KEY'."
            )
        return self.identify_key(key)

    def identify_key(self, key: str) -> Identity:
        """Whose key it is; raises `Unauthorized`."""
        identity = self._owner(key)
        if identity is None:
            raise Unauthorized("The API key is wrong. Ask whoever runs this service for a valid one.")
        return identity

    def _owner(self, key: str) -> Identity | None:
        digest, found = _digest(key), None
        for number, known in enumerate(self._digests, 1):
            if hmac.compare_digest(digest, known) and found is None:
                found = Identity(f"key-{number}", self._owners[number - 1])
        return found

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let no request to a guarded path pass without an identity, kept as `request[IDENTITY]`."""
        if not is_open(request.path) and not self._key_may_follow(request):
            request[IDENTITY] = self.identify(request)
        return await handler(request)

    def _key_may_follow(self, request: web.Request) -> bool:
        resource = request.match_info.route.resource
        route = resource.canonical if resource is not None else ""
        return not self.open and presented_key(request) is None and route in KEY_MAY_FOLLOW


def is_open(path: str) -> bool:
    """Whether a path is served to everybody: health and the pages themselves, which hold nothing of anybody's."""
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)


def presented_key(request: web.BaseRequest) -> str | None:
    """The key that a request carries, not yet checked."""
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() in KEY_SCHEMES and value.strip():
        return value.strip()
    offers = [offer.strip() for offer in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    for offered in offers:
        if offered.startswith(SUBPROTOCOL_PREFIX):
            return offered.removeprefix(SUBPROTOCOL_PREFIX)
    if len(offers) > 1 and offers[0] in KEY_SCHEMES:
        return offers[1] or None
    return request.headers.get("xi-api-key", "").strip() or None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _check_origin(request: web.BaseRequest) -> None:
    """An open service trusts the machine, not every page its browser shows.

    A page elsewhere could open a WebSocket to 127.0.0.1, or rebind its own host name to it; so the Host must be a
    loopback one, and an Origin, which browsers always send here, the same host.
    """
    host = _authority(f"//{request.host}")
    if host is None or not _names_loopback(host.hostname):
        raise Forbidden(
            f"Without an API key this service answers to localhost and 127.0.0.1 only, not to {request.host}. "
            "Configure api_keys to use it under another name."
        )
    origin = request.headers.get("Origin")
    page = _authority(origin) if origin is not None else host
    if page is None or page.netloc != host.netloc:
        raise Forbidden(f"Pages of {origin} may not use this service without an API key. Configure api_keys.")


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
