"""The items of a session: what was committed, and what became of it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from gateway.realtime.parse import RequestError

KEPT_ITEMS = 200
KEPT_CHARACTERS = 256 * 1024


@dataclass(slots=True)
class Item:
    """One utterance as the client knows it. `seconds` is the length of its audio."""

    id: str
    seconds: float = 0.0
    transcript: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] = "in_progress"

    def described(self) -> dict[str, Any]:
        """The item on the wire, without its audio, which is not kept."""
        return {
            "id": self.id,
            "object": "realtime.item",
            "type": "message",
            "status": self.status,
            "role": "user",
            "content": [{"type": "input_audio", "transcript": self.transcript}],
        }


class Items:
    """The newest items for retrieve and delete: at most KEPT_ITEMS and KEPT_CHARACTERS of text, the oldest go first."""

    def __init__(self) -> None:
        self._items: OrderedDict[str, Item] = OrderedDict()
        self._characters = 0
        self._last: str | None = None

    def add(self, item: Item) -> str | None:
        """Keep an item from its commit on; the id of the one committed before it."""
        previous, self._last = self._last, item.id
        self._items[item.id] = item
        self._trim()
        return previous

    def end(self, item: Item, status: Literal["completed", "incomplete"], transcript: str) -> None:
        """The item's text is known ("completed") or never will be ("incomplete")."""
        item.status, item.transcript = status, transcript
        if item.id in self._items:
            self._characters += len(transcript)
            self._trim()

    def get(self, item_id: str) -> Item | None:
        """The item, or None when there was none, or it was deleted or is too old."""
        return self._items.get(item_id)

    def delete(self, item_id: str) -> bool:
        """Forget an item; whether there was one."""
        item = self._items.pop(item_id, None)
        if item is not None:
            self._characters -= len(item.transcript or "")
        return item is not None

    def _trim(self) -> None:
        while len(self._items) > KEPT_ITEMS or self._characters > KEPT_CHARACTERS:
            self.delete(next(iter(self._items)))


def no_item(item_id: str, code: str) -> RequestError:
    """The refusal of a request about an item that is not there."""
    return RequestError(
        f"There is no item {item_id[:100]!r}; it never was, was deleted, or is too old to be kept.",
        code=code,
        param="item_id",
    )


def new_id(kind: str) -> str:
    """A fresh identifier: item_…, sess_…"""
    return f"{kind}_{uuid4().hex[:24]}"
