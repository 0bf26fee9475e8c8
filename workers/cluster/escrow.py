"""A device's room for sessions, divided among the gateways that use it, so that each can admit at once by itself.

A gateway may not ask the device for every session: a client would wait for the answer, and the loop with it. So the
device grants each gateway a share beforehand, what its sessions hold and something to spare, and **the grants of all
together never pass the device's limit**: that is what makes a promise of it, however many gateways there are. A grant
is raised only by what is free; it is lowered by asking the gateway to keep itself to less, and what that frees can be
granted once the gateway has said that it does. A gateway that dies takes nothing along: it gives the device up for dead
before the device gives it up.

What is to spare goes out in whole sessions, first to those who had to refuse somebody, and is divided anew as sessions
come and go. Where there is less than a session for each, those go to different gateways on different devices.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

from workers.clock import Clock
from workers.cluster.messages import Grant, Report

PLAN_EVERY = 0.02
"""Seconds between two divisions at least, so that a rush of sessions does not divide anew for each of them."""
REPLAN = 1.0
"""Seconds after which it is done in any case: what live lanes take changes, and wants grow old."""
WANTED = 3.0
"""Seconds for which a refusal gives its gateway precedence."""
_MOST_WANTS = 64
_ROUNDING = 1e-9


@dataclass(slots=True)
class Account:
    """What a gateway has here. `granted` is what it may believe; `target` what it is to have."""

    rank: int
    tell: Callable[[Grant], None]
    held: float = 0.0
    unit: float = 0.0
    granted: float = 0.0
    target: float = 0.0
    number: int = 0
    told: float = 0.0
    wants: int = 0
    wanted_since: float = 0.0
    wanted_at: float = float("-inf")


class Escrow:
    """Grants of one device, up to `limit` seconds of step time per second. Not thread-safe.

    `overuse` tells by how much live lanes take more than the sessions reserved: that much less is granted.
    """

    def __init__(self, device: str, limit: float, clock: Clock, overuse: Callable[[float], float]) -> None:
        self.limit = limit
        self._device, self._clock, self._overuse = device, clock, overuse
        self._accounts: dict[str, Account] = {}
        self._planned_at = float("-inf")
        self._stale = False
        self.held = 0.0
        """Of all gateways."""

    @property
    def granted(self) -> float:
        return sum(account.granted for account in self._accounts.values())

    def enter(self, gateway: str, report: Report, tell: Callable[[Grant], None]) -> None:
        """A gateway comes, maybe with sessions; `tell` takes its grants."""
        rank = zlib.crc32(f"{self._device} {gateway}".encode())
        self._accounts[gateway] = Account(rank, tell, report.held, report.unit, granted=report.held)
        self._plan()

    def leave(self, gateway: str) -> None:
        account = self._accounts.pop(gateway, None)
        if account is not None:
            self._plan()

    def report(self, gateway: str, report: Report) -> None:
        """How a gateway stands."""
        account = self._accounts.get(gateway)
        if account is None:
            return
        now = self._clock()
        account.held, account.unit = report.held, report.unit
        if report.wants:
            if not self._wanting(account, now):
                account.wanted_since = now
            account.wanted_at = now
        account.wants = min(report.wants, _MOST_WANTS)
        if report.grant == account.number:  # else it has not heard of its newest grant yet
            account.granted = report.allowed
        account.granted = max(account.granted, report.held)
        self._stale = True
        self.tick()

    def tick(self) -> None:
        """Divide anew if it is time. Cheap; call it often."""
        if self._clock() - self._planned_at >= (PLAN_EVERY if self._stale else REPLAN):
            self._plan()

    @property
    def stale(self) -> bool:
        """There is something to divide anew, a little later."""
        return self._stale

    def _plan(self) -> None:
        now = self._clock()
        self._planned_at, self._stale = now, False
        accounts = list(self._accounts.values())
        self.held = sum(account.held for account in accounts)
        if not accounts:
            return
        free = max(0.0, self.limit - self._overuse(self.held) - self.held)
        for account, spare in zip(accounts, self._spare(accounts, free, now), strict=True):
            account.target = account.held + spare
        ungranted = self.limit - sum(account.granted for account in accounts)
        for account in accounts:  # the lowered first: nothing they give up is anybody else's before they say so
            if account.target < account.granted:
                self._tell(account, account.target)
        for account in accounts:
            more = min(account.target - account.granted, ungranted)
            if more > _ROUNDING:
                account.granted += more
                ungranted -= more
                self._tell(account, account.granted)

    def _wanting(self, account: Account, now: float) -> bool:
        return account.wants > 0 and now - account.wanted_at < WANTED

    def _tell(self, account: Account, share: float) -> None:
        if abs(share - account.told) > _ROUNDING:
            account.number += 1
            account.told = share
            account.tell(Grant(account.number, share))

    def _spare(self, accounts: list[Account], free: float, now: float) -> list[float]:
        """What each gets beyond what it holds."""
        usual = max(account.unit for account in accounts)
        if usual <= 0:  # nobody has had a session yet
            return [free / len(accounts)] * len(accounts)
        places = [min(self.limit, account.unit or usual) for account in accounts]
        spare = [0.0] * len(accounts)
        left = free + _ROUNDING
        order = sorted(range(len(accounts)), key=lambda n: accounts[n].rank)
        wanting = [n for n in order if self._wanting(accounts[n], now)]
        wanting.sort(key=lambda n: accounts[n].wanted_since)
        wants = {n: accounts[n].wants for n in wanting}
        while wanting := [n for n in wanting if wants[n] and places[n] <= left]:
            for n in wanting:
                if places[n] <= left:
                    spare[n] += places[n]
                    left -= places[n]
                    wants[n] -= 1
        rounds = int(left / sum(places))
        left -= rounds * sum(places)
        for n in order:
            spare[n] += rounds * places[n]
            if places[n] <= left:
                spare[n] += places[n]
                left -= places[n]
        return spare
