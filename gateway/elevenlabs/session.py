"""One socket: a single stream of speech, or several contexts, created, fed and ended by messages."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from aiohttp import WSMessage, WSMsgType

from gateway.elevenlabs import errors
from gateway.elevenlabs.context import Context
from gateway.elevenlabs.errors import InputTimedOut
from gateway.elevenlabs.messages import Message, context_of, parse
from gateway.elevenlabs.options import Asked, refuse_dictionaries
from gateway.sockets import Close, Connection
from gateway.speak.account import Account
from gateway.speak.fields import FieldInvalid
from gateway.state import Service
from workers.errors import BackendFailed, InputTooLarge, Overloaded, ServingError

if TYPE_CHECKING:
    from speech.engine import Engine

log = logging.getLogger("speechlane.elevenlabs")

LEAD = 10.0
"""Seconds of sound made ahead of the listener, who reports nothing and may keep what it gets for later."""
CONTEXTS = 5
"""At once on a socket, as with them."""
DEFAULT_CONTEXT = "default"
INLINE_CHARACTERS = 16 * 1024
"""Longer frames are parsed on a thread."""
LOOK_SECONDS = 0.5
"""Between looks for contexts that nobody feeds."""


class TooManyContexts(ServingError):
    """The socket has as many contexts as it may have."""

    code = "max_active_contexts_exceeded"
    status = 429


class StreamSession:
    """Lives on one connection; `several` tells which of the two endpoints it is. `run` it, then `close` it."""

    def __init__(self, connection: Connection, service: Service, asked: Asked, several: bool) -> None:
        self.refusal: ServingError | None = None
        """Why the socket is closed on the client, who is still to be told."""
        self._connection, self._service, self._asked, self._several = connection, service, asked, several
        self._engine: Engine = service.engine
        self._contexts: dict[str | None, Context] = {}
        self._gate = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None
        self._looker = asyncio.create_task(self._end_idle(), name="idle contexts")
        self._begun = asyncio.get_running_loop().time()

    async def run(self, first: WSMessage | None) -> None:
        """Speak the protocol until the connection ends; then let what is being said come to its end, if it can."""
        if first is not None:
            await self._take(first)
        async for frame in self._connection.frames():
            await self._take(frame)
        ending = self._connection.ending
        if ending is not None and ending.finalise and self._contexts:
            log.info("a socket ends, %s: %s", ending.code.name.lower(), ending.reason)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._connection.limits.finish_seconds):
                    await self._end_all()

    async def close(self) -> None:
        """Free every context."""
        tasks = [task for task in (self._looker, self._closing) if task is not None]
        for task in tasks:
            task.cancel()
        closing = [context.close() for context in list(self._contexts.values())]
        await asyncio.gather(*tasks, *closing, return_exceptions=True)

    async def _take(self, frame: WSMessage) -> None:
        name: str | None = None
        try:
            if frame.type is not WSMsgType.TEXT:
                raise FieldInvalid("Send messages as JSON text, not binary.", code="invalid_input_message")
            if len(frame.data) <= INLINE_CHARACTERS:
                message = parse(frame.data)
            else:
                message = await asyncio.to_thread(parse, frame.data)
            name = (message.context_id or DEFAULT_CONTEXT) if self._several else None
            await self._carry_out(message, name)
        except ServingError as error:
            if error.status >= 500:
                log.warning("a message failed: %s: %s", error.code, error.message)
            if self._several and name is None and frame.type is WSMsgType.TEXT:
                name = context_of(frame.data)
            self._refuse(error, name)
        except Exception as error:
            log.exception("a message failed")
            self._refuse(BackendFailed(f"The service failed on this message: {type(error).__name__}."), name)

    async def _carry_out(self, message: Message, name: str | None) -> None:
        if message.close_socket and self._several:
            # Not here: what is being said may take a while, and the client may want to go meanwhile.
            self._closing = self._closing or asyncio.create_task(self._close_socket(), name="close socket")
            return
        context = self._contexts.get(name)
        if message.close_context and self._several:
            if context is None:
                raise FieldInvalid(
                    f"There is no context {name!r} to close.", code="unknown_context", param="context_id"
                )
            await context.stop()
        elif message.text is None and not message.flush:
            raise FieldInvalid("Missing required parameter: 'text'.", code="missing_required_parameter", param="text")
        elif message.text == "" and not self._several:
            await self._end(context)
        elif context is not None:
            await context.text(message.text or "", message.voice_settings, flush=message.flush)
        elif message.text:
            context = await self._open(message, name)
            # The blank that opens a stream is not a part of what it says.
            if not message.text.isspace():
                await context.text(message.text, flush=message.flush)
        elif message.flush:
            raise FieldInvalid("There is nothing to flush; send text first.", code="unknown_context", param="flush")

    async def _open(self, message: Message, name: str | None) -> Context:
        refuse_dictionaries(message.pronunciation_dictionary_locators)
        if self._closing is not None:
            raise FieldInvalid("The socket is being closed; open another one.", code="socket_closing", param="text")
        if len(self._contexts) >= (CONTEXTS if self._several else 1):
            raise TooManyContexts(
                f"{len(self._contexts)} contexts are open, which is the most a socket can have; close one first.",
                param="context_id",
            )
        self._service.refuse_when_draining()
        config = self._asked.config(message.voice_settings, message.generation_config, LEAD)
        try:
            speaker = self._engine.open_speech(config)
        except Overloaded as error:
            self._service.metrics.refused("speech", error.code)
            raise
        context = Context(
            name,
            speaker,
            self._asked.form,
            message.voice_settings,
            self._connection,
            Account(self._service.metrics, "live"),
            self._gate,
            self._ended,
        )
        self._contexts[name] = context
        return context

    async def _end(self, context: Context | None) -> None:
        """The only stream of the socket ends, and the socket after it."""
        if context is not None:
            await context.end()
        else:
            self._connection.send({"audio": None, "isFinal": True, "alignment": None, "normalizedAlignment": None})
            self._stop()

    def _ended(self, context: Context, error: ServingError | None) -> None:
        if self._contexts.get(context.name) is context:
            del self._contexts[context.name]
        if not self._several:
            self._stop(error)
        elif error is not None:
            self._connection.send(errors.message(error, context.name))

    def _stop(self, refusal: ServingError | None = None) -> None:
        """Close the socket, on a client that is told why if there is anything to tell."""
        self.refusal = self.refusal or refusal
        self._connection.stop(Close.NORMAL, "")

    async def _end_all(self) -> None:
        contexts = list(self._contexts.values())
        for context in contexts:
            with suppress(ServingError):  # it has failed in the meantime, and says so itself
                await context.end()
        for context in contexts:
            await context.finished()

    async def _close_socket(self) -> None:
        await self._end_all()
        self._stop()

    async def _end_idle(self) -> None:
        """Streams that nobody feeds would keep their share of the device."""
        loop, patience = asyncio.get_running_loop(), self._asked.inactivity
        late = InputTimedOut(
            f"No text came for {patience:g} s; send text in time, or an empty one when there is no more."
        )
        while True:
            await asyncio.sleep(min(LOOK_SECONDS, patience / 4))
            now = loop.time()
            for context in list(self._contexts.values()):
                if now - context.idle_since >= patience and not context.ending:
                    if not self._several:
                        self.refusal = late
                    with suppress(ServingError):  # it has failed in the meantime, and says so itself
                        await context.end()
            if not self._several and not self._contexts and now - self._begun >= patience:
                self._stop(late)

    def _refuse(self, error: ServingError, name: str | None) -> None:
        # What the client did wrong it can do better; without a stream to go on with there is nothing else to wait for.
        better = isinstance(error, FieldInvalid | InputTooLarge)
        if self._several or self._contexts or better:
            self._connection.send(errors.message(error, name))
        else:
            self._stop(error)
