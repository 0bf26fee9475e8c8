"""A plain client of the protocol, and recordings to send with it."""

from __future__ import annotations

import asyncio
import base64
import json
import wave
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
from websockets.asyncio.client import ClientConnection, connect

DATA = Path(__file__).parents[2] / "data"
ITEM = "conversation.item."
TRANSCRIPTION = f"{ITEM}input_audio_transcription."
RATE = 16_000
PCM = {"type": "audio/pcm", "rate": RATE}

REFERENCES = dict(row.split("\t", 1) for row in (DATA / "references.tsv").read_text("utf-8").splitlines()[1:] if row)
"""What is said in each recording."""

Event = dict[str, Any]


def recording(name: str) -> bytes:
    """A recording of tests/data as 16 kHz PCM16."""
    with wave.open(str(DATA / name)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2)
        return file.readframes(file.getnframes())


def silence(seconds: float) -> bytes:
    """Digital silence as 16 kHz PCM16."""
    return bytes(2 * int(seconds * RATE))


def cut(data: bytes, seconds: float) -> Iterable[bytes]:
    """`data` in pieces of so many seconds of 16 kHz PCM16."""
    size = 2 * int(seconds * RATE)
    return (data[at : at + size] for at in range(0, len(data), size))


def samples(data: bytes) -> np.ndarray:
    """PCM16 to integers."""
    return np.frombuffer(data, "<i2")


def update(**audio_input: Any) -> Event:
    """A session.update that sets these fields of session.audio.input."""
    return {"type": "session.update", "session": {"type": "transcription", "audio": {"input": audio_input}}}


class Client:
    """One connection; everything received is kept in `seen`."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.seen: list[Event] = []

    async def send(self, event: Event | str | bytes) -> None:
        """One frame: an event, or text or bytes as they are."""
        await self.socket.send(event if isinstance(event, str | bytes) else json.dumps(event))

    async def append(self, data: bytes, seconds: float | None = None) -> None:
        """Audio, in one append or in pieces of so many seconds."""
        for piece in cut(data, seconds) if seconds else [data]:
            await self.send({"type": "input_audio_buffer.append", "audio": base64.b64encode(piece).decode()})

    async def commit(self) -> None:
        """input_audio_buffer.commit"""
        await self.send({"type": "input_audio_buffer.commit"})

    async def receive(self, timeout: float = 30) -> Event:
        """The next event."""
        event: Event = json.loads(await asyncio.wait_for(self.socket.recv(), timeout))
        self.seen.append(event)
        return event

    async def until(self, want: str | Callable[[Event], bool], timeout: float = 30) -> Event:
        """The next event of a type, or that meets a condition; others are passed over (but kept)."""
        async with asyncio.timeout(timeout):
            while True:
                event = await self.receive(timeout)
                if event["type"] == want if isinstance(want, str) else want(event):
                    return event

    async def ask(self, event: Event | str | bytes, want: str) -> Event:
        """Send, then wait for an event of a type."""
        await self.send(event)
        return await self.until(want)

    async def refused(self, event: Event | str | bytes) -> Event:
        """Send what must be refused; the error's fields."""
        return (await self.ask(event, "error"))["error"]

    async def alive(self) -> None:
        """The session still answers."""
        assert (await self.ask({"type": "session.update", "session": {}}, "session.updated"))["session"]["id"]

    def of(self, kind: str) -> list[Event]:
        """What was received of a type."""
        return [event for event in self.seen if event["type"] == kind]


@asynccontextmanager
async def session(url: str, *updates: Event, **options: Any) -> AsyncIterator[Client]:
    """A connected client whose updates have been answered."""
    async with connect(url, max_size=None, **options) as socket:
        client = Client(socket)
        created = await client.receive()
        assert created["type"].endswith("session.created")
        for event in updates:
            await client.ask(event, event["type"].replace(".update", ".updated"))
        yield client


def check_contract(events: list[Event], *, complete: bool = True) -> list[Event]:
    """What must hold for every session, whatever its client did. Gives the terminal events in order.

    Exactly one completed or failed for every committed item, in the order of the commits; a chain of previous items
    without a break; nothing of a later item before the end of an earlier one; event ids that do not repeat.
    """
    ids = [event["event_id"] for event in events]
    assert len(set(ids)) == len(ids)
    committed = [event for event in events if event["type"] == "input_audio_buffer.committed"]
    items = [event["item_id"] for event in committed]
    assert len(set(items)) == len(items)
    assert [event["previous_item_id"] for event in committed] == [None, *items][: len(items)]
    ends = [event for event in events if event["type"] in (TRANSCRIPTION + "completed", TRANSCRIPTION + "failed")]
    ended = [event["item_id"] for event in ends]
    assert ended == items[: len(ended)]
    if complete:
        assert ended == items
    done: set[str] = set()
    for event in events:
        if event["type"].startswith(TRANSCRIPTION) or event["type"] == "x.transcription.unstable":
            assert event["content_index"] == 0
            assert event["item_id"] not in done
            before = items[: items.index(event["item_id"])] if event["item_id"] in items else []
            assert done.issuperset(before)
            if event in ends:
                done.add(event["item_id"])
    return ends


def words(text: str) -> list[str]:
    """Words for comparison: lower case, no punctuation."""
    return "".join(c if c.isalnum() or c in "' " else " " for c in text.lower()).split()


def wer(reference: str, heard: str) -> float:
    """Word error rate."""
    return float(jiwer.wer(" ".join(words(reference)), " ".join(words(heard))))
