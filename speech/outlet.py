"""The way out of a stream: events in the order of the utterances, whatever order their decodes end in.

Speech, commit and clear events go out at once. The events of a decode go out once all earlier decodes have ended.
Finals are never dropped. When the reader is slow, a waiting partial is replaced by the newer one of its utterance,
with the stable text of both.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace

from speech.events import Event, Final, Partial
from workers.errors import ServingError

_CROWDED = 64
"""Waiting events from which on partials are merged."""
_FULL = 512
"""Waiting events at which the stream takes no more audio until the reader has caught up."""


class Outlet:
    """Ordered events for one reader, on one event loop."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._held: dict[int, list[Event]] = {}
        self._ended: set[int] = set()
        self._next_turn = 0
        self._turn = 0
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._closed = False
        self._error: ServingError | None = None

    def reserve(self) -> int:
        """A turn in the order; every turn must be ended."""
        turn = self._next_turn
        self._next_turn += 1
        return turn

    def put(self, event: Event, turn: int | None = None) -> None:
        """Send `event` now, or when its turn has come."""
        if turn is None or turn == self._turn:
            self._add(event)
        elif turn > self._turn:
            self._held.setdefault(turn, []).append(event)

    def end(self, turn: int) -> None:
        """No more events come for `turn`."""
        self._ended.add(turn)
        while self._turn in self._ended:
            self._ended.remove(self._turn)
            self._turn += 1
            for event in self._held.pop(self._turn, ()):
                self._add(event)

    def close(self, error: ServingError | None = None) -> None:
        """The reader gets what waits, then the end, or `error`."""
        if not self._closed:
            self._closed, self._error = True, error
            self._changed.set()
            self._taken.set()

    async def room(self) -> None:
        """Wait until the reader has caught up."""
        while len(self._events) >= _FULL and not self._closed:
            self._taken.clear()
            await self._taken.wait()

    async def events(self) -> AsyncIterator[Event]:
        """All events, until the stream is closed. Raises the ServingError that ended the stream, if one did."""
        while True:
            while self._events:
                event = self._events.popleft()
                self._taken.set()
                yield event
            if self._closed:
                break
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error

    def _add(self, event: Event) -> None:
        if self._closed:
            return
        if isinstance(event, Partial) and len(self._events) >= _CROWDED:
            for i in range(len(self._events) - 1, -1, -1):
                waiting = self._events[i]
                if isinstance(waiting, Partial) and waiting.utterance == event.utterance:
                    self._events[i] = replace(event, stable=waiting.stable + event.stable)
                    return
                if isinstance(waiting, Final):
                    break
        self._events.append(event)
        self._changed.set()
