"""Whether somebody on a connection is in the middle of an utterance, which a service that goes down lets end."""

from __future__ import annotations

import asyncio

from speech.events import Cleared, Committed, Event, SpeechStarted


class Quiet:
    """Told of every event of the streams of one connection; `wait` is its `before_drain`."""

    def __init__(self) -> None:
        self._speaking: set[int] = set()
        self._event = asyncio.Event()
        self._event.set()

    def hear(self, event: Event, stream: int = 0) -> None:
        """A stream says something."""
        if isinstance(event, SpeechStarted):
            self.begin(stream)
        elif isinstance(event, Committed | Cleared):
            self._speaking.discard(stream)
            if not self._speaking:
                self._event.set()

    def begin(self, stream: int = 0) -> None:
        """Something is being said that ends with the stream's next commit."""
        self._speaking.add(stream)
        self._event.clear()

    async def wait(self) -> None:
        """Until nobody speaks."""
        await self._event.wait()
