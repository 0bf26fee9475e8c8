"""Gateways and devices on one virtual clock, with a wire between them that takes time, loses, repeats and reorders."""

from __future__ import annotations

import itertools
import math
import pickle
import random
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from tests.workers.models import Timed, VirtualClock
from workers.cluster.calls import Done
from workers.cluster.courier import Courier
from workers.cluster.escrow import PLAN_EVERY
from workers.cluster.messages import Open, Order, Report
from workers.cluster.packing import Packing, Plain
from workers.cluster.remote import RemoteDevice
from workers.cluster.station import Station
from workers.device import Device
from workers.errors import BackendDead

Event = Callable[[], None]


class Net:
    """All that happens, in order. `turn` devices by hand with `busy=False`."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.couriers: list[Courier] = []
        self.seats: list[Seat] = []
        self._events: list[tuple[float, int, Event]] = []
        self._numbers = itertools.count()

    def gateway(self) -> Courier:
        courier = Courier(self.clock)
        self.couriers.append(courier)
        return courier

    def at(self, seconds: float, event: Event) -> None:
        """In so many seconds."""
        heappush(self._events, (self.clock() + seconds, next(self._numbers), event))

    def run(self, seconds: float = 0.0, until: Callable[[], Any] = lambda: False) -> None:
        """Let so much time pass, or less when it has come to something."""
        end = self.clock() + seconds
        while not until():
            happened = 0
            while self._events and self._events[0][0] <= self.clock.now:
                heappop(self._events)[2]()
                happened += 1
            happened += sum(courier.turn() for courier in self.couriers) + sum(seat.turn() for seat in self.seats)
            if happened:
                continue
            times = [at for courier in self.couriers if (at := courier.next_at) is not None]
            times += [at for seat in self.seats for at in seat.times()]
            times += [self._events[0][0]] if self._events else []
            at = min(times, default=math.inf)
            self.clock.now = max(self.clock.now, min(at, end))
            if at > end:
                return


class Seat:
    """Where a device's process runs; `ahead` is its clock before everybody else's. It can be killed, and started.

    While it steps, the others go on: what a step makes is handed out when the step's time has passed.
    """

    def __init__(
        self,
        net: Net,
        model: Timed,
        *,
        name: str = "far",
        limit: float = 0.85,
        ahead: float = 5000.0,
        packing: Packing | None = None,
        **options: Any,
    ) -> None:
        self.net, self.model, self.name, self.limit, self.ahead = net, model, name, limit, ahead
        self.packing, self.options = packing or Plain(), options
        self.stopped = False
        """It lives, but steps no more."""
        model.sleep = self._sleep
        self.busy_until = 0.0
        self.polls: list[tuple[float, str, int, int, Done]] = []
        net.seats.append(self)
        self.start()

    def start(self) -> None:
        """A new process."""
        self.alive = True
        self.busy_until = 0.0
        self.device = Device(self.name, clock=self._clock, **self.options)
        self.device.add(self.model)
        self.device.load()
        self.station = Station(self.device, self.packing, limit=self.limit, facts={"made": self.name}, node=self.name)

    def _clock(self) -> float:
        return max(self.net.clock(), self.busy_until) + self.ahead

    def _sleep(self, seconds: float) -> None:
        self.busy_until = max(self.net.clock(), self.busy_until) + seconds

    def kill(self) -> None:
        """The process is gone, and with it whatever it was at."""
        self.alive = False
        polls, self.polls = self.polls, []
        for _, _, _, _, done in polls:
            self.net.at(0.002, lambda done=done: done(BackendDead("its process is gone")))  # type: ignore[misc]

    def turn(self) -> bool:
        """Answer whoever can be answered, then take a step."""
        if not self.alive or self.net.clock() < self.busy_until:
            return False
        answered = False
        for poll in list(self.polls):
            until, gateway, link, ack, done = poll
            self.station.sweep()
            if self.station.has_news(gateway, link) or self.net.clock() >= until:
                self.polls.remove(poll)
                done(self.station.take(gateway, link, ack))
                answered = True
        return answered or (not self.stopped and self.device.loop.turn())

    def times(self) -> list[float]:
        """When a step ends, or a call for answers has waited long enough."""
        if not self.alive:
            return []
        if self.net.clock() < self.busy_until:
            return [self.busy_until]
        again = [self.net.clock() + PLAN_EVERY] if self.polls and self.station.divides_anew else []
        return [poll[0] for poll in self.polls] + again


class Wire:
    """Calls to a seat, each way with its own delay; what crosses is pickled. `posts` counts calls, `orders` keeps all.

    Calls are lost and repeated by chance; `cut` loses all of them.
    """

    def __init__(
        self, net: Net, seat: Seat, *, delay: float = 0.001, spread: float = 0.0, lose: float = 0.0, twice: float = 0.0,
        seed: int = 0,
    ) -> None:  # fmt: skip
        self.net, self.seat = net, seat
        self.delay, self.spread, self.lose, self.twice = delay, spread, lose, twice
        self.cut = False
        self.posts = 0
        self.orders: list[Order] = []
        self.bytes = 0
        self._dice = random.Random(seed)

    def hello(self, gateway: str, link: int, report: Report, done: Done) -> None:
        report = self._carried(report)

        def arrive() -> None:
            if not self.seat.alive:
                self._cross(lambda: done(BackendDead("it has no place on the cluster yet")))
                return
            welcome = self._carried(self.seat.station.hello(gateway, link, report))
            self._cross(lambda: done(welcome))

        self._cross(arrive)

    def post(self, gateway: str, link: int, first: int, orders: Sequence[Order]) -> None:
        self.posts += 1
        self.orders += orders
        crossing = self._carried(orders)

        def arrive() -> None:
            if self.seat.alive:
                self.seat.station.post(gateway, link, first, crossing)

        self._cross(arrive)

    def collect(self, gateway: str, link: int, ack: int, wait: float, done: Done) -> None:
        told = []

        def once(reply: Any) -> None:
            if not told:
                told.append(reply)
                done(reply)

        def back(reply: Any) -> None:
            carried = self._carried(reply)
            self._cross(lambda: once(carried))

        def arrive() -> None:
            if self.seat.alive:
                self.seat.polls.append((self.net.clock() + wait, gateway, link, ack, back))
            else:
                back(BackendDead("its process is gone"))

        self._cross(arrive)

    def opened(self) -> list[Open]:
        return [order for order in self.orders if isinstance(order, Open)]

    def _carried(self, thing: Any) -> Any:
        data = pickle.dumps(thing, protocol=5)
        self.bytes += len(data)
        return pickle.loads(data)

    def _cross(self, arrive: Event) -> None:
        for _ in range(2 if self._dice.random() < self.twice else 1):
            if not self.cut and self._dice.random() >= self.lose:
                self.net.at(self.delay + self._dice.random() * self.spread, arrive)


def reached(net: Net, seat: Seat, *, gateway: str = "g", courier: Courier | None = None, packing: Packing | None = None,
            patience: float = 30.0, **how: Any) -> tuple[RemoteDevice, Wire]:  # fmt: skip
    """A device as a gateway sees it, once it is there."""
    wire = Wire(net, seat, **how)
    courier = courier or (net.couriers[0] if net.couriers else net.gateway())
    remote = RemoteDevice(seat.name, wire, courier, gateway=gateway, packing=packing or seat.packing, patience=patience)
    remote.start()
    net.run(600.0, lambda: remote.ready)
    assert remote.ready
    return remote, wire
