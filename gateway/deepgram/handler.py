"""GET /v1/listen: who may come in, and how the socket ends."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from aiohttp import web

from gateway.auth import IDENTITY
from gateway.closing import every
from gateway.deepgram.errors import REQUEST_ID
from gateway.deepgram.options import Asked
from gateway.deepgram.session import ListenSession
from gateway.deepgram.sound import Sound
from gateway.sockets import REASON_BYTES, Connection, limits_of
from gateway.state import SERVICE
from gateway.upgrades import check_upgrade
from workers.errors import ServingError

if TYPE_CHECKING:
    from speech.transcriber import Transcriber

SUBPROTOCOLS = ("token", "bearer")
"""What browsers offer, with their key behind it."""
IDLE_SECONDS = 12.0
"""Without sound or a message for so long the socket is closed (NET-0001)."""


async def listen(request: web.Request) -> web.StreamResponse:
    """The route. Whoever is not admitted is told so before the upgrade."""
    service = request.app[SERVICE]
    try:
        check_upgrade(request, SUBPROTOCOLS, otherwise=", or POST a recording")
        with service.session(request[IDENTITY], "deepgram", request[REQUEST_ID]):
            return await _serve(request)
    except ServingError as error:
        service.metrics.refused("session", error.code)
        raise


async def _serve(request: web.Request) -> web.StreamResponse:
    service = request.app[SERVICE]
    engine = service.engine
    asked = Asked(request.query, engine)
    limits = limits_of(request.app, service.settings, idle_seconds=IDLE_SECONDS)
    sound = Sound(asked.query)
    transcribers: list[Transcriber] = []
    with ExitStack() as counted:
        try:
            for _ in range(sound.streams):
                transcribers.append(engine.open_stream(asked.stream))
            service.metrics.session_started("deepgram")
            counted.callback(service.metrics.session_ended, "deepgram")
            ws = web.WebSocketResponse(
                protocols=SUBPROTOCOLS, max_msg_size=limits.max_message_bytes, autoping=False, compress=False
            )
            ws.headers["dg-request-id"] = request[REQUEST_ID]
            await ws.prepare(request)
            connection = Connection(ws, request, limits)
            connection.open(service.draining)
            try:
                session = ListenSession(connection, service, asked, sound, transcribers, request[REQUEST_ID])
                try:
                    await session.run()
                finally:
                    await session.close()
                if session.refusal is not None:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(limits.send_seconds):
                            await connection.flushed()
                            code, reason = session.refusal
                            await ws.close(code=code, message=reason.encode()[:REASON_BYTES])
            finally:
                await connection.close()
        finally:
            await every(*(transcriber.close for transcriber in transcribers), sound.close)
    return ws
