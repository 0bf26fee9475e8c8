"""A device as its gateways reach it: a desk for each of them, its room for sessions, and how it is.

Everything here may be called from any thread. What a call does it does at once; only `collect` waits.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from workers.cluster.desk import Desk
from workers.cluster.escrow import PLAN_EVERY, Escrow
from workers.cluster.messages import Order, Reply, Report, Status, Welcome
from workers.cluster.packing import Packing
from workers.device import Device
from workers.task import Lane

log = logging.getLogger(__name__)

SILENCE = 10.0
"""Seconds without a call after which a gateway is gone. Twice what a gateway waits before it gives a device up."""
STATUS_EVERY = 0.2
"""Seconds that a picture of the device is good for."""


class Station:
    """`device` has started. `limit` is the share of it that sessions may reserve.

    `facts` are handed to every gateway that comes. `busy`: what live lanes may take there whatever was
    reserved (seconds of step time per second): they were seen to do well with it.
    """

    def __init__(
        self,
        device: Device,
        packing: Packing,
        *,
        limit: float = 0.85,
        facts: Mapping[str, Any] | None = None,
        busy: float = 0.0,
        node: str = "",
    ) -> None:
        self.device = device
        self._packing, self._facts, self._node = packing, facts or {}, node
        self._busy = busy
        self._desks: dict[str, Desk] = {}
        self._lock = threading.Lock()  # of the desks and the escrow; a desk's own locks are never taken under it
        self._escrow = Escrow(device.name, limit, device.clock, self._overuse)
        self._grants: list[partial[None]] = []
        self._polls = itertools.count(1)
        self._status: Status | None = None
        self._status_at = float("-inf")
        self._each = 0.0
        self._counted = (0, 0.0)
        self.quiet_since = device.clock()
        """Since when no gateway is here."""

    @property
    def gateways(self) -> int:
        return len(self._desks)

    # -- what gateways call

    def hello(self, gateway: str, link: int, report: Report) -> Welcome:
        """A gateway comes, or comes again: the tasks that it had here before are gone, its sessions are in `report`."""
        desk = Desk(
            gateway, link, self.device, self._packing,
            partial(self._report, gateway, link), partial(self._bye, gateway, link),
        )  # fmt: skip
        with self._lock:
            before = self._desks.get(gateway)
            if before is not None:
                self._live(before, {})
            self._desks[gateway] = desk
            self._live(desk, report.live)
            self._escrow.enter(gateway, report, lambda grant: self._grants.append(partial(desk.grant, grant)))
        if before is not None:
            before.close()
        self._hand_out()
        log.info("gateway %s has come to %s", gateway, self.device.name)
        return Welcome(self._node, self.device.models, self._facts, self.status(fresh=True))

    def post(self, gateway: str, link: int, first: int, orders: Sequence[Order]) -> None:
        """Orders of a gateway. Those of one that is not known are dropped: it learns so when it collects."""
        desk = self._desk(gateway, link)
        if desk is not None:
            desk.seen = self.device.clock()
            desk.take(first, orders)

    def take(self, gateway: str, link: int, ack: int) -> Reply | None:
        """What there is for a gateway that has the answers up to `ack`; None when it is not known here."""
        desk = self._desk(gateway, link)
        if desk is None or desk.closed:
            return None
        desk.seen = self.device.clock()
        status = self.status()
        with desk.news:
            desk.got(ack)
            return desk.reply(status)

    def collect(self, gateway: str, link: int, ack: int, wait: float) -> Reply | None:
        """The same, but wait for up to `wait` seconds until there is an answer. A newer call ends an older one."""
        desk = self._desk(gateway, link)
        if desk is None:
            return None
        desk.seen = self.device.clock()
        until = self.device.clock() + wait
        with desk.news:
            desk.got(ack)
            desk.polls = poll = next(self._polls)
            desk.news.notify_all()
        while True:
            self.sweep()
            with desk.news:
                left = until - self.device.clock()
                if desk.has_news or desk.closed or desk.polls != poll or left <= 0:
                    break
                desk.news.wait(min(left, PLAN_EVERY) if self.divides_anew else left)
        desk.seen = self.device.clock()
        return self.take(gateway, link, ack) if desk.polls == poll else Reply(1, (), 0, None)

    def has_news(self, gateway: str, link: int) -> bool:
        desk = self._desk(gateway, link)
        if desk is None:
            return True
        with desk.news:
            return desk.has_news

    # -- by itself

    @property
    def divides_anew(self) -> bool:
        """Its room, at the next sweep: one is wanted soon."""
        return self._escrow.stale

    def sweep(self) -> None:
        """Let go of gateways that are silent, and divide the room anew if it is time."""
        now = self.device.clock()
        silent = [desk for desk in list(self._desks.values()) if now - desk.seen > SILENCE]
        for desk in silent:
            log.warning("gateway %s is silent: what it had on %s is freed", desk.gateway, self.device.name)
            self._leave(desk.gateway, desk)
        with self._lock:
            self._escrow.tick()
        self._hand_out()

    def status(self, *, fresh: bool = False) -> Status:
        """How the device is."""
        now = self.device.clock()
        if self._status is None or fresh or now - self._status_at >= STATUS_EVERY:
            stats = self.device.stats()
            items, seconds = self._counted
            if stats.items > items:
                self._each = (stats.step_seconds - seconds) / (stats.items - items)
            self._counted = stats.items, stats.step_seconds
            finish_in = tuple(self.device.finish_in(lane) for lane in Lane)
            held, limit = self._escrow.held, self._escrow.limit
            ready, gateways = self.device.ready, len(self._desks)
            self._status = Status(stats, ready, finish_in, self._each, held, limit, gateways)
            self._status_at = now
        return self._status

    def _desk(self, gateway: str, link: int) -> Desk | None:
        desk = self._desks.get(gateway)
        return desk if desk is not None and desk.link == link else None

    def _report(self, gateway: str, link: int, report: Report) -> None:
        desk = self._desk(gateway, link)
        if desk is None:
            return
        with self._lock:
            self._live(desk, report.live)
            self._escrow.report(gateway, report)
        self._hand_out()

    def _bye(self, gateway: str, link: int) -> None:
        desk = self._desk(gateway, link)
        if desk is not None:
            self._leave(gateway, desk)

    def _leave(self, gateway: str, which: Desk | None = None) -> None:
        with self._lock:
            desk = self._desks.get(gateway)
            if desk is None or (which is not None and desk is not which):
                return
            del self._desks[gateway]
            self._live(desk, {})
            self._escrow.leave(gateway)
            if not self._desks:
                self.quiet_since = self.device.clock()
        desk.close()
        self._hand_out()

    def _live(self, desk: Desk, live: Mapping[Any, int]) -> None:
        """Tell the device whose sessions it has: the scheduler is fair among them."""
        here = self.device.loop.live
        here -= Counter(desk.live)  # whoever has none any more is gone from it
        here += Counter(live)
        desk.live = live

    def _overuse(self, held: float) -> float:
        rate = self.device.loop.ledger.live.rate(self.device.clock())
        return max(0.0, rate - max(held, self._busy))

    def _hand_out(self) -> None:
        """Grants are made under the lock and told without it."""
        with self._lock:
            grants, self._grants = self._grants, []
        for tell in grants:
            tell()
