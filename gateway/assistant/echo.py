"""The embedded assistant: no model at all. It repeats what it heard and tells the time and the date."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from datetime import datetime

from gateway.assistant.language_model import Ended, Piece, Said, TextPiece, Wanted

NAME = "speechlane-echo"

_TIME = re.compile(r"\bwhat(?:'s| is)? (?:the )?time\b|\btime is it\b|\b(?:tell|give) me the time\b", re.IGNORECASE)
_DATE = re.compile(
    r"\bwhat(?:'s| is)? (?:the |today's )?(?:date|day)\b|\b(?:day|date) is it\b|\btoday's date\b", re.IGNORECASE
)
_LONGEST = 2_000
"""Characters that are repeated at most."""


def _here() -> datetime:
    return datetime.now().astimezone()


class EchoAssistant:
    """Answers in the local time of the service. `now` gives the time that it tells. Tokens are words."""

    name = NAME

    def __init__(self, now: Callable[[], datetime] = _here) -> None:
        self._now = now

    async def answer(self, wanted: Wanted) -> AsyncIterator[Piece]:
        """Word by word. Tools and instructions have no effect: there is nobody to follow them."""
        words = self._reply(wanted).split()
        limit = len(words) if wanted.max_tokens is None else wanted.max_tokens
        for number, word in enumerate(words[:limit]):
            yield TextPiece(f" {word}" if number else word)
            await asyncio.sleep(0)
        heard = sum(len(entry.text.split()) for entry in wanted.history if isinstance(entry, Said))
        said = min(len(words), limit)
        yield Ended("length" if said < len(words) else "stop", heard, said)

    async def close(self) -> None:
        """Nothing is open."""

    def _reply(self, wanted: Wanted) -> str:
        heard = next((said.text for said in reversed(wanted.history) if isinstance(said, Said) and said.text), None)
        last = wanted.history[-1] if wanted.history else None
        if heard is None or (isinstance(last, Said) and last.role == "assistant"):
            return "I am listening."
        if _TIME.search(heard):
            now = self._now()
            return f"It is {now.hour % 12 or 12}:{now.minute:02d} {'a.m.' if now.hour < 12 else 'p.m.'}"
        if _DATE.search(heard):
            return f"Today is {self._now():%A, %B} {self._now().day}, {self._now().year}."
        return f"You said: {heard[:_LONGEST].strip()}"
