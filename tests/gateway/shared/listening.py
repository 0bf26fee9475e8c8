"""A client that streams recordings and checks what it is told of them on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from load.resume import script
from speechlane.client import Failed, Final, Gap, Partial, Session, Source, Started, connect
from speechlane.client.sources import at_real_time

RATE = 16_000
NAMES = ("austen-0880.wav", "austen-0920.wav")


@dataclass
class Heard:
    """`finals`: text, start, end and words of each, in order; `items`: their names."""

    finals: list[tuple[object, ...]] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    stable: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    breaks: int = 0
    talking: asyncio.Event = field(default_factory=asyncio.Event)
    """Words of an utterance were told that has no end yet."""

    def hear(self, event: object) -> None:
        match event:
            case Started():
                self.begun.append(event.utterance)
            case Partial():
                before = self.stable.get(event.utterance, "")
                if not event.stable.startswith(before):
                    self.problems.append(f"{before!r} was taken back: {event.stable!r}")
                self.stable[event.utterance] = event.stable
                if event.stable:
                    self.talking.set()
            case Final():
                self.talking.clear()
                words = tuple((word.text, round(word.start, 2), round(word.end, 2)) for word in event.words)
                self.finals.append((event.text, round(event.start, 2), round(event.end, 2), words))
                self.items.append(event.utterance)
                if not event.text.startswith(self.stable.get(event.utterance, "").strip()):
                    self.problems.append(f"told {self.stable[event.utterance]!r}, then {event.text!r}")
            case Failed() | Gap():
                self.problems.append(str(event))

    def check(self, whole: Heard | None = None) -> None:
        """Each utterance that began has one end; all that was said is that of a connection that held."""
        assert self.problems == []
        assert self.items == self.begun and len(set(self.items)) == len(self.items)
        if whole is not None:
            assert self.finals == whole.finals


async def listen(
    url: str, blocks: Sequence[bytes], *, speed: float = 4.0, key: str | None = None, heard: Heard | None = None
) -> Heard:
    """Everything that is said in the blocks."""
    heard = heard if heard is not None else Heard()

    async def given() -> AsyncIterator[bytes]:
        for block in blocks:
            yield block

    session: Session
    async with connect(url, key, rate=RATE) as session:
        async for event in session.transcribe(Source(RATE, at_real_time(given(), round(RATE * speed)))):
            heard.hear(event)
            heard.breaks = session.breaks
    return heard


async def blocks_of(*names: str, pause: float = 0.8) -> list[bytes]:
    """The recordings in blocks of a tenth of a second."""
    return (await script(names or NAMES, pause))[0]
