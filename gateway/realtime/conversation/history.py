"""What both sides of a conversation have heard, in order: the items, and what the language model is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

from gateway.assistant import Called, Entry, Returned, Said
from gateway.realtime.conversation.items import AnyItem, Call, CallOutput, Message
from gateway.realtime.items import KEPT_CHARACTERS, KEPT_ITEMS, Item
from gateway.realtime.parse import RequestError

TOLD_CHARACTERS = 48 * 1024
"""What the language model is told at most; the oldest items are left out first."""


class History:
    """The newest items: at most KEPT_ITEMS and KEPT_CHARACTERS of text, the oldest go first."""

    def __init__(self) -> None:
        self._items: list[AnyItem] = []
        self._unheard: set[str] = set()
        """What was said to us and is still being transcribed."""
        self._asides: set[str] = set()
        self._heard = asyncio.Event()

    def add(self, item: AnyItem) -> str | None:
        """Put an item at the end; the id of the one before it."""
        previous = self._items[-1].id if self._items else None
        self._items.append(item)
        if isinstance(item, Item):
            self._unheard.add(item.id)
        self._trim()
        return previous

    def insert(self, item: AnyItem, after: str | None) -> str | None:
        """Put an item behind another, "root" or None: at the beginning or the end. Raises `RequestError`."""
        if self.get(item.id) is not None:
            raise RequestError(
                f"There is an item {item.id[:100]!r} already; choose another id or leave it out.",
                code="item_create_duplicate_id",
                param="item.id",
            )
        if after is None:
            return self.add(item)
        place = 0 if after == "root" else self._place(after) + 1
        if place == 0 and after != "root":
            raise RequestError(
                f"There is no item {after[:100]!r} to put it behind; leave previous_item_id out for the end.",
                code="item_create_invalid_previous_item_id",
                param="previous_item_id",
            )
        self._items.insert(place, item)
        self._trim()
        return self._items[place - 1].id if place else None

    def end(self, item: Item, status: Literal["completed", "incomplete"], transcript: str) -> None:
        """What was said to us is known ("completed") or never will be ("incomplete")."""
        item.status, item.transcript = status, transcript
        self._unheard.discard(item.id)
        self._heard.set()
        self._trim()

    def aside(self, item_id: str) -> None:
        """An item is no part of what is talked about: "mm-hmm" while the other one speaks."""
        if self.get(item_id) is not None:
            self._asides.add(item_id)

    async def settled(self) -> None:
        """Wait until everything that was said to us by now is known, or gone."""
        waiting = set(self._unheard)
        while waiting & self._unheard:
            self._heard.clear()
            await self._heard.wait()

    def get(self, item_id: str) -> AnyItem | None:
        """The item, or None when there was none, or it was deleted or is too old."""
        place = self._place(item_id)
        return self._items[place] if place >= 0 else None

    def before(self, item_id: str) -> str | None:
        """The id of the item before one."""
        place = self._place(item_id)
        return self._items[place - 1].id if place > 0 else None

    def delete(self, item_id: str) -> bool:
        """Forget an item; whether there was one."""
        place = self._place(item_id)
        if place >= 0:
            self._forget(place)
        return place >= 0

    def entries(self) -> tuple[Entry, ...]:
        """What the language model is told: the newest items that fit."""
        told = [item for item in self._items if item.id not in self._asides]
        first, characters = len(told), 0
        while first and characters + _characters(told[first - 1]) <= TOLD_CHARACTERS:
            first -= 1
            characters += _characters(told[first])
        return entries(told[first:])

    def _place(self, item_id: str) -> int:
        return next((place for place, item in enumerate(self._items) if item.id == item_id), -1)

    def _forget(self, place: int) -> None:
        gone = self._items.pop(place)
        self._asides.discard(gone.id)
        self._unheard.discard(gone.id)
        self._heard.set()

    def _trim(self) -> None:
        characters = sum(_characters(item) for item in self._items)
        while len(self._items) > KEPT_ITEMS or (characters > KEPT_CHARACTERS and len(self._items) > 1):
            characters -= _characters(self._items[0])
            self._forget(0)


def entries(items: Sequence[AnyItem]) -> tuple[Entry, ...]:
    """Items as the language model is told them; those without words, or not yet transcribed, are left out."""
    told: list[Entry] = []
    for item in items:
        match item:
            case Item(transcript=str(text)) if text:
                told.append(Said("user", text))
            case Message(role=role, text=text) if text:
                told.append(Said(role, text))
            case Call(call_id=call_id, name=name, arguments=arguments):
                told.append(Called(call_id, name, arguments))
            case CallOutput(call_id=call_id, output=output):
                told.append(Returned(call_id, output))
            case _:
                pass
    return tuple(told)


def _characters(item: AnyItem) -> int:
    return len(item.transcript or "") if isinstance(item, Item) else item.characters
