"""A service whose number is known, and clients at it that take no time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from load.harness.asr import FINAL
from load.harness.trial import Begun, Objective, Outcome, Unit, unseen
from load.harness.watch import Sight, Watched
from load.service import Running
from workers.capacity import OPEN


class VirtualService(Running):
    """`free`: streams that it says it takes."""

    free = OPEN

    def __init__(self, free: int = OPEN) -> None:
        super().__init__("http://virtual", None)
        object.__setattr__(self, "free", free)

    def state(self) -> dict[str, Any]:
        return {"sessions": 0, "devices": [{"streams": 0, "free_streams": self.free}], "speech": {"free": self.free}}


class VirtualTrial:
    """A unit each five seconds of each client, of which the share `late(clients)` comes late. As many clients are
    admitted as the service has room for. `change` has the last word on an outcome."""

    kind = "asr"
    own = FINAL

    def __init__(self, late: Callable[[int], float], change: Callable[[Outcome], None] = lambda out: None) -> None:
        self.late, self.change = late, change
        self.objective = Objective(FINAL, 1.0)
        self.begun: Begun = unseen
        self.runs: list[tuple[int, float, int]] = []

    async def run(self, running: Running, clients: int, seconds: float, seed: int) -> Outcome:
        self.runs.append((clients, seconds, seed))
        chance = random.Random(seed)
        admitted = min(clients, running.capacity())
        out = Outcome(clients, admitted=admitted, refused=clients - admitted)
        for _ in range(out.refused):
            out.took("refused", 0.01)
        for client in range(admitted):
            for n in range(int(seconds / 5)):
                took = 1.5 if chance.random() < self.late(admitted) else 0.7
                out.end(Unit(client, 5.0 * n, 5.0 * n + took, took > 1.0))
                out.took(FINAL, took)
            out.errors.append(5.0)
        out.watched = Watched(0.0, sights=[Sight(1.0, 0.9, clients, 0, 0, 0.5)])
        self.change(out)
        return out
