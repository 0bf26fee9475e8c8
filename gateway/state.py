"""What the handlers of one application share, found as `request.app[SERVICE]`."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING
from uuid import uuid4

from aiohttp import web

from gateway.assistant import LanguageModel, chosen_assistant
from gateway.auth import Guard, Identity
from gateway.batch.lane import Lane
from gateway.batch.places import share
from gateway.collections.place import Collections
from gateway.documents.lane import DocumentLane
from gateway.embeddings.lane import Embeddings
from gateway.keys.budget import BUDGET
from gateway.keys.store import open_store
from gateway.metrics import Metrics
from gateway.origins import Origins
from gateway.settings import Settings
from gateway.shared.limits import SEAT, shared_limits
from gateway.telemetry.opening import open_traces
from gateway.telemetry.sessions import SessionRecord, session_record
from gateway.videos.store import Videos
from gateway.vision.lane import Vision
from workers.errors import BackendDead, Draining, Overloaded
from workers.fairness import TENANT

if TYPE_CHECKING:
    from speech.engine import Engine

BUSY_RETRY = 5.0
"""Seconds after which a client that met a full service may try again."""


class Service:
    """One running service: its settings, the engine once loaded, who is connected, and whether it is going down."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.guard = Guard(
            settings.keys(),
            open_store(settings.key_store.get_secret_value()) if settings.key_store is not None else None,
            origins=Origins(settings.allowed_origins),
            room=settings.key_room,
            proxies=settings.trusted_proxies,
            sessions=settings.max_sessions_per_key,
        )
        self._keys = settings.key_count()
        self.metrics = Metrics()
        self.guard.limits = shared_limits(settings.key_store, self.metrics.shared)
        self.metrics.traces = open_traces(settings.otlp_endpoint)
        self.metrics.transcripts = settings.log_transcripts
        self.draining = asyncio.Event()
        """Set once, when the service begins to go down: live sessions finalise what is open and close with 1012."""
        self.loading: asyncio.Task[None] | None = None
        self.failure: Exception | None = None
        """Why the models could not be loaded."""
        self.assistant: LanguageModel = chosen_assistant(settings)
        """Who answers in conversations."""
        self.batch = Lane(settings, self.metrics, self.draining)
        self.collections = Collections(settings)
        self.embeddings = Embeddings(settings)
        self.documents = DocumentLane(settings)
        self.vision = Vision(settings)
        self.videos = Videos(settings, self.metrics)
        self.started_at = int(time.time())
        self._engine: Engine | None = None
        self._sessions: Counter[Identity] = Counter()
        self._admitted = 0
        self._files: Counter[str] = Counter()
        self._speeches: Counter[Identity] = Counter()
        self._uploads = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def engine(self) -> Engine:
        """The engine; raises `Draining` while the models are still loading and `BackendDead` when that failed."""
        if self.failure is not None:
            raise BackendDead("The models could not be loaded; the log of the service says why.")
        if self._engine is None:
            raise Draining("The models are still loading; try again in a few seconds.")
        return self._engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def loaded(self) -> Engine | None:
        """The engine, or None while there is none."""
        return self._engine

    async def when_loaded(self) -> Engine | None:
        """The engine once it is loaded; None when it cannot be."""
        if self.loading is not None:
            await asyncio.wait([self.loading])
        return self._engine

    def refuse_when_draining(self) -> None:
        """Raises `Draining` once the service is going down."""
        if self.draining.is_set():
            raise Draining("The service is shutting down; try again in a few seconds.")

    @property
    def sessions(self) -> int:
        """Live sessions now."""
        return self._sessions.total()

    @property
    def ended(self) -> int:
        """Live sessions that were and are no more, since the start."""
        return self._admitted - self.sessions

    @contextmanager
    def session(self, identity: Identity, protocol: str = "", id: str | None = None) -> Iterator[SessionRecord]:
        """Hold one of the places for live sessions; raises `Draining` or `Overloaded` at once when there is none.

        `id` is the one that its client is told, None: a new one. `protocol` is for the log.

        This only bounds what a process and a key may hold. Whether a device can carry the stream is decided by
        `engine.open_stream`.
        """
        self.refuse_when_draining()
        settings = self.settings
        if self.sessions >= settings.max_sessions:
            raise Overloaded(f"All {settings.max_sessions} sessions are taken.", retry_after=BUSY_RETRY)
        most = identity.limits.sessions or settings.max_sessions_per_key
        if most is not None and self._sessions[identity] >= most:
            raise Overloaded(f"This key's {most} sessions are all open; close one first.", retry_after=BUSY_RETRY)
        self._check_audio()
        seat = SEAT.get()
        if seat is not None and not seat.granted:
            raise Overloaded(
                f"This key's {most} sessions are all open, here or at other gateways; close one first.",
                retry_after=BUSY_RETRY,
            )
        if seat is not None:
            seat.take()
        self._sessions[identity] += 1
        self._admitted += 1
        self._idle.clear()
        budget = BUDGET.get()
        record = SessionRecord(id or f"sess_{uuid4().hex[:24]}", self._admitted, identity.name, protocol)
        try:
            with budget.session() if budget is not None else nullcontext(), session_record(record, self.sessions):
                yield record
        finally:
            if seat is not None:
                seat.give_back()
            self.metrics.session_closed(record.code)
            self._sessions[identity] -= 1
            if not self._sessions[identity]:
                del self._sessions[identity]
            self._settle()

    @contextmanager
    def file(self) -> Iterator[None]:
        """Hold one of the places for uploaded files; raises `Draining` or `Overloaded` at once when there is none."""
        self.refuse_when_draining()
        taken, most, whose = self._files.total(), self.settings.max_files, TENANT.get().name
        if taken >= most:
            raise Overloaded(f"{taken} files are being transcribed already.", retry_after=BUSY_RETRY)
        if self._files[whose] >= share(most, self._keys):
            raise Overloaded(
                f"{self._files[whose]} files are being transcribed with this key already, which is the most for one.",
                retry_after=BUSY_RETRY,
            )
        self._check_audio()
        self._files[whose] += 1
        self._idle.clear()
        self.metrics.file_started()
        try:
            yield
        finally:
            self._files[whose] -= 1
            self._files = +self._files
            self.metrics.file_ended()
            self._settle()

    @contextmanager
    def speech(self, identity: Identity) -> Iterator[None]:
        """Hold one of the places for texts that are spoken over HTTP; raises `Draining` or `Overloaded` at once.

        A key has as many of them as it may have live sessions.
        """
        self.refuse_when_draining()
        settings = self.settings
        if self._speeches.total() >= settings.max_speeches:
            raise Overloaded(f"{settings.max_speeches} texts are being spoken already.", retry_after=BUSY_RETRY)
        most = identity.limits.sessions or settings.max_sessions_per_key
        if most is not None and self._speeches[identity] >= most:
            raise Overloaded(
                f"This key has {most} texts being spoken already; wait for one to end.", retry_after=BUSY_RETRY
            )
        self._speeches[identity] += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._speeches[identity] -= 1
            if not self._speeches[identity]:
                del self._speeches[identity]
            self._settle()

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """A file of a job is coming in; raises `Draining` when the service is going down, which else waits for it."""
        self.refuse_when_draining()
        self._uploads += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._uploads -= 1
            self._settle()

    async def drain(self) -> bool:
        """Take nothing new and wait until what runs has ended, at most `drain_seconds`. True when all has ended."""
        self.draining.set()
        try:
            await asyncio.wait_for(self._idle.wait(), self.settings.drain_seconds)
        except TimeoutError:
            return False
        return True

    def _check_audio(self) -> None:
        """Raises `Overloaded` while the key has sent all the audio that it may send in a minute."""
        budget = BUDGET.get()
        if budget is not None:
            budget.check_audio()

    def _settle(self) -> None:
        if not (self._sessions or self._files or self._speeches or self._uploads):
            self._idle.set()


SERVICE = web.AppKey("service", Service)
