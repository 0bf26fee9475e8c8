"""Tokens proposed ahead and verified in one step. The text is the one that there would be without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from vision_text.vlm.core import Rows, TextCore

LONGEST_MATCH = 3
FARTHEST = 4096
"""Tokens back that are searched for a match."""
WINDOW = 16
"""Proposed tokens over which the rate is taken."""
ROW = 0.1
"""What one more row costs in a step, in steps."""
FIRST_PAUSE = 32
"""Tokens without proposals after the rate was too low; twice as many each time."""


class Proposer(Protocol):
    cost: float
    """Of a proposed token, its verification apart, in steps of the model itself."""

    def propose(self, ids: Sequence[int], count: int) -> list[int]: ...

    def free(self) -> None: ...


class Lookup:
    """What followed the last tokens when they came before, in the prompt or the answer."""

    cost = 0.0

    def __init__(self, never: frozenset[int]) -> None:
        self._never = never

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        for size in range(min(LONGEST_MATCH, len(ids) - 1), 0, -1):
            tail = list(ids[-size:])
            if self._never.intersection(tail):
                continue
            for start in range(len(ids) - size - 1, max(-1, len(ids) - FARTHEST), -1):
                if ids[start] == tail[0] and list(ids[start : start + size]) == tail:
                    found = list(ids[start + size : start + size + count])
                    cut = next((n for n, token in enumerate(found) if token in self._never), len(found))
                    if cut:
                        return found[:cut]
        return []

    def free(self) -> None:
        """It holds nothing."""


class Draft:
    """A smaller language model, which sees the text and not the pictures. While it has much to read it reads a piece
    in each step and proposes nothing."""

    def __init__(self, core: TextCore, never: frozenset[int], chunk: int, cost: float) -> None:
        self.cost = cost
        self._core, self._never, self._chunk = core, never, chunk
        self._kv = core.cache("float32")
        self._read: list[int] = []

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        text = [token for token in ids if token not in self._never]
        same = next((n for n, (a, b) in enumerate(zip(self._read, text, strict=False)) if a != b), None)
        same = min(len(self._read), len(text)) if same is None else same
        same = min(same, len(text) - 1)
        self._kv.truncate(same)
        self._read = self._read[:same]
        missing = text[same:]
        if len(missing) > self._chunk:
            self._run(missing[: self._chunk])
            return []
        found: list[int] = []
        token = self._run(missing)
        while len(found) < count and token not in self._never:
            found.append(token)
            if len(found) < count:
                token = self._run([token])
        return found

    def _run(self, ids: list[int]) -> int:
        start = len(self._read)
        positions = torch.arange(start, start + len(ids))[None]
        hidden = self._core.run([Rows(self._kv, self._core.embedded(ids), positions)])[0]
        self._read += ids
        return int(torch.argmax(self._core.logits(hidden[-1:])[0]))

    def free(self) -> None:
        self._kv.free()
        self._read = []


class Speculation:
    """Of one request. It stops proposing where that costs more than it gains, and tries again later."""

    def __init__(self, proposer: Proposer, count: int) -> None:
        self._proposer, self.count = proposer, count
        self.proposed = self.accepted = self.pauses = 0
        self._recent: list[tuple[int, int]] = []
        self._pause, self._next_pause = 0, FIRST_PAUSE

    @property
    def break_even(self) -> float:
        """The share of proposed tokens that has to be right."""
        return self._proposer.cost + ROW

    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        """Of the next tokens, at most so many."""
        if self._pause > 0:
            return []
        count = min(self.count, most)
        return self._proposer.propose(ids, count) if count > 0 else []

    def verified(self, proposed: int, accepted: int, written: int) -> None:
        """How it went, `written` being all tokens of the step."""
        if self._pause > 0:
            self._pause -= written
            return
        if not proposed:
            return
        self.proposed += proposed
        self.accepted += accepted
        self._recent.append((proposed, accepted))
        total = sum(n for n, _ in self._recent)
        if total >= WINDOW:
            if sum(n for _, n in self._recent) < self.break_even * total:
                self.pauses += 1
                self._pause, self._next_pause = self._next_pause, 2 * self._next_pause
            else:
                self._next_pause = FIRST_PAUSE
            self._recent.clear()

    def free(self) -> None:
        self._proposer.free()
