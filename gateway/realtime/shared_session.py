"""A resumable session that any gateway can go on with: what it is, says and hears is kept in Redis as it happens.

What its client is told leaves when it has been kept (a round trip later), and so does `x.taken`. While Redis is away
the session goes on like any resumable one, at this gateway alone.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import WSMessage

from gateway.realtime.config import Shape
from gateway.realtime.event_log import EventLog
from gateway.realtime.kept import Kept, KeptItems, sound, write
from gateway.realtime.messages import Session
from gateway.realtime.resumable import Places, ResumableSession, Visit
from gateway.realtime.told import Told
from gateway.realtime.track import Track
from gateway.shared.image import Image
from gateway.shared.limits import SEAT
from gateway.shared.metrics import SharedMetrics
from gateway.shared.sessions import SharedSessions, name_of
from gateway.sockets import Close, Connection, Ending
from gateway.state import Service
from speech.asr import Samples
from speech.audio import AudioDecoder, AudioFormat
from speech.config import StreamConfig
from speech.continued_audio import ContinuedDecoder
from speech.events import (
    Cleared,
    Committed,
    Event,
    Failed,
    Final,
    IdleTimeout,
    Partial,
    SpeechStarted,
    SpeechStopped,
)
from workers.errors import ServingError

if TYPE_CHECKING:
    from speech.continuing import Continuable, Point
    from speech.engine import Engine

log = logging.getLogger("speechlane.realtime")

MOVE_SECONDS = 0.5
"""After which a client should come to another gateway when this one shuts down."""
TAKEN_AWAY = "another gateway goes on with the session"

Signals = SpeechStarted | SpeechStopped | Committed | Cleared | IdleTimeout
"""Events that a stream gives again in the same order when it hears the same again."""


class SharedPlaces(Places, Protocol):
    """Where sessions wait for their clients, and are kept for other gateways."""

    shared: SharedSessions | None
    counts: SharedMetrics | None


class SharedSession(ResumableSession):
    """`owner` is whose key it is, by a name that all gateways know. `kept` is what another gateway has left."""

    def __init__(
        self,
        connection: Connection,
        service: Service,
        transcriber: Continuable,
        session: Session,
        config: StreamConfig,
        shape: Shape,
        places: SharedPlaces,
        owner: str,
        kept: Kept | None = None,
    ) -> None:
        self.image = Image() if kept is None else kept.image
        self.fence = 1
        assert places.shared is not None and places.counts is not None
        self._shared, self._counts, self._owner, self._kept = places.shared, places.counts, owner, kept
        self._handled = self._signal = transcriber.signals
        self._ended = 0
        self._told = Told()
        self._mark = (0, 0, 0)
        self._seat = SEAT.get()
        self._due = self._moved = self._lost = self._done = False
        self._live = transcriber
        point = transcriber.point()
        assert point is not None
        if kept is None:
            self._track = Track(self.image, point)
            events, items = EventLog(connection, image=self.image), KeptItems(self.image)
        else:
            self._track = track_of(kept)
            events = EventLog.of(self.image, kept.newest, kept.gone)
            items = KeptItems(self.image, kept.state["last_item"])
        super().__init__(connection, service, transcriber, session, config, shape, places, events, items)
        self._kept_items = items
        self.name = name_of(self.token)
        if kept is None:
            events.hide(self.token)
        events.gated, events.on_wait = True, partial(self._shared.wake, self)

    def begin(self) -> None:
        """Keep it from now on."""
        self._shared.add(self, claimed=False)

    def go_on(self, token: str, fence: int, after: int) -> None:
        """Be the session that another gateway has kept; its client has heard the events up to number `after`."""
        assert self._kept is not None
        self.token, self.name, self.fence = token, name_of(token), fence
        self.visit = Visit(self._connection, after)
        self._log.hide(token)
        state = self._kept.state
        self._expires_at = state["expires_at"]
        self._ends_at = self._loop.time() + state["ends_at"] - time.time()
        self._samples, self._taken = state["samples"], self._kept.taken
        self._adapter.go_on(state["adapter"], self._items.get)
        self._position = state["adapter"]["offset"]
        self._handled, self._ended = state["handled"], state["ended"]
        self._told = Told({int(utterance): text for utterance, text in state["told"].items()})
        self._live.language = state["language"]
        self._shared.add(self, claimed=True)
        self._counts.moved("came")

    # What is kept

    def prepare(self) -> bool:
        """See `Keepable`."""
        track = self._track
        track.ordered(self._live.asked)
        track.offer(self._live.point())
        track.advance(self._handled, self._adapter.waiting)
        track.save()
        if track.point is None:
            return False
        self._mark = (self._log.newest, self._samples, self._taken)
        decoder = self._decoder
        assert isinstance(decoder, ContinuedDecoder)
        state = {
            "id": self.id,
            "seat": self._seat.id if self._seat is not None else None,
            "shape": self._adapter.shape.value,
            "expires_at": self._expires_at,
            "ends_at": time.time() + self.seconds_left,
            "samples": self._samples,
            "adapter": self._adapter.state(),
            "last_item": self._kept_items.last,
            "handled": self._handled,
            "ended": self._ended,
            "told": self._told.texts,
            "language": self._live.language,
            "sound": sound(decoder.format, *decoder.where),
            **track.fields(),
        }
        log = self._log
        write(self.image, self._session, state, owner=self._owner, newest=log.newest, gone=log.gone, taken=self._taken)
        return True

    def written(self) -> None:
        """See `Keepable`."""
        newest, samples, taken = self._mark
        self._log.tell(newest)
        self._log.gated = True
        if self._log.newest > newest:
            self._shared.wake(self)
        if self._due:
            self._due = False
            self._told_taken(samples, taken)

    def unkept(self) -> None:
        """See `Keepable`."""
        self._log.gated = False
        self._log.tell(self._log.newest)
        if self._due:
            self._due = False
            self._told_taken(self._samples, self._taken)

    def superseded(self) -> None:
        """See `Keepable`. Nothing more is said here: what was not kept is made anew over there."""
        self._lost = True
        self._log.leave()
        self._stop(Close.TAKEN_OVER, TAKEN_AWAY)

    async def is_ours(self) -> bool:
        """Whether no other gateway goes on with it, as far as can be known."""
        return await self._shared.flush(self) is not False

    # What it does

    async def run(self) -> None:
        await super().run()
        if not (self._moved or self._lost):
            await self._shared.flush(self)  # its last events leave
            self._done = True

    async def close(self) -> None:
        self._shared.remove(self, forget=self._done)
        if self._seat is not None and (self._moved or self._lost):
            self._seat.leave()
        await super().close()

    async def _hear_client(self) -> Ending | None:
        kept, self._kept = self._kept, None
        if kept is not None:
            await self._welcome()
            try:
                begun, track = self._track.received, self._track
                await self._live.replay(track.audio(_point(track).position, begun), list(track.asked))
            except ServingError as error:
                self._fail(error)
        return await super()._hear_client()

    def _tell(self, what: str) -> None:
        if self._kept is None:
            super()._tell(what)

    async def _take(self, frame: WSMessage) -> None:
        if not self._lost:
            await super()._take(frame)

    async def _settle(self) -> bool:
        return await self.is_ours()

    def _tell_taken(self) -> None:
        if not self._log.gated:
            super()._tell_taken()
            return
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        self._due = True
        self._shared.wake(self)

    async def _before_drain(self) -> None:
        if await self._shared.flush(self):
            self._moved = True
            self._counts.moved("handed over")
            self._connection.stop(Close.DRAINING, f"another gateway goes on; try again in {MOVE_SECONDS:g} s")
        else:
            await super()._before_drain()

    async def _next_visit(self, ending: Ending) -> Visit | None:
        visit = await super()._next_visit(ending)
        if visit is None and self._taken and self._draining.is_set() and await self._shared.flush(self):
            self._moved = True
            self._counts.moved("handed over")
        return visit

    async def _finalise(self) -> None:
        if not (self._moved or self._lost):
            await super()._finalise()

    def _decode(self, audio: AudioFormat) -> AudioDecoder:
        if self._kept is not None:
            return ContinuedDecoder(*self._kept.sound)
        return ContinuedDecoder(audio)

    def _open(self, config: StreamConfig) -> Continuable:
        return continuable(self._engine, config)

    async def _change_stream(self, config: StreamConfig) -> None:
        await super()._change_stream(config)
        stream = self._stream.transcriber
        self._live = stream  # type: ignore[assignment]
        self._track.forget()
        point = self._live.point()
        assert point is not None
        self._track = Track(self.image, point)
        self._handled = self._signal = self._ended = 0
        self._told = Told()

    async def _hear(self, samples: Samples) -> None:
        await super()._hear(samples)
        if len(samples):
            self._track.heard(samples)

    def _said(self, event: Event) -> None:
        if isinstance(event, Signals):
            self._signal += 1
            if self._signal <= self._handled:
                self._quiet.hear(event)  # it was told before, over there
                return
            self._handled = self._signal
        elif isinstance(event, Partial | Final | Failed):
            if event.utterance < self._ended:
                return
            if not isinstance(event, Partial):
                self._ended = event.utterance + 1
        told = self._told.hear(event)
        if told is not None:
            super()._said(told)


def continuable(engine: Engine, config: StreamConfig, track: Track | None = None) -> Continuable:
    """A stream that another gateway can go on with; with a `track` it goes on itself. Raises what the engine raises."""
    from speech.continuing import Continuable  # only once the engine is loaded, for what it imports

    make = partial(Continuable, begun=track.point, audio=track.audio) if track is not None else Continuable
    stream = engine.open_stream(config, make)
    assert isinstance(stream, Continuable)
    return stream


def track_of(kept: Kept) -> Track:
    """What another gateway has kept of its stream."""
    from speech.continuing import Asked, Point, config_of

    state: dict[str, Any] = kept.state
    asked = [
        Asked(one["what"], one["position"], config_of(one["config"]) if one["config"] is not None else None)
        for one in state["asked"]
    ]
    return Track(kept.image, Point(**state["point"]), asked, state["received"])


def _point(track: Track) -> Point:
    assert track.point is not None
    return track.point
