"""The way out of a speaker: events for one reader, held back while nobody is to hear them."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable

from speech.speaking.events import SoundMade, SpeechEvent
from workers.clock import Clock


class Outlet:
    """Ordered events on one event loop. `taken` is called with each event as it is handed to the reader."""

    def __init__(self, taken: Callable[[SpeechEvent], None], clock: Clock) -> None:
        self._taken, self._clock = taken, clock
        self._events: deque[SpeechEvent] = deque()
        self._sounds = 0
        self._since = clock()
        self._changed = asyncio.Event()
        self._held = self._closed = False

    @property
    def empty(self) -> bool:
        """Whether the reader has taken all sound."""
        return not self._sounds

    @property
    def waits_since(self) -> float:
        """Since when sound waits and the reader has taken nothing; inf when none waits."""
        return self._since if self._sounds and not self._held else math.inf

    def put(self, event: SpeechEvent) -> None:
        if self._closed:
            return
        if not self._events:
            self._since = self._clock()
        self._sounds += isinstance(event, SoundMade)
        self._events.append(event)
        self._changed.set()

    def hold(self, held: bool) -> None:
        """Hand nothing out until it is let go again."""
        self._held, self._since = held, self._clock()
        self._changed.set()

    def close(self, *, drop: bool) -> None:
        """The end: after what waits or, with `drop`, at once."""
        self._closed = True
        if drop:
            self._events.clear()
            self._sounds = 0
        self._changed.set()

    async def events(self) -> AsyncGenerator[SpeechEvent, None]:
        """All events, until the end."""
        while True:
            while self._events and not self._held:
                event = self._events.popleft()
                self._sounds -= isinstance(event, SoundMade)
                self._since = self._clock()
                self._taken(event)
                yield event
            if self._closed and not self._events:
                return
            self._changed.clear()
            await self._changed.wait()
