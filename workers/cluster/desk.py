"""What one gateway has at a device: its tasks, the copies they build on, and what it is to be told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from workers.backend import More
from workers.cluster.channel import Incoming, Outgoing
from workers.cluster.messages import (
    Again,
    Answer,
    Back,
    Bye,
    Cancel,
    End,
    Forget,
    Grant,
    Move,
    Open,
    Order,
    Reply,
    Report,
    Some,
    Spent,
    Status,
)
from workers.cluster.packing import Gone, Kept, Packing
from workers.errors import BackendDead, BackendFailed, Cancelled, Draining, ServingError
from workers.fairness import Tenant
from workers.task import Host, Lane, Result, Task
from workers.watchdog import run_alone

if TYPE_CHECKING:
    from workers.device import Device

log = logging.getLogger(__name__)

ANSWERS = 512
"""In one reply at most."""


class Desk:
    """One gateway's, for one `link`: when it comes again, after whatever happened, it gets a new one.

    It is the router and, for a device that hangs, the refuge of its tasks: they go back to the gateway, which knows of
    other devices. `report` is told how the gateway stands.
    """

    def __init__(
        self,
        gateway: str,
        link: int,
        device: Device,
        packing: Packing,
        report: Callable[[Report], None],
        bye: Callable[[], None],
    ) -> None:
        self.gateway, self.link = gateway, link
        self.seen = device.clock()
        self.polls = 0
        self.closed = False
        self.live: Mapping[Tenant, int] = {}
        """Its sessions on the device, by tenant."""
        self.news = threading.Condition()
        self._device, self._packing, self._report, self._bye = device, packing, report, bye
        self._door = threading.RLock()  # orders are done one after another; one of them may close the desk
        self._orders: Incoming[Order] = Incoming()
        self._answers: Outgoing[Answer] = Outgoing()
        self._tasks: dict[int, Task] = {}
        self._told: Status | None = None
        self._kept = Kept(packing.drop)

    # -- orders

    def take(self, first: int, orders: Sequence[Order]) -> None:
        """A batch of orders, whose first has this number; those known already are passed over."""
        with self._door:
            for order in self._orders.take(first, orders):
                if self.closed:
                    return
                try:
                    self._do(order)
                except Exception:
                    log.exception("an order of gateway %s failed", self.gateway)

    def _do(self, order: Order) -> None:
        match order:
            case Open():
                self._open(order)
            case Cancel(number):
                task = self._tasks.pop(number, None)
                if task is not None:
                    task.cancel()
            case Move(number, left, lane):
                task = self._tasks.get(number)
                if task is not None:
                    task.move(self._device.clock() + left, lane)
            case Forget(keys):
                for key in keys:
                    self._kept.forget(key)
            case Report():
                self._report(order)
            case Bye():
                self._bye()

    def _open(self, order: Open) -> None:
        number = order.number
        try:
            if not self._device.serves(order.model):
                raise BackendFailed(f"{self._device.name} has no model {order.model!r}")
            payload = self._packing.unpack(order.parcel, self._kept)
        except Gone:
            self._say(Again(number))
            return
        except Exception as error:
            failed = error if isinstance(error, ServingError) else BackendFailed(f"the payload cannot be read: {error}")
            self._say(End(number, failed, _NOTHING))
            return
        task = Task(
            payload,
            lane=order.lane,
            deadline=self._device.clock() + order.left,
            sink=partial(self._tell, number),
            stream=None if order.stream is None else (self.gateway, order.stream),
            coalesce=order.coalesce,
            hard=order.hard,
            wake=self.ring,
            router=self,
            clock=self._device.clock,
        )
        task.tenant = order.tenant
        if order.alone:
            run_alone(task)
        self._tasks[number] = task
        try:
            self._device.submit(task, order.model)
        except (BackendDead, Draining) as away:
            if self._tasks.pop(number, None) is not None:
                self._say(Back(number, False, away.message))
        except ServingError as error:
            if self._tasks.pop(number, None) is not None:
                self._say(End(number, error, _NOTHING))

    # -- answers

    def _tell(self, number: int, task: Task, result: Result) -> None:
        """The sink of a task: on the device's thread, with the task's lock held."""
        if self._tasks.get(number) is not task:
            return
        if isinstance(result, More):
            self._put(Some(number, result.outputs))
            return
        if self._tasks.pop(number, None) is None:  # cancelled just now
            return
        if isinstance(result, Draining | BackendDead):
            self._put(Back(number, False, result.message))
        else:
            self._put(End(number, result, _spent(task)))

    def _put(self, answer: Answer) -> None:
        with self.news:
            self._answers.put(answer)

    def _say(self, answer: Answer) -> None:
        self._put(answer)
        self.ring()

    def ring(self) -> None:
        """Once a step, however many of the gateway's tasks were in it."""
        with self.news:
            if self._answers.waiting:
                self.news.notify_all()

    def grant(self, grant: Grant) -> None:
        self._say(grant)

    @property
    def has_news(self) -> bool:
        """With `news` held."""
        return self._answers.waiting

    def reply(self, status: Status) -> Reply:
        """With `news` held: everything that the gateway has not said it got."""
        first, answers = self._answers.all(ANSWERS)
        news, self._told = status if status is not self._told else None, status
        return Reply(first, answers, self._orders.seen, news)

    def got(self, number: int) -> None:
        """With `news` held: the gateway has the answers up to this number."""
        self._answers.acknowledged(number)

    # -- what a device that hangs asks: the Router and Host protocols

    def refuge(self, task: Task, away_from: Host) -> Desk:
        return self

    def readmit(self, task: Task) -> None:
        """The device hung with the task, or with others in front of it. Its gateway has it run elsewhere."""
        number = next((number for number, one in self._tasks.items() if one is task), None)
        if number is not None:
            del self._tasks[number]
            self._say(Back(number, task.retries > 0, f"{self._device.name} hung"))
        task.end(Cancelled("it runs elsewhere"))

    def forget(self, task: Task) -> None:
        """It has left already."""

    def move(self, task: Task, deadline: float, lane: Lane | None) -> None:
        """It has left already."""

    # -- the end

    def close(self) -> None:
        """The gateway is gone, or has begun anew: end its tasks and free what was kept for them."""
        with self._door:
            self.closed = True
            tasks, self._tasks = list(self._tasks.values()), {}
            for task in tasks:
                task.cancel()
            self._kept.clear()
        with self.news:
            self.news.notify_all()


_NOTHING = Spent(None, None, 0, 0.0, 0.0, 0.0, 0.0)


def _spent(task: Task) -> Spent:
    timing = task.timing
    ended = timing.ended_at
    return Spent(
        started=ended - timing.started_at if timing.started_at else None,
        opened=ended - timing.opened_at if timing.opened_at else None,
        steps=timing.steps,
        step_seconds=timing.step_seconds,
        share_seconds=timing.share_seconds,
        device_seconds=timing.device_seconds,
        opening_seconds=timing.opening_seconds,
    )
