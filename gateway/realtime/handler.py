"""GET /v1/realtime: who may come in, in which shape of the protocol, and the upgrade to a WebSocket."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, cast, get_args

from aiohttp import web
from multidict import MultiMapping

from gateway.auth import IDENTITY
from gateway.http_errors import ModelNotFound, error_fields
from gateway.realtime.config import Shape, initial
from gateway.realtime.conversation import ConversationSession, open_conversation
from gateway.realtime.conversation import messages as conversation
from gateway.realtime.kept import Kept
from gateway.realtime.live import LiveSession, requested_stream
from gateway.realtime.messages import Include, Session
from gateway.realtime.parking import PARKING, Parking
from gateway.realtime.parse import RequestError
from gateway.realtime.resumable import ResumableSession, patient
from gateway.realtime.session import TranscriptionSession
from gateway.realtime.shared_session import SharedSession, continuable, track_of
from gateway.realtime.starting import begun, heard_by, kind
from gateway.shared.limits import SEAT
from gateway.shared.sessions import NotThere, name_of
from gateway.sockets import Connection, limits_of
from gateway.state import SERVICE, Service
from gateway.upgrades import check_upgrade, subprotocols
from workers.errors import InputInvalid, Overloaded, ServingError

if TYPE_CHECKING:
    from speech.continuing import Continuable

SUBPROTOCOL = "realtime"
BETA_SUBPROTOCOL = "openai-beta.realtime-v1"
_NUMBER = re.compile("[0-9]{1,15}", re.ASCII)

OPENAI_VOICE_MODELS = ("gpt-realtime", "gpt-4o-realtime", "gpt-4o-mini-realtime", "gpt-audio")
"""How the names of OpenAI's voice models begin, which stand for the assistant of this service."""


async def realtime_handler(request: web.Request) -> web.StreamResponse:
    """Speak OpenAI's transcription sessions, or its conversations, on a WebSocket.

    Query: `intent` (transcription or conversation; left out, the model tells), `model` (of the kind that is meant),
    `include` (one or several, also separated by commas), `resume=1` for a session that may be resumed, and
    `session=TOKEN&last_event=N` to resume it. Whoever is not admitted is told so before the upgrade: 503 with
    Retry-After.
    """
    service = request.app[SERVICE]
    try:
        _check(request)
        # None of these waits for anything, so that a refusal costs the client one round trip.
        if "session" in request.query:
            return await _resume(request, service)
        async with AsyncExitStack() as held:
            held.enter_context(service.session(request[IDENTITY], "realtime"))
            return await _serve(request, service, held)
    except Overloaded as error:
        service.metrics.refused("session", error.code)
        fields = error_fields(error) | {"type": "server_error"}
        retry = str(max(1, math.ceil(error.retry_after)))
        return web.json_response({"error": fields}, status=503, headers={"Retry-After": retry})
    except ServingError as error:
        service.metrics.refused("session", error.code)
        raise


async def _serve(request: web.Request, service: Service, held: AsyncExitStack) -> web.StreamResponse:
    """A new session; `held` frees its place at the end."""
    engine, model = service.engine, request.query.get("model") or None
    starting = request[IDENTITY].session
    talks = _is_conversation(request.query.get("intent") or kind(starting), model, service)
    resumable = _wants_resume(request.query, talks)
    session: Session | conversation.Session
    if talks:
        session = open_conversation(engine, service.assistant.name, _included(request.query, conversation.INCLUDE))
        model = None
    else:
        default: str = engine.resolve(None)
        session = initial(model or default, _included(request.query, get_args(Include)))
    try:
        if starting is not None:
            if talks != (kind(starting) == "conversation"):
                raise InputInvalid(f"This client secret is for a {kind(starting)}.", param="intent")
            session = begun(service, starting, session)
            model = heard_by(session)
        config = requested_stream(engine, session, model)
    except RequestError as error:
        raise ModelNotFound(error.message, param="model") from None
    parking = request.app[PARKING]
    if resumable:
        config = patient(config, service.settings.resume_seconds)
    shared = parking.shared if resumable else None
    transcriber = continuable(engine, config) if shared is not None else engine.open_stream(config)
    held.push_async_callback(transcriber.close)
    service.metrics.session_started("realtime")
    held.callback(service.metrics.session_ended, "realtime")
    async with _connected(request, service) as connection:
        shape = _shape(request)
        if resumable:
            assert isinstance(session, Session)
            kept: ResumableSession
            if shared is not None:
                owner = request[IDENTITY].owner
                kept = SharedSession(
                    connection, service, cast("Continuable", transcriber), session, config, shape, parking, owner
                )
                kept.begin()
            else:
                kept = ResumableSession(connection, service, transcriber, session, config, shape, parking)
            parking.begin(kept, request[IDENTITY], held.pop_all())
            await kept.visit.over.wait()
            return connection.ws
        live: LiveSession
        if isinstance(session, conversation.Session):
            live = ConversationSession(connection, service, transcriber, session, config, shape)
        else:
            live = TranscriptionSession(connection, service, transcriber, session, config, shape)
        try:
            await live.run()
        finally:
            await live.close()
    return connection.ws


async def _resume(request: web.Request, service: Service) -> web.StreamResponse:
    """A session that waits, or whose connection is dead without anybody having noticed, goes on on this one."""
    service.refuse_when_draining()
    token, parking = request.query["session"], request.app[PARKING]
    after, taken = (_number(request.query, name) for name in ("last_event", "taken"))
    if parking.shared is not None and not await parking.is_here(token, request[IDENTITY]):
        return await _go_on(request, service, parking, after, taken)
    session = parking.find(token, request[IDENTITY], after)
    async with _connected(request, service, session.seconds_left) as connection:
        await session.take_up(connection, after)
    return connection.ws


async def _go_on(
    request: web.Request, service: Service, parking: Parking, after: int, taken: int
) -> web.StreamResponse:
    """A session that another gateway has kept goes on here."""
    token, identity, shared, engine = request.query["session"], request[IDENTITY], parking.shared, service.engine
    assert shared is not None
    fence, fields = await shared.claim(name_of(token), identity.owner, after, taken)
    try:
        kept = Kept.read(fields)
    except ValueError as error:
        raise NotThere(f"The session cannot go on here: {error}. Begin another one.", param="session") from None
    limits, seat = service.guard.limits, kept.state["seat"]
    if limits is not None and seat is not None:
        SEAT.set(limits.go_on(identity.owner, seat))
    async with AsyncExitStack() as held:
        held.enter_context(service.session(identity, "realtime", kept.state["id"]))
        try:
            config = requested_stream(engine, kept.session, heard_by(kept.session))
        except RequestError as error:
            raise Overloaded(f"Not at this gateway: {error.message}", retry_after=1.0) from None
        config, track = patient(config, service.settings.resume_seconds), track_of(kept)
        transcriber = continuable(engine, config, track)
        held.push_async_callback(transcriber.close)
        service.metrics.session_started("realtime")
        held.callback(service.metrics.session_ended, "realtime")
        async with _connected(request, service, kept.seconds_left) as connection:
            session = SharedSession(
                connection, service, transcriber, kept.session, config, kept.shape, parking, identity.owner, kept
            )
            session.go_on(token, fence, after)
            parking.begin(session, identity, held.pop_all())
            await session.visit.over.wait()
    return connection.ws


@asynccontextmanager
async def _connected(request: web.Request, service: Service, seconds: float | None = None) -> AsyncIterator[Connection]:
    """The WebSocket of a request, open; `seconds` are what is left to its session, None: all."""
    limits = limits_of(request.app, service.settings)
    ws = web.WebSocketResponse(
        protocols=(SUBPROTOCOL,),
        max_msg_size=limits.max_message_bytes,
        autoping=False,
        # Base64 of audio hardly shrinks, and a zlib state for each session would cost more than it saves.
        compress=False,
    )
    await ws.prepare(request)
    connection = Connection(ws, request, limits)
    connection.open(service.draining, seconds)
    try:
        yield connection
    finally:
        await connection.close()


def _check(request: web.Request) -> None:
    """Raises `InputInvalid` for a request that asks for something else than this."""
    intent = request.query.get("intent")
    if intent not in (None, "transcription", "conversation"):
        raise InputInvalid("intent can be transcription or conversation.", param="intent")
    check_upgrade(request, (SUBPROTOCOL,))


def _number(query: MultiMapping[str], name: str) -> int:
    given = query.get(name, "0")
    if not _NUMBER.fullmatch(given):
        told = {"last_event": "the sequence of the last event that has come", "taken": "events of the last x.taken"}
        raise InputInvalid(f"{name} is {told[name]}.", param=name)
    return int(given)


def _wants_resume(query: MultiMapping[str], talks: bool) -> bool:
    wish = query.get("resume", "0")
    if wish not in ("0", "1"):
        raise InputInvalid("resume is 1 for a session that can be resumed, else 0.", param="resume")
    if wish == "1" and talks:
        raise InputInvalid("A conversation cannot be resumed; leave resume out.", param="resume")
    return wish == "1"


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


def _shape(request: web.Request) -> Shape:
    beta = "realtime" in request.headers.get("OpenAI-Beta", "") or BETA_SUBPROTOCOL in subprotocols(request)
    return Shape.BETA if beta else Shape.GA


def _included(query: MultiMapping[str], known: Sequence[str]) -> list[Any]:
    chosen: list[Any] = []
    for value in [*query.getall("include", []), *query.getall("include[]", [])]:
        for name in value.split(","):
            if name not in known:
                raise InputInvalid(f"There is no {name[:100]!r} to include, but {', '.join(known)}.", param="include")
            chosen.append(name)
    return chosen
