"""Client secrets: what a browser gets instead of a key. Made by a key, good for a few minutes, and only for sockets."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.keys.identity import Identity
from workers.errors import Overloaded

PREFIX = "ek_"
MOST = 16_384
MOST_EACH = 4096
"""Secrets at once of one key."""


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """`session` is what its sessions begin with, as its maker gave it. `expires_at` in seconds since 1970."""

    identity: Identity
    session: dict[str, Any]
    expires_at: int


class ClientSecrets:
    """Those of this process that are good still. Only their digests are kept."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._secrets: OrderedDict[bytes, ClientSecret] = OrderedDict()
        self._made = Counter[str]()

    def make(self, identity: Identity, seconds: int, session: dict[str, Any]) -> tuple[str, ClientSecret]:
        """A secret for whoever `identity` trusts. Raises `Overloaded` when there are too many."""
        self._forget()
        if len(self._secrets) >= MOST or self._made[identity.name] >= MOST_EACH:
            raise Overloaded("Too many client secrets are in use; let some expire first.", retry_after=60.0)
        value = f"{PREFIX}{secrets.token_urlsafe(32)}"
        secret = ClientSecret(identity, session, int(self._clock()) + seconds)
        self._secrets[_digest(value)] = secret
        self._made[identity.name] += 1
        return value, secret

    def find(self, value: str) -> ClientSecret | None:
        """The secret of this value, if it is good still. Digests are compared, so that time tells nothing of it."""
        secret = self._secrets.get(_digest(value)) if value.startswith(PREFIX) else None
        return secret if secret is not None and self._clock() < secret.expires_at else None

    def _forget(self) -> None:
        now = self._clock()
        for digest in [digest for digest, secret in self._secrets.items() if now >= secret.expires_at]:
            self._made[self._secrets.pop(digest).identity.name] -= 1
        self._made = +self._made


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()
