"""One live stream of a session: sound goes in, what it says goes to the session, and it ends well."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from gateway.metrics import Metrics
from speech.asr import SAMPLE_RATE, Samples
from speech.events import Event
from workers.errors import BackendFailed, ServingError

if TYPE_CHECKING:
    from speech.transcriber import Transcriber

log = logging.getLogger("speechlane.listening")

PIECE = 5 * SAMPLE_RATE
"""Samples handed to a stream at once."""


class Listening:
    """Passes `events`, those of the transcriber, on to `handle`; `close` it in every case.

    `fail` is told what ends the stream before the session does.
    """

    def __init__(
        self,
        transcriber: Transcriber,
        events: AsyncIterator[Event],
        metrics: Metrics,
        handle: Callable[[Event], None],
        fail: Callable[[ServingError], None],
    ) -> None:
        self.transcriber = transcriber
        self._metrics, self._handle, self._fail = metrics, handle, fail
        self._ending = False
        self._pump = asyncio.create_task(self._pass_on(events), name="live events")

    async def hear(self, samples: Samples, over: Callable[[], bool]) -> None:
        """Hand on sound, piece by piece: a stream that is behind takes it slowly, and meanwhile all may be over.

        Raises what has ended the stream.
        """
        for first in range(0, len(samples), PIECE):
            if first and over():
                return
            piece = samples[first : first + PIECE]
            self._metrics.audio("live", len(piece) / SAMPLE_RATE)
            await self.transcriber.append(piece)

    async def finish(self) -> None:
        """There is no more sound: wait until what was said has been handled. Raises what ended the stream before."""
        self._ending = True
        await self.transcriber.finish()
        await self._pump

    async def close(self) -> None:
        """Free the stream, whatever state it is in."""
        self._ending = True
        try:
            await self.transcriber.close()
        finally:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)

    async def _pass_on(self, events: AsyncIterator[Event]) -> None:
        try:
            async for event in events:
                self._handle(event)
        except ServingError as error:
            self._fail(error)
        except Exception:
            log.exception("a stream failed")
            self._fail(BackendFailed("The stream failed; the log of the service says why."))
        else:
            if not self._ending:
                self._fail(BackendFailed("The stream ended by itself."))
