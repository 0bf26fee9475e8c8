"""What was sent and is not known to have arrived, to be sent again after a break."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """`samples` of audio are in it; none in a request."""

    text: str
    samples: int = 0


class Unacknowledged:
    """About `samples` of audio at most: who has more waits. One sender takes the messages in order, and goes back
    when it is told to.
    """

    def __init__(self, samples: int) -> None:
        self.taken_samples = 0
        """What the services of all sessions so far have taken in."""
        self._limit = samples
        self._messages: deque[Message] = deque()
        self._held = 0
        self._first = 0
        self._next = 0
        self._filled = asyncio.Event()
        self._freed = asyncio.Event()

    @property
    def taken_messages(self) -> int:
        """What the service of this session has taken in."""
        return self._first

    @property
    def full(self) -> bool:
        """Who has more audio has to wait."""
        return self._held >= self._limit

    def put(self, message: Message) -> None:
        """Add a message, whether there is room or not."""
        self._messages.append(message)
        self._held += message.samples
        self._filled.set()

    async def room(self) -> None:
        """Wait until it is not full."""
        while self.full:
            self._freed.clear()
            await self._freed.wait()

    async def get(self) -> Message:
        """The next message to send; it stays here until it has been taken in."""
        while self._next >= len(self._messages):
            self._filled.clear()
            await self._filled.wait()
        message = self._messages[self._next]
        self._next += 1
        return message

    def taken(self, events: int) -> None:
        """The service has taken in so many messages of this session."""
        while self._first < events and self._messages:
            self._forget()

    def again(self) -> None:
        """The connection is a new one: all that is left here has to be sent."""
        self._next = 0
        self._filled.set()

    def restart(self, greeting: Message, settled: int, ending: Sequence[Message]) -> None:
        """The session is a new one, which begins with `greeting`; the one before has settled so many samples.

        `ending` closes the audio, if all of it is here; the session that is gone may have taken in a part of it.
        """
        while self._messages and self.taken_samples + self._messages[0].samples <= settled:
            self._forget()
        if not (self._messages and self._messages[0] == greeting):
            self._messages.appendleft(greeting)
        if ending and self._messages[-1] == ending[-1]:
            self._messages.pop()
        if ending and self._messages[-1] == ending[0]:
            self._messages.pop()
        self._messages.extend(ending)
        self._first = 0
        self.again()

    def _forget(self) -> None:
        message = self._messages.popleft()
        self._first += 1
        self._next = max(0, self._next - 1)
        self._held -= message.samples
        self.taken_samples += message.samples
        self._freed.set()
