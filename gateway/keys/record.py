"""A key as it is kept: everything but the key itself, of which there is only a salted scrypt hash."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Scope = Literal["live", "speech", "batch", "embed", "documents", "vision", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
USUAL_SCOPES: tuple[Scope, ...] = ("live", "speech", "batch", "embed", "documents", "vision")

PREFIX = "sl_"
_SHAPE = re.compile(r"sl_([a-z0-9]{8})_[A-Za-z0-9_-]{43}")
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_COST = {"n": 2**14, "r": 8, "p": 1}
"""Of scrypt: 16 MiB and some 50 ms."""

Hex = Annotated[str, Field(pattern=r"^([0-9a-f]{2}){16,64}$")]


class KeyLimits(BaseModel):
    """What a key may take; None: as much as there is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sessions: int | None = Field(default=None, ge=1)
    audio_seconds_per_minute: float | None = Field(default=None, gt=0)
    requests_per_minute: int | None = Field(default=None, ge=1)


class Key(BaseModel):
    """`id` is the part of the key by which it is found and recognised. Times in seconds since 1970."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z0-9]{8}$")
    name: str = Field(max_length=100)
    salt: Hex
    digest: Hex
    scopes: tuple[Scope, ...] = USUAL_SCOPES
    limits: KeyLimits = KeyLimits()
    weight: float = Field(default=1.0, gt=0, le=1000)
    created: float
    expires: float | None = None
    revoked: float | None = None

    @property
    def prefix(self) -> str:
        """The beginning of the key, which says nothing about the rest of it."""
        return f"{PREFIX}{self.id}"

    def state(self, now: float) -> Literal["valid", "expired", "revoked"]:
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "valid"

    def fits(self, key: str) -> bool:
        """Whether this is the key. Takes some 50 ms of a CPU: not for the event loop."""
        return hmac.compare_digest(_hash(key, bytes.fromhex(self.salt)), bytes.fromhex(self.digest))


def made(
    name: str,
    scopes: tuple[Scope, ...] = USUAL_SCOPES,
    limits: KeyLimits | None = None,
    weight: float = 1.0,
    expires: float | None = None,
) -> tuple[str, Key]:
    """A new key, and the record of it that is kept."""
    id = "".join(secrets.choice(_ALPHABET) for _ in range(8))
    key, salt = f"{PREFIX}{id}_{secrets.token_urlsafe(32)}", secrets.token_bytes(16)
    record = Key(
        id=id,
        name=name,
        salt=salt.hex(),
        digest=_hash(key, salt).hex(),
        scopes=scopes,
        limits=limits or KeyLimits(),
        weight=weight,
        created=time.time(),
        expires=expires,
    )
    return key, record


def id_of(key: str) -> str | None:
    """Which record would be that of a key; None for what cannot be one."""
    found = _SHAPE.fullmatch(key)
    return found[1] if found else None


def _hash(key: str, salt: bytes) -> bytes:
    return hashlib.scrypt(key.encode(), salt=salt, dklen=32, **_COST)
