"""Who a request comes from, as everything behind the door knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from gateway.keys.record import SCOPES, KeyLimits, Scope
from workers.fairness import NOBODY, Tenant


@dataclass(frozen=True, slots=True)
class Identity:
    """A client as limits and logs know it: "local" without keys, "key-1", "key-2"... for keys of the configuration in
    their order, the beginning of the key for one that `speechlane keys` has made."""

    name: str
    owner: str = field(default="", compare=False)
    """Whose the things are that outlive the service: "" without keys, else the same for a key wherever it stands in
    the configuration, so that nobody inherits another's jobs when a key is added or withdrawn."""
    scopes: frozenset[Scope] = field(default=frozenset(SCOPES), compare=False)
    limits: KeyLimits = field(default=KeyLimits(), compare=False)
    tenant: Tenant = field(default=NOBODY, compare=False)
    session: dict[str, Any] | None = field(default=None, compare=False)
    """What a session begins with, when the client came with a client secret."""


LOCAL = Identity("local")
IDENTITY = web.RequestKey("identity", Identity)
