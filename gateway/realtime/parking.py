"""The sessions that may be resumed: who may take up which, and which of them wait for their client."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

from aiohttp import web

from gateway.auth import Identity
from gateway.realtime.resumable import ResumableSession
from gateway.realtime.shared_session import SharedSession
from gateway.shared.link import Link
from gateway.shared.metrics import SharedMetrics
from gateway.shared.sessions import SharedSessions
from gateway.sockets import Close
from gateway.state import Service
from workers.errors import InputInvalid, ServingError

log = logging.getLogger("speechlane.realtime")


class SessionNotFound(ServingError):
    """Nothing is kept under this token for this client."""

    code = "session_not_found"
    status = 404


class EventsLost(ServingError):
    """The session goes on, but the client has missed events that are no longer kept."""

    code = "events_lost"
    status = 410


class Parking:
    """At most `max_parked` sessions wait at once; one more ends when its connection breaks.

    A session that waits keeps its place among the sessions, its share of the device and its time.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sessions: dict[bytes, tuple[Identity, ResumableSession]] = {}
        self._tasks: dict[asyncio.Task[None], ResumableSession] = {}
        self._parked: set[ResumableSession] = set()
        self.shared: SharedSessions | None = None
        """Where sessions are kept so that other gateways can go on with them; None: nowhere."""
        self.counts: SharedMetrics | None = None

    def __len__(self) -> int:
        return len(self._parked)

    def begin(self, session: ResumableSession, identity: Identity, held: AsyncExitStack) -> None:
        """Run the session in a task of its own, which frees what it has `held` in the end."""
        self._sessions[_digest(session.token)] = (identity, session)
        task = asyncio.create_task(self._run(session, held), name="resumable session")
        self._tasks[task] = session
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))

    async def is_here(self, token: str, identity: Identity) -> bool:
        """Whether the session of this client is at this gateway, and at no other."""
        owner, session = self._sessions.get(_digest(token), (None, None))
        if session is None or owner != identity:
            return False
        return not isinstance(session, SharedSession) or await session.is_ours()

    async def keep_shared(self, app: web.Application) -> AsyncIterator[None]:
        """Keep sessions where the settings say, as long as the application runs."""
        settings = self._service.settings
        if settings.sessions_redis is None:
            yield
            return
        self.counts = counts = self._service.metrics.shared
        link = Link(settings.sessions_redis.get_secret_value(), "live sessions", counts)
        self.shared = SharedSessions(link, counts, settings.resume_seconds, settings.sessions_redis_bytes)
        running = asyncio.create_task(self.shared.run(), name="shared sessions")
        yield
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    def find(self, token: str, identity: Identity, after: int) -> ResumableSession:
        """The session of this client, who has heard the events up to number `after`.

        Raises `SessionNotFound`, `EventsLost`, `InputInvalid`.
        """
        owner, session = self._sessions.get(_digest(token), (None, None))
        if session is None or owner != identity:
            raise SessionNotFound(
                "There is no such session to resume. A session waits "
                f"{self._service.settings.resume_seconds:g} s for its client; then what is being said is finalised "
                "and it ends. Begin another one.",
                param="session",
            )
        if after > session.newest:
            raise InputInvalid(f"The newest event of the session is {session.newest}.", param="last_event")
        if not session.holds(after):
            raise EventsLost(
                f"Events after {after} are no longer kept; begin another session.",
                param="last_event",
            )
        return session

    def park(self, session: ResumableSession) -> bool:
        """A session waits for its client, if there is a place."""
        if len(self._parked) >= self._service.settings.max_parked:
            return False
        self._parked.add(session)
        self._service.metrics.parked(len(self._parked))
        return True

    def leave(self, session: ResumableSession) -> None:
        """It waits no more."""
        self._parked.discard(session)
        self._service.metrics.parked(len(self._parked))

    async def close(self, app: web.Application | None = None) -> None:
        """End every session at once."""
        ending = dict(self._tasks)
        for task, session in ending.items():
            session.visit.connection.stop(Close.DRAINING, "the service is shutting down")
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _run(self, session: ResumableSession, held: AsyncExitStack) -> None:
        async with held:
            try:
                await session.run()
            except Exception:
                log.exception("session %s failed", session.id)
            finally:
                # From here on nobody can take it up.
                digest = _digest(session.token)
                if self._sessions.get(digest, (None, None))[1] is session:
                    del self._sessions[digest]
                await session.close()


PARKING = web.AppKey("parking", Parking)


def _digest(token: str) -> bytes:
    """What a token is looked up by, so that the time of a look-up tells nothing of the tokens that are known."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
