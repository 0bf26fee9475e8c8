"""One stream of speech on a socket: what its client asks of it, and its sound on the way out."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.closing import every, stopped
from gateway.elevenlabs.alignment import in_milliseconds
from gateway.elevenlabs.options import VoiceSettings
from gateway.elevenlabs.sound import Piece, SpokenText
from gateway.sockets import Connection
from gateway.speak.account import Account
from gateway.speak.fields import FieldInvalid, TextPieces
from speech.encode import OutputFormat
from workers.errors import BackendFailed, InputTooLarge, ServingError

if TYPE_CHECKING:
    from speech.speaking.speaker import Speaker

log = logging.getLogger("speechlane.elevenlabs")

MOST_TEXT = 128 * 1024
"""Characters of one context in all, some two hours of speech."""


class Context:
    """Lives from its first text to `isFinal`, which is its last message, or to an error, which is its owner's to tell.

    `name` None is the only stream of its socket. `ended` is called with the context and the error, if it has failed.
    """

    def __init__(
        self,
        name: str | None,
        speaker: Speaker,
        form: OutputFormat,
        settings: VoiceSettings | None,
        out: Connection,
        account: Account,
        gate: asyncio.Lock,
        ended: Callable[[Context, ServingError | None], None],
    ) -> None:
        self.name, self.over, self.ending = name, False, False
        self.idle_since = asyncio.get_running_loop().time()
        """When something was last said or heard (the event loop's time)."""
        self._speaker, self._settings, self._out = speaker, settings, out
        self._account, self._gate, self._on_end = account, gate, ended
        self._spoken = SpokenText(speaker, form, account)
        self._pieces = TextPieces()
        self._given = 0
        self._flushed = True
        self._pump = asyncio.create_task(self._pass_on(), name="speech events")

    async def text(self, piece: str, settings: VoiceSettings | None = None, *, flush: bool = False) -> None:
        """More text. Raises FieldInvalid, InputTooLarge."""
        if self.ending:
            raise FieldInvalid("The text has ended; open another stream for more.", code="context_ended", param="text")
        if settings is not None and settings.speed not in (None, self._settings and self._settings.speed):
            raise FieldInvalid(
                "The voice settings of a stream are those of its first message; open another one for others.",
                code="invalid_value",
                param="voice_settings",
            )
        if self._given + len(piece) > MOST_TEXT:
            raise InputTooLarge(
                f"A stream takes {MOST_TEXT} characters, and {self._given} were given; open another one for the rest.",
                param="text",
            )
        self.touch()
        self._given += len(piece)
        await self._spoken.say(self._pieces.take(piece))
        if not piece.isspace() and piece:
            self._flushed = False
        if flush:
            await self._spoken.say(self._pieces.rest())
            await self._speaker.flush()
            self._flushed = True

    def touch(self) -> None:
        """The client still wants it."""
        self.idle_since = asyncio.get_running_loop().time()

    async def end(self) -> None:
        """No more text comes: what there is is spoken. Idempotent."""
        if not self.ending:
            self.ending = True
            await self._spoken.say(self._pieces.rest())
            await self._speaker.end()

    async def stop(self) -> None:
        """What has been flushed is spoken; otherwise the client wants no more of it, and it ends at once."""
        if self._flushed:
            await self.end()
            return
        await stopped(self._pump)
        await self._speaker.cancel()
        if not self.over:
            self._finish("cancelled")
            self._send_final()

    async def finished(self) -> None:
        """Wait for the end."""
        await asyncio.wait([self._pump])

    async def close(self) -> None:
        """Free everything, in whatever state it is."""
        try:
            await every(partial(stopped, self._pump), self._speaker.close)
        finally:
            if not self.over:
                self._finish("cancelled")

    async def _pass_on(self) -> None:
        error: ServingError
        try:
            async with aclosing(self._spoken.pieces()) as pieces:
                async for piece in pieces:
                    async with self._gate:
                        await self._out.room()
                        self._send_sound(piece)
            self._finish("done")
            self._send_final()
            return
        except ServingError as failed:
            error = failed
        except Exception:
            log.exception("a stream failed")
            error = BackendFailed("The speech failed; the log of the service says why.")
        log.warning("a stream failed: %s: %s", error.code, error.message)
        self._finish("failed", error)

    def _send_sound(self, piece: Piece) -> None:
        alignment = in_milliseconds(piece.characters, piece.start)
        self._send(audio=base64.b64encode(piece.data).decode(), isFinal=None, alignment=alignment)
        self.touch()
        self._out.touch()

    def _send_final(self) -> None:
        self._send(audio=None, isFinal=True, alignment=None)

    def _send(self, *, alignment: dict[str, Any] | None, **fields: Any) -> None:
        # Times are those of the text as it was given; there is no other text to align.
        fields |= {"alignment": alignment, "normalizedAlignment": alignment}
        if self.name is not None:
            fields["contextId"] = self.name
        self._out.send(fields)

    def _finish(self, outcome: str, error: ServingError | None = None) -> None:
        self.over = True
        self._account.end(outcome)
        self._on_end(self, error)
