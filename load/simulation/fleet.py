"""Machines, gateways, the people who come to them over a day, and what goes wrong meanwhile."""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from load.simulation import people
from load.simulation.figures import Figures, Hour
from load.simulation.gateway import Gateway, Policy
from load.simulation.grants import Grants
from load.simulation.machine import Machine
from load.simulation.people import HOURS, Day
from load.simulation.session import Session
from load.simulation.tables import Table
from load.simulation.world import World
from workers.capacity import Capacity
from workers.site import Site

NOTICED = (0.5, 2.0)
"""Seconds after which the death of a machine is noticed."""
REPLACED = (120.0, 600.0)
"""Seconds until a machine is back."""
STARTED = (20.0, 60.0)
"""Seconds until a gateway that has died is there again."""
RESUMED = (0.5, 3.0)
"""Seconds in which a client whose gateway has died finds another one."""
AGAIN = 1.0
"""Seconds between two attempts to find a place for a session that had one."""
SAMPLES = 6
"""An hour."""
GRACE = 700.0
"""Virtual seconds after the day in which everybody finishes what they say, and the last machine is replaced."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`observed` machines have people who talk (None: all of them). `hour`: virtual seconds of an hour of the day.
    `load`: sessions that would be open if they came for ever as they do when most come, of those that fit. `age`:
    seconds between two looks of a gateway at the machines, each of which `reach` gateways use (None: all). `deaths` of
    machines and `gateway_deaths`: in a day, of all together. `batch`: streams that are taken to share a decode where
    the share of a stream is worked out."""

    table: Table
    machines: int = 1000
    gateways: int = 10
    observed: int | None = 10
    hour: float = 150.0
    load: float = 1.0
    policy: Policy = "two"
    age: float = 1.0
    counts: bool = True
    reach: int | None = None
    deaths: float = 30.0
    gateway_deaths: float = 2.0
    limit: float = 0.85
    batch: int = 8
    seed: int = 1
    flat: bool = False
    """As many come at every hour."""

    @property
    def share(self) -> float:
        return self.table.share(self.batch)

    @property
    def streams(self) -> int:
        """That fit on a machine."""
        return int(self.limit / self.share + 1e-9)

    @property
    def day(self) -> Day:
        return Day(self.hour, self.load * self.machines * self.streams / people.mean_stay())


class Fleet:
    """`run` it once."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.limit = plan, plan.limit
        self.world = World(plan.seed)
        count = plan.machines if plan.observed is None else plan.observed
        watched = set(self.world.dice.sample(range(plan.machines), count))
        self.machines = [
            Machine(self.world, number, plan.table, limit=plan.limit, observed=number in watched)
            for number in range(plan.machines)
        ]
        self.machine_of: dict[Site, Machine] = {machine.device: machine for machine in self.machines}
        self.ledger = Capacity([machine.device for machine in self.machines], plan.limit)
        self.used = [0.0] * plan.machines
        """What the machines would tell now; inf: they are known to be lost."""
        age = 0.0 if plan.policy in ("ledger", "grants") else plan.age
        self.gateways = [
            Gateway(self, number, plan.policy, age, counts=plan.counts, reach=plan.reach)
            for number in range(plan.gateways)
        ]
        self.figures = Figures([Hour() for _ in range(HOURS)])
        self.hour = self.figures.hours[0]
        self._share = plan.share
        self.grants = Grants(self, plan.share) if plan.policy == "grants" else None
        self._numbers = 0
        self._stepped = 0.0

    def run(self, tell: Callable[[str], None] = lambda text: None) -> Figures:
        """The day, and a while more until everybody has left."""
        log = logging.getLogger("workers")
        before = log.level
        log.setLevel(logging.CRITICAL)  # thousands of deaths need no lines
        try:
            return self._run(tell)
        finally:
            log.setLevel(before)

    def _run(self, tell: Callable[[str], None]) -> Figures:
        plan, world, day = self.plan, self.world, self.plan.day
        self._arrivals = self._arriving(day)
        self._next()
        for gateway in self.gateways:
            if gateway.age:
                world.after(gateway.age * world.dice.random(), partial(self._look, gateway))
        for number in range(HOURS):
            world.at(number * day.hour, partial(self._strike, number))
        for number in range(1, SAMPLES * HOURS + 1):
            world.at(number * day.hour / SAMPLES - 1e-6, self._sample)
        self._later(plan.deaths, self._machine_dies)
        self._later(plan.gateway_deaths, self._gateway_dies)
        for number in range(HOURS):
            world.run((number + 1) * day.hour)
            tell(f"{number + 1:2} h: {sum(len(gateway.sessions) for gateway in self.gateways):,} sessions, "
                 f"{world.happened:,} events")  # fmt: skip
        for gateway in self.gateways:
            for session in list(gateway.sessions.values()):
                session.leave()
        world.run(day.seconds + GRACE)
        return self.figures

    # -- people

    def _arriving(self, day: Day) -> Iterator[float]:
        if not self.plan.flat:
            return day.arrivals(self.world.dice)
        return self._steadily(day)

    def _steadily(self, day: Day) -> Iterator[float]:
        now = 0.0
        while (now := now + self.world.dice.expovariate(day.peak)) < day.seconds:
            yield now

    def _next(self) -> None:
        at = next(self._arrivals, None)
        if at is not None:
            self.world.at(at, self._come)

    def _come(self) -> None:
        self._next()
        self.hour.offered += 1
        self._ask(self._gateway(), people.stay(self.world.dice))

    def _ask(self, gateway: Gateway | None, length: float, *, again: bool = False) -> None:
        """For a place. Where grants are missing the gateway asks for more, and has the client come back once."""
        found = gateway.place(self._share) if gateway is not None else None
        if gateway is None or found is None:
            if self.grants is not None and not again:
                self.world.after(AGAIN, partial(self._ask, gateway, length, again=True))
            else:
                self.hour.refused += 1
            return
        self.figures.admitted += 1
        self._numbers += 1
        session = Session(self._numbers, self)
        machine, reserved = found
        session.connect(gateway)
        session.settle(machine, reserved)
        self.told(machine)
        self.world.after(length, session.leave)

    def told(self, machine: Machine) -> None:
        """What is reserved on a machine has changed."""
        if machine.answers:
            self.used[machine.number] = self._reserved(machine)
            self.figures.most_reserved = max(self.figures.most_reserved, self.used[machine.number])

    def _reserved(self, machine: Machine) -> float:
        if self.grants is not None:
            return self.grants.used(machine.number)
        return self.ledger.reserved(machine.device) if self.plan.policy == "ledger" else machine.used

    def _gateway(self) -> Gateway | None:
        """Any that is up, as a load balancer would find it."""
        up = [gateway for gateway in self.gateways if gateway.up]
        return self.world.dice.choice(up) if up else None

    # -- what goes wrong

    def _later(self, a_day: float, event: Callable[[], None]) -> None:
        """At random, so often in a day."""
        if a_day:
            at = self.world.now + self.world.dice.expovariate(a_day / self.plan.day.seconds)
            if at < self.plan.day.seconds:
                self.world.at(at, event)

    def _machine_dies(self) -> None:
        self._later(self.plan.deaths, self._machine_dies)
        alive = [machine for machine in self.machines if machine.answers]
        if alive:
            machine = self.world.dice.choice(alive)
            machine.die()
            self.figures.machines_lost += 1
            self.world.after(self.world.dice.uniform(*NOTICED), partial(self._noticed, machine))

    def _noticed(self, machine: Machine) -> None:
        self._know(machine, math.inf)
        for session in machine.lost():
            session.machine = None
            session.give_back()
            session.alone = self.world.now
            self.figures.moved_by_machines += 1
            self._take_over(session)
        self.world.after(self.world.dice.uniform(*REPLACED), partial(self._replaced, machine))

    def _replaced(self, machine: Machine) -> None:
        machine.back()
        self._know(machine, 0.0)

    def _know(self, machine: Machine, used: float) -> None:
        """Everybody who has to do with it is told at once that it is lost, or back."""
        self.used[machine.number] = used
        for gateway in self.gateways:
            gateway.know(machine.number, used)

    def _gateway_dies(self) -> None:
        self._later(self.plan.gateway_deaths, self._gateway_dies)
        gateway = self._gateway()
        if gateway is None:
            return
        gateway.up = False
        self.figures.gateways_lost += 1
        sessions, gateway.sessions = list(gateway.sessions.values()), {}
        for session in sessions:
            session.cut_off()
            session.alone = self.world.now
            self.figures.moved_by_gateways += 1
            self.world.after(self.world.dice.uniform(*RESUMED), partial(self._take_over, session))
        self.world.after(self.world.dice.uniform(*STARTED), partial(setattr, gateway, "up", True))

    def _take_over(self, session: Session) -> None:
        """A session that was admitted goes on at once, wherever there is room in a queue, and gets a place of its own
        as soon as there is one."""
        if session.machine is not None or session.gone:  # it has lost both, and the other one was quicker
            return
        if session.gateway is None and (gateway := self._gateway()) is not None:
            session.connect(gateway)
            session.resume()
            if session.gone:
                return
        found = session.gateway.place(self._share) if session.gateway is not None else None
        if found is None:
            self.world.after(AGAIN, partial(self._take_over, session))
            return
        machine, reserved = found
        session.settle(machine, reserved)
        self.told(machine)
        self.hour.moved += 1
        self.figures.outages.append(self.world.now - session.alone)
        session.rest()

    # -- looking

    def _look(self, gateway: Gateway) -> None:
        gateway.refresh()
        self.world.after(gateway.age, partial(self._look, gateway))

    def _strike(self, hour: int) -> None:
        self.hour = self.figures.hours[hour]

    def _sample(self) -> None:
        up = [machine for machine in self.machines if machine.answers]
        used = [self.used[machine.number] for machine in up]
        mean = sum(used) / max(1, len(used))
        self.hour.up.append(len(up))
        self.hour.reserved.append(mean)
        if mean:
            self.figures.spread.append(statistics.pstdev(used) / mean)
        watched = [machine for machine in self.machines if machine.observed]
        stepped = sum(machine.device.loop.ledger.seconds for machine in watched)
        self.hour.busy.append((stepped - self._stepped) / (max(1, len(watched)) * self.plan.hour / SAMPLES))
        self._stepped = stepped
