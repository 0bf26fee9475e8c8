"""GET .../stream-input and .../multi-stream-input: who may come in, and how a socket ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from aiohttp import WSMessage, WSMsgType, web

from gateway.auth import IDENTITY, Identity, Unauthorized
from gateway.elevenlabs import errors
from gateway.elevenlabs.messages import parse
from gateway.elevenlabs.options import asked
from gateway.elevenlabs.session import StreamSession
from gateway.outbox import encode
from gateway.sockets import Connection, SocketLimits, limits_of
from gateway.state import BUSY_RETRY, SERVICE
from gateway.upgrades import check_upgrade
from workers.errors import Overloaded, ServingError

MIB = 1024 * 1024
MESSAGE_BYTES = MIB
"""A larger message closes the socket with 1009."""
QUEUE_BYTES = 2 * MIB
"""Unsent messages; sound waits at half of it."""
KEY_SECONDS = 10.0
"""A first message with the key in it has to come within this time."""
MOST_UNKNOWN = 32
"""Sockets at once of which nobody knows yet whose they are."""
UNKNOWN = web.AppKey("elevenlabs_unknown", list[None])


async def stream_input(request: web.Request) -> web.StreamResponse:
    """One stream of speech on a socket."""
    return await _serve(request, several=False)


async def multi_stream_input(request: web.Request) -> web.StreamResponse:
    """Several of them."""
    return await _serve(request, several=True)


async def _serve(request: web.Request, *, several: bool) -> web.StreamResponse:
    service = request.app[SERVICE]
    limits = limits_of(request.app, service.settings, max_message_bytes=MESSAGE_BYTES, queue_bytes=QUEUE_BYTES)
    check_upgrade(request, ())
    ws = web.WebSocketResponse(max_msg_size=limits.max_message_bytes, autoping=False, compress=False)
    try:
        with ExitStack() as place:
            _ = service.engine  # raises while there is none
            first: WSMessage | None = None
            if IDENTITY in request:
                place.enter_context(service.session(request[IDENTITY], "elevenlabs"))
                await ws.prepare(request)
            else:
                with _unknown(request.app):
                    await ws.prepare(request)
                    identity, first = await _introduced(ws, request)
                place.enter_context(service.session(identity, "elevenlabs"))
            await _run(ws, request, limits, several, first)
    except ServingError as error:
        service.metrics.refused("session", error.code)
        if not ws.prepared:
            raise
        await _turn_away(ws, error)
    return ws


async def _run(
    ws: web.WebSocketResponse, request: web.Request, limits: SocketLimits, several: bool, first: WSMessage | None
) -> None:
    service = request.app[SERVICE]
    wanted = asked(request, service.engine)
    service.metrics.session_started("elevenlabs")
    try:
        connection = Connection(ws, request, limits)
        connection.open(service.draining)
        try:
            session = StreamSession(connection, service, wanted, several)
            try:
                await session.run(first)
            finally:
                await session.close()
            if session.refusal is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(limits.send_seconds):
                        connection.send(errors.message(session.refusal))
                        await connection.flushed()
                        await ws.close(code=errors.POLICY, message=_reason(session.refusal))
        finally:
            await connection.close()
    finally:
        service.metrics.session_ended("elevenlabs")


@contextmanager
def _unknown(app: web.Application) -> Iterator[None]:
    """One of the places for clients whose key is still to come."""
    waiting = app[UNKNOWN]
    if len(waiting) >= MOST_UNKNOWN:
        raise Overloaded("Too many clients have yet to send their key.", retry_after=BUSY_RETRY)
    waiting.append(None)
    try:
        yield
    finally:
        waiting.pop()


async def _introduced(ws: web.WebSocketResponse, request: web.Request) -> tuple[Identity, WSMessage]:
    """Whose socket it is by the key in its first message, and that message. Raises Unauthorized, FieldInvalid."""
    try:
        async with asyncio.timeout(KEY_SECONDS):
            first: WSMessage = await ws.receive()
    except TimeoutError:
        raise Unauthorized(f"No API key came within {KEY_SECONDS:g} s.") from None
    key = parse(first.data).key if first.type is WSMsgType.TEXT else None
    if key is None:
        raise Unauthorized(
            "No API key was given. Send it as the header xi-api-key, or as xi_api_key with the first text."
        )
    return await request.app[SERVICE].guard.admit_key(key, request), first


async def _turn_away(ws: web.WebSocketResponse, error: ServingError) -> None:
    """Say why, as they do: in a message, and by closing."""
    if not ws.closed:
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(KEY_SECONDS):
                await ws.send_str(encode(errors.message(error)).decode())
                await ws.close(code=errors.POLICY, message=_reason(error))


def _reason(error: ServingError) -> bytes:
    return error.message.encode()[:120].decode(errors="ignore").encode()
