"""A session as it is kept for other gateways: what is written of it, and what one that goes on with it reads."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass
from typing import Any, Literal

from gateway.realtime.config import SERVER_VAD, Shape
from gateway.realtime.items import Item, Items
from gateway.realtime.messages import Session
from gateway.shared.image import Image
from speech.audio import AudioFormat

VERSION = 1
"""Of what is written. A gateway of another version begins a new session."""
ITEM = "item:"


class KeptItems(Items):
    """Items of which the image always has the newest state."""

    def __init__(self, image: Image, last: str | None = None) -> None:
        """`last`: the item that was committed last, of a session that goes on; its items are in the image."""
        super().__init__()
        self._image = image
        self._places: dict[str, int] = {}
        rows = sorted(json.loads(image.get(name) or b"[]") for name in image.names() if name.startswith(ITEM))
        for place, id, seconds, transcript, status in rows:
            self._items[id] = Item(id, seconds, transcript, status)
            self._places[id] = place
            self._characters += len(transcript or "")
        self._last = last

    @property
    def last(self) -> str | None:
        """The item that was committed last."""
        return self._last

    def add(self, item: Item) -> str | None:
        self._places[item.id] = max(self._places.values(), default=0) + 1
        previous = super().add(item)
        self._write(item)
        return previous

    def end(self, item: Item, status: Literal["completed", "incomplete"], transcript: str) -> None:
        super().end(item, status, transcript)
        self._write(item)

    def delete(self, item_id: str) -> bool:
        self._image.drop(f"{ITEM}{item_id}")
        self._places.pop(item_id, None)
        return super().delete(item_id)

    def _write(self, item: Item) -> None:
        if item.id in self._items:
            row = [self._places[item.id], item.id, item.seconds, item.transcript, item.status]
            self._image.put(f"{ITEM}{item.id}", json.dumps(row).encode())


@dataclass(frozen=True, slots=True)
class Kept:
    """What a gateway reads that goes on with a session. `state` is as it was written with `write`."""

    image: Image
    state: dict[str, Any]
    session: Session
    newest: int
    gone: int
    taken: int

    @classmethod
    def read(cls, fields: dict[str, bytes]) -> Kept:
        """Raises ValueError for what another version has written."""
        state = json.loads(fields["state"])
        if state["version"] != VERSION:
            raise ValueError(f"the session was kept by version {state['version']}, this is {VERSION}")
        session = Session.model_validate_json(fields["session"])
        if state["usual_turns"]:
            audio = session.audio.input.model_copy(update={"turn_detection": SERVER_VAD})
            session = session.model_copy(update={"audio": session.audio.model_copy(update={"input": audio})})
        numbers = (int(fields[name]) for name in ("newest", "gone", "taken"))
        return cls(Image(fields), state, session, *numbers)

    @property
    def seconds_left(self) -> float:
        """Until the session has reached its longest duration."""
        return max(0.0, float(self.state["ends_at"]) - time.time())

    @property
    def shape(self) -> Shape:
        return Shape(self.state["shape"])

    @property
    def sound(self) -> tuple[AudioFormat, bytes, int]:
        """Format, and where its decoder was."""
        encoding, rate, tail, given = self.state["sound"]
        return AudioFormat(encoding, rate), base64.b64decode(tail), given


def write(
    image: Image, session: Session, state: dict[str, Any], *, owner: str, newest: int, gone: int, taken: int
) -> None:
    """Bring the image up to date, but for events, items and audio, which are there already."""
    usual = session.audio.input.turn_detection is SERVER_VAD
    image.put("state", json.dumps({"version": VERSION, "usual_turns": usual, **state}).encode())
    image.put("session", session.model_dump_json().encode())
    image.put("owner", owner.encode())
    for name, number in (("newest", newest), ("gone", gone), ("taken", taken)):
        image.put(name, str(number).encode())


def sound(format: AudioFormat, tail: bytes, given: int) -> list[Any]:
    """Fit for JSON."""
    return [format.encoding, format.rate, base64.b64encode(tail).decode(), given]
