"""GET /v1/realtime: who may come in, in which shape of the protocol, and the upgrade to a WebSocket."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, get_args

from aiohttp import web
from multidict import MultiMapping

from gateway.auth import IDENTITY
from gateway.http_errors import ModelNotFound, error_fields
from gateway.realtime.config import Shape, initial
from gateway.realtime.conversation import ConversationSession, open_conversation
from gateway.realtime.conversation import messages as conversation
from gateway.realtime.live import LiveSession, requested_stream
from gateway.realtime.messages import Include, Session
from gateway.realtime.parse import RequestError
from gateway.realtime.session import TranscriptionSession
from gateway.sockets import LIMITS, Connection, SocketLimits
from gateway.state import SERVICE, Service
from workers.errors import InputInvalid, Overloaded, ServingError

SUBPROTOCOL = "realtime"
BETA_SUBPROTOCOL = "openai-beta.realtime-v1"

OPENAI_VOICE_MODELS = ("gpt-realtime", "gpt-4o-realtime", "gpt-4o-mini-realtime", "gpt-audio")
"""How the names of OpenAI's voice models begin, which stand for the assistant of this service."""


async def realtime_handler(request: web.Request) -> web.StreamResponse:
    """Speak OpenAI's transcription sessions, or its conversations, on a WebSocket.

    Query: `intent` (transcription or conversation; left out, the model tells), `model` (of the kind that is meant),
    `include` (one or several, also separated by commas). Whoever is not admitted is told so before the upgrade: 503
    with Retry-After.
    """
    service = request.app[SERVICE]
    try:
        _check(request)
        # None of these waits for anything, so that a refusal costs the client one round trip.
        with service.session(request[IDENTITY]):
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
    engine, model = service.engine, request.query.get("model") or None
    talks = _is_conversation(request.query.get("intent"), model, service)
    session: Session | conversation.Session
    if talks:
        session = open_conversation(engine, service.assistant.name, _included(request.query, conversation.INCLUDE))
        model = None
    else:
        default: str = engine.resolve(None)
        session = initial(model or default, _included(request.query, get_args(Include)))
    try:
        config = requested_stream(engine, session, model)
    except RequestError as error:
        raise ModelNotFound(error.message, param="model") from None
    limits = request.app.get(LIMITS) or SocketLimits(session_seconds=service.settings.session_seconds)
    transcriber = engine.open_stream(config)
    service.metrics.session_started()
    try:
        ws = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,),
            max_msg_size=limits.max_message_bytes,
            autoping=False,
            # Base64 of audio hardly shrinks, and a zlib state for each session would cost more than it saves.
            compress=False,
        )
        await ws.prepare(request)
        connection = Connection(ws, request, limits)
        connection.open(service.draining)
        try:
            shape = _shape(request)
            live: LiveSession
            if isinstance(session, conversation.Session):
                live = ConversationSession(connection, service, transcriber, session, config, shape)
            else:
                live = TranscriptionSession(connection, service, transcriber, session, config, shape)
            try:
                await live.run()
            finally:
                await live.close()
        finally:
            await connection.close()
    finally:
        service.metrics.session_ended()
        await transcriber.close()
    return ws


def _check(request: web.Request) -> None:
    """Raises `InputInvalid` for a request that asks for something else than this."""
    intent = request.query.get("intent")
    if intent not in (None, "transcription", "conversation"):
        raise InputInvalid("intent can be transcription or conversation.", param="intent")
    offered = _subprotocols(request)
    # aiohttp logs offers of which it knows none, and one of them may be the client's key.
    if offered and SUBPROTOCOL not in offered:
        raise InputInvalid(f"Offer the WebSocket subprotocol {SUBPROTOCOL!r}, or none.", param="Sec-WebSocket-Protocol")
    if not web.WebSocketResponse(protocols=(SUBPROTOCOL,)).can_prepare(request):
        raise UpgradeRequired("This is a WebSocket; connect to it with ws:// or wss://.")


def _is_conversation(intent: str | None, model: str | None, service: Service) -> bool:
    """Which kind of session is asked for. Without an intent it is the one that has a model of that name.

    Raises `ModelNotFound`.
    """
    if intent == "transcription" or (intent is None and model is None):
        return False
    known = model is None or model == service.assistant.name or model.startswith(OPENAI_VOICE_MODELS)
    if intent is None:
        with suppress(InputInvalid):
            service.engine.resolve(model)
            return False
    elif not known:
        raise ModelNotFound(
            f"The model {str(model)[:100]!r} does not answer here; there is: {service.assistant.name}.", param="model"
        )
    return known


class UpgradeRequired(ServingError):
    """The client asked by plain HTTP."""

    code = "upgrade_required"
    status = 426


def _subprotocols(request: web.Request) -> list[str]:
    return [offer.strip() for offer in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if offer.strip()]


def _shape(request: web.Request) -> Shape:
    beta = "realtime" in request.headers.get("OpenAI-Beta", "") or BETA_SUBPROTOCOL in _subprotocols(request)
    return Shape.BETA if beta else Shape.GA


def _included(query: MultiMapping[str], known: Sequence[str]) -> list[Any]:
    chosen: list[Any] = []
    for value in [*query.getall("include", []), *query.getall("include[]", [])]:
        for name in value.split(","):
            if name not in known:
                raise InputInvalid(f"There is no {name[:100]!r} to include, but {', '.join(known)}.", param="include")
            chosen.append(name)
    return chosen
