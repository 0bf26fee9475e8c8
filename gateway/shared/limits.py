"""The limits of a key, counted over all gateways that share its store in Redis.

Requests and sessions are counted there before they are let in, in one round trip with what the key has left of its
audio. Audio is counted here as it comes and told there every half second, so all gateways together may go over it by
what one of them reads in that time. While Redis is away each gateway counts for itself.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import ContextVar
from uuid import uuid4

from pydantic import SecretStr

from gateway.keys.budget import Budget
from gateway.shared.link import Away, Call, Link
from gateway.shared.metrics import SharedMetrics
from workers.errors import Overloaded

log = logging.getLogger("speechlane.shared")

PREFIX = "speechlane:limits:"
TELL_SECONDS = 0.5
SEAT_SECONDS = 15.0
"""After which a session of a gateway that has died counts no more."""
RENEW_SECONDS = 5.0
ASKED_SECONDS = 3.0
"""What a seat is held for until the session begins."""
ANSWER_SECONDS = 0.5
"""Requests wait for the answer."""
MOST_TOLD = 256
"""Keys of one round trip."""


class Seat:
    """A place among the live sessions of a key. Not `granted`: all are taken."""

    def __init__(self, limits: SharedLimits, key: str, id: str, *, granted: bool) -> None:
        self.id, self.granted, self.taken = id, granted, False
        self.key = key
        self._gone = not granted
        self._limits = limits

    def take(self) -> None:
        """The session begins."""
        self.taken = True
        self._limits.hold(self)

    def give_back(self) -> None:
        """The session has ended, or did not begin. Idempotent."""
        if not self._gone:
            self._gone = True
            self._limits.release(self)

    def leave(self) -> None:
        """Another gateway goes on with the session and has its seat."""
        self._gone = True
        self._limits.drop(self)


SEAT: ContextVar[Seat | None] = ContextVar("seat", default=None)
"""That of the request that is being served; None where its gateway counts for itself."""


class SharedLimits:
    """`run` it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._seats: dict[str, Seat] = {}
        self._freed: list[Seat] = []
        self._budgets: dict[str, Budget] = {}

    async def admit(self, budget: Budget, sessions: int | None) -> Seat | None:
        """A request of a key; with `sessions`, the most that the key may have, it wants to begin one of them.

        Raises `Overloaded` when the key has made its requests. None where sessions are counted here.
        """
        key, limits = budget.owner, budget.limits
        calls: list[Call] = []
        if limits.requests_per_minute is not None:
            most = limits.requests_per_minute
            calls.append(Call("bucket", [f"{PREFIX}{key}:requests"], [most, most / 60, 1, 1]))
        untold = budget.untold
        if limits.audio_seconds_per_minute is not None:
            calls.append(self._told(budget, untold))
        seat = uuid4().hex
        if sessions is not None:
            calls.append(Call("seat", [f"{PREFIX}{key}:sessions"], [seat, sessions, round(1000 * ASKED_SECONDS)]))
        if not calls:
            return None
        try:
            if not self._link.up:
                raise Away
            answers = await self._link.run(calls)
        except Away:
            budget.request()
            return None
        if limits.audio_seconds_per_minute is not None:
            self._hear(budget, untold, answers[1 if limits.requests_per_minute is not None else 0])
        granted = sessions is None or answers[-1] == 1
        if limits.requests_per_minute is not None:
            taken, left = answers[0]
            if not taken:
                wait = math.ceil((1 - left / 1000) / (limits.requests_per_minute / 60))
                raise Overloaded(f"This key may make {limits.requests_per_minute} requests a minute.", retry_after=wait)
            budget.count_request()
        return Seat(self, key, seat, granted=granted) if sessions is not None else None

    def go_on(self, key: str, id: str) -> Seat:
        """The seat of a session that comes from another gateway, where it was counted."""
        return Seat(self, key, id, granted=True)

    def hold(self, seat: Seat) -> None:
        """See `Seat.take`."""
        self._seats[seat.id] = seat

    def release(self, seat: Seat) -> None:
        """See `Seat.give_back`."""
        self._seats.pop(seat.id, None)
        if self._link.up:
            self._freed.append(seat)

    def drop(self, seat: Seat) -> None:
        """See `Seat.leave`."""
        self._seats.pop(seat.id, None)

    async def keep(self, app: object) -> AsyncIterator[None]:
        """`run` as long as the application does."""
        running = asyncio.create_task(self.run(), name="shared limits")
        yield
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    async def run(self) -> None:
        """Tell Redis what was heard and who is here, until cancelled."""
        loop = asyncio.get_running_loop()
        renewed: dict[str, float] = {}
        try:
            while True:
                await asyncio.sleep(TELL_SECONDS)
                if not self._link.up:
                    await self._link.back()
                    renewed.clear()
                now = loop.time()
                freed, self._freed = self._freed, []
                due = [seat for id, seat in self._seats.items() if now - renewed.get(id, 0.0) >= RENEW_SECONDS]
                renewed = {id: at for id, at in renewed.items() if id in self._seats}
                renewed.update((seat.id, now) for seat in due)
                calls = [Call("seat", [f"{PREFIX}{seat.key}:sessions"], [seat.id, 0, 0]) for seat in freed]
                life = round(1000 * SEAT_SECONDS)
                calls += [Call("seat", [f"{PREFIX}{seat.key}:sessions"], [seat.id, 0, life]) for seat in due]
                try:
                    for first in range(0, len(calls), MOST_TOLD):
                        await self._link.run(calls[first : first + MOST_TOLD])
                    await self._tell_audio()
                except Away:
                    continue  # seats that were given up expire
        finally:
            await self._link.close()

    async def _tell_audio(self) -> None:
        waiting = list(self._budgets.values())
        self._budgets.clear()
        for first in range(0, len(waiting), MOST_TOLD):
            some = [(budget, budget.untold) for budget in waiting[first : first + MOST_TOLD]]
            answers = await self._link.run([self._told(budget, untold) for budget, untold in some])
            for (budget, untold), answer in zip(some, answers, strict=True):
                self._hear(budget, untold, answer)

    def _told(self, budget: Budget, untold: float) -> Call:
        most = budget.limits.audio_seconds_per_minute
        assert most is not None
        return Call("bucket", [f"{PREFIX}{budget.owner}:audio"], [most, most / 60, f"{untold:.6f}", 0])

    def _hear(self, budget: Budget, told: float, answer: tuple[int, int]) -> None:
        """So much is left in all; the key is looked after as long as it uses some."""
        budget.known(told, answer[1] / 1000)
        budget.on_audio = self._wants_telling

    def _wants_telling(self, budget: Budget) -> None:
        if self._link.up:
            self._budgets[budget.owner] = budget
        else:
            budget.untold = 0.0  # it was counted here


def shared_limits(store: SecretStr | None, metrics: SharedMetrics) -> SharedLimits | None:
    """For the keys of a store that is in Redis; None for all others."""
    where = store.get_secret_value() if store is not None else ""
    if not where.startswith(("redis://", "rediss://", "unix://")):
        return None
    return SharedLimits(Link(where, "limits of keys", metrics, ANSWER_SECONDS))
