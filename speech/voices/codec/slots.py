"""The fixed places in which segments are spoken: keys and values of one segment each.

A place belongs to a row for as long as the row lives; a released voicing lets go of its row, and the place is free. A
row that waits (its next window has not been asked for) keeps its place untouched, until another row needs one and none
is free: then the row that has rested longest is copied to host memory, and put back, bit by bit the same, before its
next step. So a step of at most as many rows as there are places can always run, and nobody waits for anybody's ear.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

from speech.voices.codec.layout import FRAME, Layout
from speech.voices.codec.llama import Llama


class Row:
    """What a voicing has said so far, and where its keys and values are.

    `codes` grows by one a step, `fed` counts the tokens whose keys and values are known: those of `slot`, or of `saved`
    while the row has no place. `ended` once the model has ended it or the cap of `most` frames is reached.
    """

    __slots__ = ("prompt", "key", "most", "codes", "ended", "fed", "home", "slot", "saved", "trimmed", "__weakref__")

    def __init__(self, prompt: tuple[int, ...], key: int, most: int) -> None:
        self.prompt = prompt
        self.key = key
        self.most = most
        self.codes: list[int] = []
        self.ended = False
        self.fed = 0
        self.home: Slots | None = None
        self.slot: int | None = None
        self.saved: Tensor | None = None
        self.trimmed = 0

    @property
    def frames(self) -> int:
        """Whole frames said."""
        return len(self.codes) // FRAME

    @property
    def length(self) -> int:
        """Tokens of the prompt and the codes."""
        return len(self.prompt) + len(self.codes)

    def again(self) -> Row:
        """The same row without keys and values: they were on a device that is gone, and a thread may still write."""
        row = Row(self.prompt, self.key, self.most)
        row.codes, row.ended, row.trimmed = list(self.codes), self.ended, self.trimmed
        return row

    def tokens(self, begin: int, end: int, layout: Layout) -> list[int]:
        """Tokens `begin` to `end` of prompt and codes."""
        start = len(self.prompt)
        said = [layout.token(n % FRAME, self.codes[n]) for n in range(max(0, begin - start), max(0, end - start))]
        return [*self.prompt[begin:end], *said]


class Slots:
    """`memory` [layers, 2, slots, kv heads, capacity, head] and, for each slot, which codes its segment has used."""

    def __init__(self, model: Llama, layout: Layout, slots: int, capacity: int, most: int, device: str) -> None:
        self.memory = model.memory(slots, capacity)
        self.seen = torch.zeros(slots, 1 + layout.codes, dtype=torch.bool, device=device)
        self.most = most
        self._layout = layout
        self._owners: list[weakref.ref[Row] | None] = [None] * slots
        self._stepped = [0] * slots
        self._step = 0
        self._rows: weakref.WeakSet[Row] = weakref.WeakSet()

    @property
    def free(self) -> int:
        """Places that nobody holds."""
        return sum(self._owner(slot) is None for slot in range(len(self._owners)))

    @property
    def full(self) -> bool:
        """As many segments are under way, in places and in host memory, as may be."""
        return len(self._rows) >= self.most

    def view(self, slot: int) -> tuple[Tensor, Tensor]:
        """Memory and used codes of one place, its dimension kept."""
        return self.memory[:, :, slot : slot + 1], self.seen[slot : slot + 1]

    def seat(self, rows: Sequence[Row]) -> None:
        """Give every row a place, at most as many rows as there are places."""
        self._step += 1
        for row in rows:
            if row.slot is not None:
                self._stepped[row.slot] = self._step
        for row in rows:
            if row.slot is None:
                self._enter(row, self._make_room())

    def _owner(self, slot: int) -> Row | None:
        owner = self._owners[slot]
        return owner() if owner is not None else None

    def _make_room(self) -> int:
        slots = range(len(self._owners))
        slot = next((slot for slot in slots if self._owner(slot) is None), None)
        if slot is None:
            slot = min(slots, key=self._stepped.__getitem__)
            owner = self._owner(slot)
            assert owner is not None and self._stepped[slot] < self._step, "more rows in a step than places"
            owner.saved = self.memory[:, :, slot, :, : owner.fed].to("cpu", copy=True)
            owner.slot = None
        return slot

    def _enter(self, row: Row, slot: int) -> None:
        # All of it is wiped: attention multiplies what lies behind a row's end by zero, and that of NaN is NaN.
        self.memory[:, :, slot].zero_()
        self.seen[slot] = False
        if row.saved is not None:
            self.memory[:, :, slot, :, : row.fed] = row.saved.to(self.memory.device)
            row.saved = None
        if row.codes:
            columns = [1 + n % FRAME * self._layout.codebook + code for n, code in enumerate(row.codes)]
            self.seen[slot, columns] = True
        self._owners[slot] = weakref.ref(row)
        self._stepped[slot] = self._step
        self._rows.add(row)
        row.home, row.slot = self, slot
