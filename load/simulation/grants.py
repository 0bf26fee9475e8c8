"""Reservations as devices of a cluster grant them beforehand: each machine divides its room among the gateways, and a
gateway admits by what it was granted, at once and by itself. The rules are those of workers/cluster, over messages that
take their time.
"""

from __future__ import annotations

from functools import partial
from heapq import nsmallest
from typing import TYPE_CHECKING

from workers.cluster.escrow import PLAN_EVERY, Escrow
from workers.cluster.messages import Grant
from workers.cluster.seats import Seats
from workers.device import Device
from workers.fairness import NOBODY

if TYPE_CHECKING:
    from load.simulation.fleet import Fleet
    from load.simulation.machine import Machine

UNDERWAY = 0.004
"""Seconds that a message takes, with the tick that it waits for."""
ASKED = 4
"""Machines that are asked for room when there is none."""
ROUNDING = 1e-9


class Place:
    """A session's reservation out of a grant."""

    __slots__ = ("device", "_grants", "_gateway", "_machine")

    def __init__(self, grants: Grants, gateway: int, machine: Machine) -> None:
        self.device: Device = machine.device
        self._grants, self._gateway, self._machine = grants, gateway, machine

    def release(self) -> None:
        self._grants.give(self._gateway, self._machine.number)


class Grants:
    """Of all machines to all gateways."""

    def __init__(self, fleet: Fleet, share: float) -> None:
        self._fleet, self._share = fleet, share
        world, machines = fleet.world, fleet.machines
        self._escrows = [Escrow(one.device.name, fleet.limit, world.clock, lambda held: 0.0) for one in machines]
        self._seats = [[Seats(world.clock) for _ in machines] for _ in range(fleet.plan.gateways)]
        self._room = [[0.0] * len(machines) for _ in self._seats]  # granted and not reserved
        self._held = [[0.0] * len(machines) for _ in self._seats]
        self._underway: set[tuple[int, int]] = set()
        self._planning: set[int] = set()
        for gateway, seats in enumerate(self._seats):
            for machine, escrow in enumerate(self._escrows):
                seats[machine].expect(share)
                escrow.enter(str(gateway), seats[machine].report(), partial(self._granted, gateway, machine))

    def place(self, gateway: int) -> tuple[Machine, Place] | None:
        """On the machine where this gateway has most room. None: it has none anywhere."""
        room, machines = self._room[gateway], self._fleet.machines
        number = room.index(max(room))
        if not self._seats[gateway][number].take(NOBODY, self._share, alone=False, force=False):
            self._want(gateway)
            return None
        self._hold(gateway, number, self._share)
        return machines[number], Place(self, gateway, machines[number])

    def give(self, gateway: int, machine: int) -> None:
        self._seats[gateway][machine].give(NOBODY, self._share)
        self._hold(gateway, machine, -self._share)

    def used(self, machine: int) -> float:
        """Reserved by all gateways."""
        return sum(held[machine] for held in self._held)

    def _want(self, gateway: int) -> None:
        """Ask the machines that have most room, by what all of them tell."""
        used = self._fleet.used
        for number in nsmallest(ASKED, range(len(used)), key=used.__getitem__):
            if used[number] + self._share <= self._fleet.limit + ROUNDING:
                self._seats[gateway][number].want(self._share)
                self._tell(gateway, number)

    def _hold(self, gateway: int, machine: int, share: float) -> None:
        self._held[gateway][machine] += share
        self._room[gateway][machine] -= share
        self._tell(gateway, machine)

    def _tell(self, gateway: int, machine: int) -> None:
        if (gateway, machine) not in self._underway:
            self._underway.add((gateway, machine))
            self._fleet.world.after(UNDERWAY, partial(self._report, gateway, machine))

    def _report(self, gateway: int, machine: int) -> None:
        self._underway.discard((gateway, machine))
        self._escrows[machine].report(str(gateway), self._seats[gateway][machine].report())
        self._tick(machine)

    def _tick(self, machine: int) -> None:
        self._planning.discard(machine)
        escrow = self._escrows[machine]
        escrow.tick()
        if escrow.stale and machine not in self._planning:
            self._planning.add(machine)
            self._fleet.world.after(PLAN_EVERY, partial(self._tick, machine))

    def _granted(self, gateway: int, machine: int, grant: Grant) -> None:
        self._fleet.world.after(UNDERWAY, partial(self._take, gateway, machine, grant))

    def _take(self, gateway: int, machine: int, grant: Grant) -> None:
        seats = self._seats[gateway][machine]
        seats.grant(grant)
        self._room[gateway][machine] = seats.allowed - self._held[gateway][machine]
        if seats.changed:
            self._tell(gateway, machine)
