"""What a request has to be so that it can become a WebSocket, whatever is spoken on it."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from workers.errors import InputInvalid, ServingError


class UpgradeRequired(ServingError):
    """The client asked for a WebSocket's address without asking for a WebSocket."""

    code = "upgrade_required"
    status = 426


def subprotocols(request: web.Request) -> list[str]:
    """What the client offers to speak."""
    return [offer.strip() for offer in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if offer.strip()]


def check_upgrade(request: web.Request, known: Sequence[str], *, otherwise: str = "") -> None:
    """Raises `InputInvalid` for offers of which none is `known`, `UpgradeRequired` for what is no WebSocket.

    `otherwise`: what else can be done at this address.
    """
    offered = subprotocols(request)
    # aiohttp logs offers of which it knows none, and one of them may be the client's key.
    if offered and not set(offered) & set(known):
        remedy = (
            f"one of the WebSocket subprotocols {', '.join(known)}, or none" if known else "no WebSocket subprotocol"
        )
        raise InputInvalid(f"Offer {remedy}.", param="Sec-WebSocket-Protocol")
    try:
        possible = bool(web.WebSocketResponse(protocols=known).can_prepare(request))
    except UnicodeEncodeError:  # aiohttp's refusal repeats a header, which was no UTF-8
        possible = False
    if not possible:
        raise UpgradeRequired(f"This is a WebSocket; connect to it with ws:// or wss://{otherwise}.")
