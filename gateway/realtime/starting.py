"""POST /v1/realtime/client_secrets, and the session that whoever comes with such a secret begins with."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.auth import IDENTITY
from gateway.realtime import conversation
from gateway.realtime.config import Shape, described, initial, merged
from gateway.realtime.conversation import shapes
from gateway.realtime.conversation.messages import Session as ConversationSettings
from gateway.realtime.items import new_id
from gateway.realtime.live import requested_stream
from gateway.realtime.messages import Session
from gateway.realtime.parse import RequestError, refusal
from gateway.speak.fields import json_number, mended
from gateway.state import SERVICE, Service
from gateway.uploads import patience
from workers.errors import InputInvalid, InputTooLarge

if TYPE_CHECKING:
    from speech.engine import Engine

BODY_BYTES = 256 * 1024
EXPIRES_SECONDS = 600


class ExpiresAfter(BaseModel):
    """Seconds from the making of a secret to its end."""

    model_config = ConfigDict(strict=True, extra="forbid")

    anchor: str = Field(default="created_at", pattern="^created_at$")
    seconds: int = Field(default=EXPIRES_SECONDS, ge=10, le=7200)


class SecretRequest(BaseModel):
    """What is asked for."""

    model_config = ConfigDict(strict=True, extra="forbid")

    expires_after: ExpiresAfter = ExpiresAfter()
    session: dict[str, Any] = Field(default={"type": "transcription"})


async def client_secrets_handler(request: web.Request) -> web.Response:
    """Make a secret for a browser: good for a while, for sockets alone, at the expense of the key that asks."""
    service = request.app[SERVICE]
    service.refuse_when_draining()
    try:
        asked = SecretRequest.model_validate(await _body(request))
        # What could not begin is refused now, and not in the browser.
        session = begun(service, asked.session, _blank(service, asked.session))
    except ValidationError as error:
        raise _invalid(refusal(error.errors(include_url=False, include_input=False)[0])) from None
    except RequestError as error:
        raise _invalid(error) from None
    value, secret = service.guard.secrets.make(request[IDENTITY], asked.expires_after.seconds, asked.session)
    tell = shapes.described if isinstance(session, ConversationSettings) else described
    shown = tell(session, Shape.GA, new_id("sess"), int(time.time() + service.settings.session_seconds))  # type: ignore[arg-type]
    return web.json_response({"value": value, "expires_at": secret.expires_at, "session": shown})


def kind(fields: dict[str, Any] | None) -> str | None:
    """The intent of a session that begins like this; None: nothing is said of it."""
    if fields is None:
        return None
    return "conversation" if fields.get("type") == "realtime" else "transcription"


def begun(
    service: Service, fields: dict[str, Any], session: Session | ConversationSettings
) -> Session | ConversationSettings:
    """`session` with what `fields` set. Raises `RequestError`, `InputInvalid`."""
    engine: Engine = service.engine
    if isinstance(session, ConversationSettings):
        started: Session | ConversationSettings = conversation.begun(engine, session, fields)
    else:
        try:
            patch = Session.model_validate(fields)
        except ValidationError as error:
            raise refusal(error.errors(include_url=False, include_input=False)[0], "session") from None
        started = merged(session, patch, engine.resolve(None))
    requested_stream(engine, started, heard_by(started))
    return started


def heard_by(session: Session | ConversationSettings) -> str | None:
    """The model that the session names for what comes in."""
    wanted = session.audio.input.transcription
    return wanted.model if wanted is not None else None


def _blank(service: Service, fields: dict[str, Any]) -> Session | ConversationSettings:
    if kind(fields) == "conversation":
        return conversation.open_conversation(service.engine, service.assistant.name, [])
    return initial(service.engine.resolve(None))


async def _body(request: web.Request) -> Any:
    body = bytearray()
    async with patience() as progress:
        while piece := await request.content.readany():
            progress.made(len(piece))
            body += piece
            if len(body) > BODY_BYTES:
                raise InputTooLarge(f"The body is longer than {BODY_BYTES} bytes.")
    try:
        source = body.decode()
        return mended(json.loads(source, parse_float=json_number), source) if source else {}
    except (ValueError, RecursionError) as error:
        raise InputInvalid(f"The body is no JSON: {error}") from error


def _invalid(error: RequestError) -> InputInvalid:
    refused = InputInvalid(error.message, param=error.param)
    refused.code = error.code
    return refused
