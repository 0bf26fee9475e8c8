"""Which scope of a key opens which path. What is not named here is open to every key."""

from __future__ import annotations

from gateway.keys.identity import Identity
from gateway.keys.record import Scope
from workers.errors import ServingError

SCOPE_OF: tuple[tuple[str, Scope], ...] = (
    ("/metrics", "admin"),
    ("/v1/status", "admin"),
    ("/v1/realtime", "live"),
    ("/v1/listen", "live"),
    ("/vosk", "live"),
    ("/v1/audio/transcriptions", "live"),
    ("/v1/speak", "speech"),
    ("/v1/audio/speech", "speech"),
    ("/v1/text-to-speech", "speech"),
    ("/v1/batch", "batch"),
    ("/v1/embeddings", "embed"),
    ("/v1/rerank", "embed"),
    ("/v1/collections", "embed"),
    ("/v1/search", "embed"),
    ("/v1/documents", "documents"),
    ("/v1/chat", "vision"),
    ("/v1/images", "vision"),
    ("/v1/videos", "vision"),
)
SOCKETS = ("/v1/realtime", "/v1/speak")
"""All that a client secret opens."""


class ScopeMissing(ServingError):
    """The key is right, but not for this."""

    code = "insufficient_scope"
    status = 403


def check_scope(identity: Identity, path: str) -> None:
    """Raises `ScopeMissing` when this client may not use the path."""
    if identity.session is not None and path not in SOCKETS:
        raise ScopeMissing(f"A client secret opens {' and '.join(SOCKETS)} only; use an API key.")
    scope = scope_of(path)
    if scope is not None and scope not in identity.scopes:
        raise ScopeMissing(
            f"This API key may not use {path[:100]}, which needs the scope {scope!r}; it has: "
            f"{', '.join(sorted(identity.scopes)) or 'none'}."
        )


def scope_of(path: str) -> Scope | None:
    """The scope that a path needs."""
    if path == "/":  # the pages are for everybody; who is asked for a key there opens vosk's socket
        return "live"
    return next((scope for prefix, scope in SCOPE_OF if path == prefix or path.startswith(f"{prefix}/")), None)
