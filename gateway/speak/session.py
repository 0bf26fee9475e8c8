"""One socket of /v1/speak: many contexts, each a stream of speech, created, fed and ended by messages."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import WSMessage, WSMsgType

from gateway.http_errors import error_fields
from gateway.realtime.items import new_id
from gateway.sockets import Connection
from gateway.speak.account import Account
from gateway.speak.context import Context
from gateway.speak.fields import FieldInvalid
from gateway.speak.messages import Cancel, Create, End, Flush, Hold, Message, Playback, Refused, Resume, Text, parse
from gateway.state import Service
from gateway.telemetry.sessions import SESSION
from speech.encode import output_format
from workers.errors import BackendFailed, InputInvalid, Overloaded, ServingError

if TYPE_CHECKING:
    from speech.engine import Engine

log = logging.getLogger("speechlane.speak")

INLINE_CHARACTERS = 16 * 1024
"""Longer frames are parsed on a thread."""
REMEMBERED = 256
"""Names of contexts that are over, kept to say what became of them."""
LOOK_SECONDS = 1.0
"""Between looks for contexts that nobody uses."""
PARAMS = {"format": "format.name", "rate": "format.rate", "language": "policy.language"}
"""Where the wire has another name for what the domain refuses of a new context."""
WHAT_BECAME = {"done": "is done", "cancelled": "was cancelled", "failed": "has failed"}


@dataclass(frozen=True, slots=True)
class SpeakLimits:
    """What one socket may take, beside the limits of every socket. Times in seconds."""

    contexts: int = 16
    """At once."""
    text_characters: int = 64 * 1024
    """Of one message."""
    context_characters: int = 128 * 1024
    """Of one context in all, some two hours of speech."""
    context_idle_seconds: float = 120.0
    """A context for which nothing was said or heard for so long is ended."""


class SpeakSession:
    """Lives on one connection. `run()` it once, then `close()` it in every case."""

    def __init__(self, connection: Connection, service: Service, limits: SpeakLimits) -> None:
        session = SESSION.get()
        self.id = session.id if session is not None else new_id("speak")
        self._connection, self._limits = connection, limits
        self._engine: Engine = service.engine
        self._service, self._metrics = service, service.metrics
        self._contexts: dict[str, Context] = {}
        self._over: OrderedDict[str, str] = OrderedDict()
        self._created = 0
        self._gate = asyncio.Lock()
        self._looker = asyncio.create_task(self._end_idle(), name="idle contexts")

    async def run(self) -> None:
        """Speak the protocol until the connection ends; then let what is being said come to its end, if it can."""
        self._connection.send(
            {
                "type": "ready",
                "session": self.id,
                "expires_at": int(time.time() + self._connection.limits.session_seconds),
                "voices": [voice.name for voice in self._engine.voices()],
                "limits": {
                    "contexts": self._limits.contexts,
                    "text_characters": self._limits.text_characters,
                    "context_characters": self._limits.context_characters,
                },
            }
        )
        async for frame in self._connection.frames():
            await self._take(frame)
        ending = self._connection.ending
        if ending is not None and ending.finalise:
            await self._finalise(ending.code.name.lower())

    async def close(self) -> None:
        """Free every context."""
        self._looker.cancel()
        closing = [context.close() for context in list(self._contexts.values())]
        await asyncio.gather(self._looker, *closing, return_exceptions=True)

    async def _take(self, frame: WSMessage) -> None:
        context = event_id = None
        try:
            if frame.type is not WSMsgType.TEXT:
                raise Refused(FieldInvalid("Send messages as JSON text, not binary.", code="invalid_frame"), {})
            message = await self._parsed(frame.data)
            context, event_id = message.context, message.event_id
            await self._carry_out(message)
        except Refused as refused:
            self._refuse(refused.error, refused.context, refused.event_id)
        except ServingError as error:
            if error.status >= 500:
                log.warning("session %s: %s: %s", self.id, error.code, error.message)
            self._refuse(error, context, event_id)
        except Exception as error:
            log.exception("session %s failed on a message", self.id)
            failed = BackendFailed(f"The service failed on this message: {type(error).__name__}.")
            self._refuse(failed, context, event_id)

    async def _parsed(self, source: str) -> Message:
        if len(source) <= INLINE_CHARACTERS:
            return parse(source, self._limits.text_characters)
        return await asyncio.to_thread(parse, source, self._limits.text_characters)

    async def _carry_out(self, message: Message) -> None:
        if isinstance(message, Create):
            await self._create(message)
            return
        context = self._context(message.context)
        match message:
            case Text():
                await context.text(message.text, flush=message.flush, end=message.end)
            case Flush():
                await context.flush()
            case End():
                await context.end("end")
            case Cancel():
                await context.cancel("cancel")
            case Playback():
                context.playback(message.seconds)
            case Hold():
                context.hold()
            case Resume():
                context.resume()

    async def _create(self, asked: Create) -> None:
        if asked.context in self._contexts:
            raise FieldInvalid(
                f"Context {asked.context!r} is open already; cancel it first, or choose another name.",
                code="context_exists",
                param="context",
            )
        if len(self._contexts) >= self._limits.contexts:
            raise FieldInvalid(
                f"{len(self._contexts)} contexts are open, which is the most a socket can have; end or cancel one.",
                code="too_many_contexts",
                param="context",
            )
        self._service.refuse_when_draining()
        try:
            voice = self._engine.resolve_voice(asked.voice)
            form = output_format(asked.format.name, voice.rate, asked.format.rate)
            config = await asyncio.to_thread(asked.config) if asked.lexicon else asked.config()
            speaker = self._engine.open_speech(config)
        except InputInvalid as error:
            error.param = PARAMS.get(error.param or "", error.param)
            raise
        except Overloaded as error:
            self._metrics.refused("speech", error.code)
            raise
        self._created += 1
        account = Account(self._metrics, "live" if config.lead is not None else "file")
        self._over.pop(asked.context, None)
        context = Context(
            asked,
            self._created,
            speaker,
            form,
            self._connection,
            account,
            self._gate,
            self._limits.context_characters,
            self._ended,
        )
        self._contexts[asked.context] = context
        self._connection.send(
            {
                "type": "created",
                "context": context.name,
                "number": context.number,
                "voice": voice.name,
                "format": {"name": form.name, "rate": form.rate, "media_type": form.media_type},
                "audio": asked.audio,
            }
        )

    def _context(self, name: str) -> Context:
        context = self._contexts.get(name)
        if context is not None:
            return context
        became = self._over.get(name)
        if became is None:
            raise FieldInvalid(
                f"There is no context {name!r}; send create first.", code="unknown_context", param="context"
            )
        raise FieldInvalid(
            f"Context {name!r} {WHAT_BECAME[became]}; create it anew for more.", code="context_over", param="context"
        )

    def _ended(self, context: Context, outcome: str) -> None:
        if self._contexts.get(context.name) is context:
            del self._contexts[context.name]
            self._over[context.name] = outcome
            while len(self._over) > REMEMBERED:
                self._over.popitem(last=False)

    async def _end_idle(self) -> None:
        """A context that is forgotten would keep its share of the device."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for context in list(self._contexts.values()):
                if loop.time() - context.idle_since() < self._limits.context_idle_seconds:
                    continue
                try:
                    await (context.end("idle") if context.open else context.cancel("idle"))
                except ServingError as error:  # it has failed in the meantime, and says so itself
                    log.info("session %s: an idle context: %s", self.id, error.message)

    async def _finalise(self, reason: str) -> None:
        """Speak what was given, as far as the time for it goes; say what was left of the rest."""
        waiting = []
        for context in list(self._contexts.values()):
            with suppress(ServingError):  # it has failed in the meantime, and says so itself
                await context.end(reason)
            waiting.append(context.finished())
        try:
            async with asyncio.timeout(self._connection.limits.finish_seconds):
                await asyncio.gather(*waiting)
        except TimeoutError:
            for context in list(self._contexts.values()):
                await context.cancel(reason)

    def _refuse(self, error: ServingError, context: str | None, event_id: str | None) -> None:
        fields: dict[str, Any] = {**error_fields(error)}
        if isinstance(error, Overloaded):
            fields |= {"code": "at_capacity", "type": "server_error", "retry_after": round(error.retry_after, 3)}
        self._connection.send({"type": "error", "context": context, "event_id": event_id, "error": fields})
