"""A gateway: it sees loads that are some time old, chooses by them, and the machine has the last word."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from load.simulation.session import Reserved
from load.simulation.tables import MODEL
from workers.errors import Overloaded
from workers.pool import Pool

if TYPE_CHECKING:
    from load.simulation.fleet import Fleet
    from load.simulation.machine import Machine
    from load.simulation.session import Session

Policy = Literal["random", "two", "full", "grants", "ledger"]
"""Any machine; the better of two drawn by chance; the best of all, by what this gateway knows; where the machines have
granted it room beforehand; or one Capacity over all machines, which every gateway shares."""
TRIES = 4
"""Machines that are asked for a session before it is refused."""


class Gateway:
    """`view`: what is reserved on each machine, as it was told up to `age` seconds ago, and what this gateway has
    reserved since; inf for one that is known to be lost. `counts` is off for one that does not add its own. `reach`:
    how many gateways use each machine (None: all of them), so that each gateway has to do with a part of them."""

    def __init__(
        self, fleet: Fleet, number: int, policy: Policy, age: float, *, counts: bool = True, reach: int | None = None
    ) -> None:
        self.fleet, self.number, self.policy, self.age, self.counts = fleet, number, policy, age, counts
        every, own = fleet.plan.gateways, reach or fleet.plan.gateways
        self._reach = [n for n in range(len(fleet.machines)) if (n - number) % every < own]
        self.pool = Pool(MODEL, [fleet.machines[n].device for n in self._reach])
        self.sessions: dict[int, Session] = {}
        self.up = True
        self._whole, self._reached = own >= every, frozenset(self._reach)
        self.view: list[float] = []
        self._look()
        choices: dict[Policy, Callable[[], int]] = {"random": self._any, "two": self._two, "full": self._best}
        self._choose = choices.get(policy, self._best)

    def refresh(self) -> None:
        """The machines tell what is reserved on them."""
        if self.age:
            self._look()

    def _look(self) -> None:
        used = self.fleet.used
        if not self.age:
            self.view = used  # and so it is never old
        elif self._whole:
            self.view = list(used)
        else:
            self.view = [math.inf] * len(used)
            for number in self._reach:
                self.view[number] = used[number]

    def know(self, number: int, used: float) -> None:
        """A machine is lost (inf), or back."""
        if self._whole or number in self._reached:
            self.view[number] = used

    def place(self, share: float) -> tuple[Machine, Reserved] | None:
        """A machine that has reserved the share. None: it is refused."""
        if self.policy == "ledger":
            return self._from_ledger(share)
        if self.fleet.grants is not None:
            self.fleet.hour.asked += 1
            return self.fleet.grants.place(self.number)
        hour, asked = self.fleet.hour, set()
        for _ in range(TRIES):
            number = self._choose()
            if self.view[number] == math.inf or number in asked:
                continue
            asked.add(number)
            hour.asked += 1
            machine = self.fleet.machines[number]
            if not machine.answers:
                continue  # it has died, and nobody has noticed yet
            try:
                lease = machine.reserve(share)
            except Overloaded:
                if self.age:
                    self.view[number] = max(self.view[number], self.fleet.limit)
                continue
            if self.age and self.counts:
                self.view[number] += share
            return machine, lease
        return None

    def _from_ledger(self, share: float) -> tuple[Machine, Reserved] | None:
        self.fleet.hour.asked += 1
        try:
            lease = self.fleet.ledger.admit(self.pool, share)
        except Overloaded:
            return None
        return self.fleet.machine_of[lease.device], lease

    def _any(self) -> int:
        """One that is not known to be lost, unless nearly all are."""
        luck, view, reach = self.fleet.world.luck, self.view, self._reach
        for _ in range(16):
            number = reach[luck.randrange(len(reach))]
            if view[number] != math.inf:
                break
        return number

    def _two(self) -> int:
        one, other = self._any(), self._any()
        return one if self.view[one] <= self.view[other] else other

    def _best(self) -> int:
        return self.view.index(min(self.view))
