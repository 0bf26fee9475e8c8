"""GET /v1/speak: who may come in, and the upgrade to a WebSocket."""

from __future__ import annotations

import math

from aiohttp import web

from gateway.auth import IDENTITY
from gateway.http_errors import error_fields
from gateway.realtime.items import new_id
from gateway.sockets import Connection, limits_of
from gateway.speak.session import SpeakLimits, SpeakSession
from gateway.state import SERVICE, Service
from gateway.upgrades import check_upgrade
from workers.errors import Overloaded, ServingError

SUBPROTOCOL = "speak"
"""For browsers, which give their key as a second one: openai-insecure-api-key.KEY."""
SPEAK_LIMITS = web.AppKey("speak_limits", SpeakLimits)
"""Overrides the default limits of an application."""

MIB = 1024 * 1024
MESSAGE_BYTES = 4 * MIB
"""A larger message closes the socket with 1009; it leaves room to answer a text that is too long."""
QUEUE_BYTES = 2 * MIB
"""Unsent messages; sound waits at half of it."""


async def speak_handler(request: web.Request) -> web.StreamResponse:
    """Speak on a WebSocket; whoever is not admitted is told so before the upgrade: 503 with Retry-After."""
    service = request.app[SERVICE]
    try:
        check_upgrade(request, (SUBPROTOCOL,))
        with service.session(request[IDENTITY], "speak", new_id("speak")):
            return await _serve(request, service)
    except Overloaded as error:
        service.metrics.refused("session", error.code)
        fields = error_fields(error) | {"type": "server_error"}
        retry = str(max(1, math.ceil(error.retry_after)))
        return web.json_response({"error": fields}, status=503, headers={"Retry-After": retry})
    except ServingError as error:
        service.metrics.refused("session", error.code)
        raise


async def _serve(request: web.Request, service: Service) -> web.StreamResponse:
    limits = limits_of(request.app, service.settings, max_message_bytes=MESSAGE_BYTES, queue_bytes=QUEUE_BYTES)
    speaking = request.app.get(SPEAK_LIMITS) or SpeakLimits(contexts=service.settings.max_contexts)
    _ = service.engine  # raises while there is none
    service.metrics.session_started("speak")
    try:
        ws = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,),
            max_msg_size=limits.max_message_bytes,
            autoping=False,
            compress=False,
        )
        await ws.prepare(request)
        connection = Connection(ws, request, limits)
        connection.open(service.draining)
        try:
            session = SpeakSession(connection, service, speaking)
            try:
                await session.run()
            finally:
                await session.close()
        finally:
            await connection.close()
    finally:
        service.metrics.session_ended("speak")
    return ws
