"""GET /vosk, and / for clients that know no path: who may come in, and how the socket ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.auth import IDENTITY, KEY_SCHEMES
from gateway.sockets import REASON_BYTES, Connection, limits_of
from gateway.state import SERVICE, Service
from gateway.upgrades import check_upgrade
from gateway.vosk.session import INVALID, VoskSession
from speech.config import StreamConfig
from workers.errors import ServingError

PATH = "/vosk"
MESSAGE_BYTES = 4 * 1024 * 1024
"""Two minutes of 16 kHz sound; a larger message closes the socket with 1009."""


def add_vosk_routes(app: web.Application, page: Handler) -> None:
    """Add the routes of this package. `page` is what browsers get at /, where vosk's clients connect."""

    async def root(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return await page(request)
        # The page is for everybody, which this is not.
        request[IDENTITY] = await request.app[SERVICE].guard.admit(request)
        return await vosk(request)

    app.router.add_get("/", root)
    app.router.add_get(PATH, vosk)


async def vosk(request: web.Request) -> web.StreamResponse:
    """The route. Whoever is not admitted is told so before the upgrade."""
    service = request.app[SERVICE]
    try:
        check_upgrade(request, KEY_SCHEMES)
        with service.session(request[IDENTITY], "vosk"):
            return await _serve(request, service)
    except ServingError as error:
        service.metrics.refused("session", error.code)
        raise


async def _serve(request: web.Request, service: Service) -> web.StreamResponse:
    config = StreamConfig(service.engine.resolve(request.query.get("model") or None))
    limits = limits_of(request.app, service.settings, max_message_bytes=MESSAGE_BYTES)
    transcriber = service.engine.open_stream(config)
    service.metrics.session_started("vosk")
    try:
        ws = web.WebSocketResponse(
            protocols=KEY_SCHEMES, max_msg_size=limits.max_message_bytes, autoping=False, compress=False
        )
        await ws.prepare(request)
        connection = Connection(ws, request, limits)
        connection.open(service.draining)
        try:
            session = VoskSession(connection, service, transcriber, config)
            try:
                await session.run()
            finally:
                await session.close()
            if session.refusal is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(limits.send_seconds):
                        await connection.flushed()
                        await ws.close(code=INVALID, message=_reason(session.refusal))
        finally:
            await connection.close()
    finally:
        service.metrics.session_ended("vosk")
        await transcriber.close()
    return ws


def _reason(text: str) -> bytes:
    return text.encode()[:REASON_BYTES].decode(errors="ignore").encode()
