"""A backend at home on a device: its name in the latency table and how many of its tasks may share a batch now."""

from __future__ import annotations

from typing import Any

from workers.backend import Backend

CAP_HOLD = 10.0
"""Seconds a cap lowered by lack of memory holds before it is doubled again."""


class Use:
    """What a backend has had of its device since it came there: steps, tasks in them, and seconds of them."""

    __slots__ = ("steps", "items", "seconds")

    def __init__(self) -> None:
        self.steps = 0
        self.items = 0
        self.seconds = 0.0

    def step(self, seconds: float, items: int) -> None:
        self.steps += 1
        self.items += items
        self.seconds += seconds


class Home:
    """One backend on one device."""

    __slots__ = ("backend", "use", "name", "items", "cost", "cap", "cap_until")

    def __init__(self, backend: Backend, torch_device: str) -> None:
        spec, limits = backend.spec, backend.limits
        if limits.items < 1 or not limits.cost > 0:
            raise ValueError(f"{spec.model}: limits.items must be at least 1 and limits.cost above 0")
        self.backend = backend
        self.use = Use()
        self.name = "|".join((torch_device, spec.task, spec.model, spec.revision, spec.precision))
        self.items = limits.items
        self.cost = limits.cost
        self.cap = limits.items
        self.cap_until = 0.0

    def lower_cap(self, batch: int, now: float) -> None:
        """A batch of `batch` items ran out of memory: at most half as many from now on."""
        self.cap = max(1, min(self.cap, batch) // 2)
        self.cap_until = now + CAP_HOLD

    def cap_at(self, now: float) -> int:
        """Items that may share a batch now."""
        while self.cap < self.items and now >= self.cap_until:
            self.cap = min(self.items, self.cap * 2)
            self.cap_until += CAP_HOLD
        return self.cap


def out_of_memory(error: BaseException) -> bool:
    """Whether a step failed for want of memory, on the host or on any kind of accelerator."""
    if isinstance(error, MemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    # torch.OutOfMemoryError is a RuntimeError; told by its name, so that a process without torch need not load it.
    return type(error).__name__ == "OutOfMemoryError" or "out of memory" in str(error).lower()


State = tuple[Home, Any]
"""A state together with the backend that must free it."""
