"""A transcription session that outlives its connection: it waits for its client, who hears all that it has missed.

The client is told with `x.taken` how much of what it sent has been taken in: `samples` of audio as it sent them,
whatever their format, and `events` of any kind. After a break it goes on from there. Nothing of a message counts until
all of it has been carried out, and what has been taken in is heard to its end, whether or not the client is there.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import WSMessage

from gateway.realtime.config import Shape
from gateway.realtime.event_log import EventLog
from gateway.realtime.items import Items, new_id
from gateway.realtime.messages import AnySession, Session
from gateway.realtime.parse import RequestError
from gateway.realtime.session import TranscriptionSession
from gateway.sockets import Close, Connection, Ending
from gateway.state import Service
from speech.config import StreamConfig

if TYPE_CHECKING:
    from speech.transcriber import Transcriber

log = logging.getLogger("speechlane.realtime")

TAKEN_SECONDS = 0.5
"""So much later, at most, a client is told what has been taken in."""
GONE = "the session has ended meanwhile; begin another one"
BROKEN = (Close.LOST, Close.SLOW_READER, Close.TAKEN_OVER)
"""Ends of a connection that are none of its session."""


class Places(Protocol):
    """Where sessions wait for their clients."""

    def park(self, session: ResumableSession) -> bool: ...
    def leave(self, session: ResumableSession) -> None: ...


@dataclass(frozen=True, slots=True)
class Visit:
    """A connection of the client's, which has heard the events up to number `after`. It may be closed once `over`."""

    connection: Connection
    after: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def dismiss(self, code: Close, reason: str) -> None:
        self.connection.stop(code, reason)
        self.over.set()


class ResumableSession(TranscriptionSession):
    """Runs in a task of its own, on one connection after another. `resume_seconds` are those of the settings."""

    def __init__(
        self,
        connection: Connection,
        service: Service,
        transcriber: Transcriber,
        session: Session,
        config: StreamConfig,
        shape: Shape,
        places: Places,
        log: EventLog | None = None,
        items: Items | None = None,
    ) -> None:
        """`log`, `items`: of a session that was begun before."""
        self.token = secrets.token_urlsafe(32)
        self.visit = Visit(connection)
        self._log = log if log is not None else EventLog(connection)
        super().__init__(connection, service, transcriber, session, config, shape, self._log, items)
        self._places = places
        self._patience = service.settings.resume_seconds
        self._draining = service.draining
        self._loop = asyncio.get_running_loop()
        self._ends_at = self._loop.time() + connection.limits.session_seconds
        self._samples = 0
        self._taken = 0
        self._telling: asyncio.TimerHandle | None = None
        self._coming: Visit | None = None
        self._over: Ending | None = None
        self._woken = asyncio.Event()

    @property
    def seconds_left(self) -> float:
        """Until the session has reached its longest duration."""
        return max(0.0, self._ends_at - self._loop.time())

    @property
    def newest(self) -> int:
        """The number of the newest event."""
        return self._log.newest

    def holds(self, after: int) -> bool:
        """Whether a client that has heard the events up to number `after` can be told all the others."""
        return self._log.holds(after)

    async def take_up(self, connection: Connection, after: int) -> None:
        """Go on on this connection, whose client has heard the events up to number `after`; until it may be closed."""
        visit = Visit(connection, after)
        if self._over is not None:
            connection.stop(Close.FAILED, GONE)
            return
        if self._coming is not None:
            self._coming.dismiss(Close.TAKEN_OVER, "a newer connection goes on with the session")
        self._coming = visit
        self._woken.set()
        self._connection.stop(Close.TAKEN_OVER, "another connection goes on with the session")
        await visit.over.wait()

    async def run(self) -> None:
        """Speak the protocol until the client or its time has ended; then finalise what is open."""
        await super().run()
        self._tell_taken()

    async def close(self) -> None:
        """Free the stream, whatever state it is in, and let the connections go."""
        self._over = self._over or Ending(Close.EXPIRED, "the session has ended")
        if self._telling is not None:
            self._telling.cancel()
        try:
            await super().close()
        finally:
            if self._coming is not None:
                self._coming.dismiss(Close.FAILED, GONE)
            self.visit.over.set()

    async def _hear_client(self) -> Ending | None:
        while True:
            ending = await super()._hear_client()
            if self._over is not None or ending is None or ending.left or ending.code not in BROKEN:
                self._over = self._over or ending
                return self._over
            self._log.leave()
            self.visit.over.set()
            visit = await self._next_visit(ending)
            if visit is None:
                self._over = self._over or Ending(Close.EXPIRED, "nobody has come back")
                return self._over
            self.visit, self._connection = visit, visit.connection
            if not await self._settle():
                return self._over
            await self._welcome()

    async def _settle(self) -> bool:
        """See to it that what the client will be told to have been taken in has been. False: the session has ended."""
        return True

    async def _welcome(self) -> None:
        """Tell a client that has come back where the session is, and what it has missed."""
        log.info("session %s goes on", self.id)
        self._metrics.resumed()
        taken = {"samples": self._samples, "events": self._taken}
        event = {"type": "x.session.resumed", "event_id": new_id("event"), "session_id": self.id, **taken}
        self._connection.send(event)
        await self._log.follow(self._connection, self.visit.after)

    async def _next_visit(self, ending: Ending) -> Visit | None:
        if self._coming is None and not self._taken:
            return None  # nothing to lose
        if self._coming is None:
            if not self._places.park(self):
                log.warning("session %s ends: too many wait for their clients", self.id)
                return None
            log.info("session %s waits for its client, %s", self.id, ending.reason)
            waits = [asyncio.create_task(event.wait()) for event in (self._woken, self._draining)]
            try:
                patience = min(self._patience, self.seconds_left)
                await asyncio.wait(waits, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._places.leave(self)
                for wait in waits:
                    wait.cancel()
        self._woken.clear()
        visit, self._coming = self._coming, None
        return visit if self._over is None else None

    async def _take(self, frame: WSMessage) -> None:
        await super()._take(frame)
        if self._over is None:
            self._taken += 1
            if self._telling is None:
                self._telling = self._loop.call_later(TAKEN_SECONDS, self._tell_taken)

    async def _append(self, data: bytes) -> None:
        size = self._decoder.format.frame_bytes
        if len(data) % size:
            raise RequestError(
                f"The audio of an append is {len(data)} bytes; where a session can be resumed it has to be whole "
                f"samples of {size} bytes.",
                code="invalid_value",
                param="audio",
            )
        await super()._append(data)
        self._samples += len(data) // size

    def _tell_taken(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        self._told_taken(self._samples, self._taken)

    def _told_taken(self, samples: int, events: int) -> None:
        event = {"type": "x.taken", "event_id": new_id("event"), "samples": samples, "events": events}
        self._connection.send_latest("taken", event)

    def _stop(self, code: Close, reason: str) -> None:
        self._over = self._over or Ending(code, reason)
        self._woken.set()
        super()._stop(code, reason)

    def _abandoned(self) -> bool:
        return False

    def _stream_config(self, session: AnySession) -> StreamConfig:
        return patient(super()._stream_config(session), self._patience)

    def _described(self) -> dict[str, Any]:
        return super()._described() | {"resume": {"token": self.token, "seconds": self._patience}}


def patient(config: StreamConfig, seconds: float) -> StreamConfig:
    """The stream of a client that may come back: what it is saying is not closed because no audio comes for a while."""
    return replace(config, stall_timeout=max(seconds, config.stall_timeout))
