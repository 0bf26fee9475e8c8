"""Who a request comes from: an API key by header, browser subprotocol or message, or anybody on this machine.

A key is compared in constant time with every configured key and never leaves this module: everywhere else a client is
an `Identity`, which is what limits are counted by and what logs show.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Sequence
from dataclasses import replace

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.keys.attempts import Attempts
from gateway.keys.budget import BUDGET, Budget, Budgets
from gateway.keys.checking import Checker
from gateway.keys.client_secrets import ClientSecrets
from gateway.keys.identity import IDENTITY, LOCAL, Identity
from gateway.keys.scopes import check_scope
from gateway.keys.store import KeyStore
from gateway.origins import Forbidden, Origins
from gateway.shared.limits import SEAT, SharedLimits
from workers.errors import ServingError
from workers.fairness import TENANT, Tenant
from workers.labels import label

__all__ = ["IDENTITY", "KEY_SCHEMES", "LOCAL", "Forbidden", "Guard", "Identity", "Unauthorized", "presented_key"]

SUBPROTOCOL_PREFIX = "openai-insecure-api-key."
"""Browsers cannot set a header on a WebSocket; OpenAI's clients send the key as this subprotocol instead."""

KEY_SCHEMES = ("bearer", "token")
"""Words before a key: in the header Authorization, or as Deepgram's browsers have it the subprotocol before it."""

OPEN_PATHS = ("/", "/jobs", "/voice", "/vision", "/status", "/docs", "/openapi.json", "/healthz", "/readyz")
OPEN_PREFIXES = ("/static/", "/docs/")

KEY_MAY_FOLLOW = tuple(f"/v1/text-to-speech/{{voice_id}}/{name}" for name in ("stream-input", "multi-stream-input"))
"""Routes of sockets whose client may send its key as a part of the first message instead; their handlers ask for it."""


class Unauthorized(ServingError):
    """The API key is missing or wrong."""

    code = "invalid_api_key"
    status = 401


class Guard:
    """Tells who a request comes from. Without keys only this machine may ask, and no foreign web page.

    `room` is the part of what live sessions may reserve that one of several keys may hold; `proxies` are addresses
    whose X-Forwarded-For is believed; `sessions` is the most of a key that has no limit of its own; `limits` counts for
    all gateways together, None: this one counts for itself.
    """

    def __init__(
        self,
        keys: Sequence[str],
        store: KeyStore | None = None,
        *,
        origins: Origins | None = None,
        room: float = 0.5,
        proxies: Collection[str] = (),
        sessions: int | None = None,
        limits: SharedLimits | None = None,
    ) -> None:
        # Digests have one length, so that the comparison's time does not tell the length of a key.
        self._digests = [_digest(key) for key in keys]
        self._owners = [f"key-{_digest(f'owner of jobs: {key}').hex()[:16]}" for key in keys]
        self._checker = Checker(store) if store is not None else None
        self._attempts = Attempts()
        self._budgets = Budgets()
        self._sessions = sessions
        self.limits = limits
        self._room = room if store is not None or len(keys) > 1 else 1.0
        self._proxies = frozenset(proxies)
        self.origins = origins or Origins(())
        self.secrets = ClientSecrets()

    @property
    def open(self) -> bool:
        """True when no key is asked for."""
        return not self._digests and self._checker is None

    def identify(self, request: web.BaseRequest) -> Identity:
        """Who asks, when that is a matter of the configuration alone; raises `Unauthorized`, `Forbidden`."""
        self.origins.check(request, open=self.open)
        return LOCAL if self.open else self.identify_key(_needed_key(request))

    def identify_key(self, key: str) -> Identity:
        """Whose key of the configuration it is; raises `Unauthorized`."""
        identity = self._owner(key)
        if identity is None:
            raise Unauthorized("The API key is wrong. Ask whoever runs this service for a valid one.")
        return identity

    async def admit(self, request: web.BaseRequest) -> Identity:
        """Who asks, and from here on works at whose expense. Raises `Unauthorized`, `Forbidden`, `ScopeMissing`,
        `TooManyAttempts`, `Overloaded` for a key that has made its requests, `KeysUnavailable`."""
        self.origins.check(request, open=self.open)
        key = presented_key(request)
        if self.open:
            secret = self.secrets.find(key) if key is not None else None
            identity = replace(LOCAL, session=secret.session) if secret is not None else LOCAL
            act_for(identity, None)
            return identity
        return await self.admit_key(_needed_key(request), request)

    async def admit_key(self, key: str, request: web.BaseRequest) -> Identity:
        """The same for a key that came in another way."""
        address = self.address(request)
        if self._checker is None or not await self._checker.knows(key):
            self._attempts.check(address)
        identity = await self._find(key)
        if identity is None:
            self._attempts.failed(address)
            raise Unauthorized("The API key is wrong, or not valid any more. Ask whoever runs this service for one.")
        check_scope(identity, request.path)
        budget = self._budgets.of(identity)
        SEAT.set(None)
        if self.limits is None:
            budget.request()
        else:
            SEAT.set(await self.limits.admit(budget, self._most_sessions(identity, request)))
        act_for(identity, budget)
        return identity

    def _most_sessions(self, identity: Identity, request: web.BaseRequest) -> int | None:
        """Of all that the key may have, for a request that begins one; None: it begins none, or may have any number."""
        begins = request.headers.get("Upgrade", "").lower() == "websocket" and "session" not in request.query
        return (identity.limits.sessions or self._sessions) if begins else None

    def address(self, request: web.BaseRequest) -> str:
        """Where a request comes from: the last address that no trusted proxy has."""
        way = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",") if part.strip()]
        address = request.remote or ""
        while address in self._proxies and way:
            address = way.pop()
        return address

    async def _find(self, key: str) -> Identity | None:
        secret = self.secrets.find(key)
        if secret is not None:
            return replace(secret.identity, session=secret.session)
        identity = self._owner(key)
        record = await self._checker.find(key) if identity is None and self._checker is not None else None
        if record is None:
            return identity
        return Identity(
            record.prefix,
            f"key-{record.id}",
            frozenset(record.scopes),
            record.limits,
            Tenant(record.prefix, record.weight, self._room),
        )

    def _owner(self, key: str) -> Identity | None:
        digest, found = _digest(key), None
        for number, known in enumerate(self._digests, 1):
            if hmac.compare_digest(digest, known) and found is None:
                name = f"key-{number}"
                found = Identity(name, self._owners[number - 1], tenant=Tenant(name, room=self._room))
        return found

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let no request to a guarded path pass without an identity, kept as `request[IDENTITY]`."""
        if not is_open(request.path) and not self._key_may_follow(request):
            request[IDENTITY] = await self.admit(request)
        try:
            return await handler(request)
        finally:
            if (seat := SEAT.get()) is not None and not seat.taken:
                seat.give_back()

    def _key_may_follow(self, request: web.Request) -> bool:
        resource = request.match_info.route.resource
        route = resource.canonical if resource is not None else ""
        return not self.open and presented_key(request) is None and route in KEY_MAY_FOLLOW


def is_open(path: str) -> bool:
    """Whether a path is served to everybody: health and the pages themselves, which hold nothing of anybody's."""
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)


def act_for(identity: Identity, budget: Budget | None) -> None:
    """What is done from here on for this request is done for this client."""
    TENANT.set(identity.tenant)
    label(key=identity.name)
    BUDGET.set(budget)


def _needed_key(request: web.BaseRequest) -> str:
    key = presented_key(request)
    if key is None:
        raise Unauthorized(
            "No API key was given. Send it as 'Authorization: Bearer KEY', or from a browser as the WebSocket "
            f"subprotocol '{SUBPROTOCOL_PREFIX}KEY'."
        )
    return key


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
