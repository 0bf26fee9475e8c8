"""When clients come and when their work is due, decided beforehand, so that a slow service cannot put it off.

Closed: so many clients are there all the time, each of which began at a moment of its own. Open: they come at random
moments, one by one (Poisson) or several at once (bursts), whatever has become of those before. In both a latency counts
from the moment at which the work was due: a client that waits for the service, and asks late for that, waits in the
figures too (without that they would leave out just what is slow, which is called coordinated omission).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Pattern(StrEnum):
    """How clients come."""

    CLOSED = "closed"
    POISSON = "poisson"
    BURSTS = "bursts"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """`spread`: seconds over which the clients of a closed loop begin. `burst`: how many come at once on average."""

    pattern: Pattern = Pattern.CLOSED
    spread: float = 1.0
    burst: int = 4

    @property
    def open(self) -> bool:
        return self.pattern is not Pattern.CLOSED

    def moments(self, clients: int, seconds: float, visit: float, seed: int) -> list[float]:
        """Seconds from the beginning at which somebody comes, in order.

        Open: so many within `seconds` that on average `clients` are there at once when each stays for `visit` seconds.
        """
        if self.pattern is Pattern.CLOSED:
            return phases(clients, self.spread, seed)
        rate = clients / visit
        return poisson(rate, seconds, seed) if self.pattern is Pattern.POISSON else self.bursts(rate, seconds, seed)

    def bursts(self, rate: float, seconds: float, seed: int) -> list[float]:
        """`rate` a second on average, in groups whose sizes are 1 to 2·`burst` - 1."""
        chance = random.Random(f"sizes {seed}")
        return [
            at for at in poisson(rate / self.burst, seconds, seed) for _ in range(chance.randint(1, 2 * self.burst - 1))
        ]


def phases(clients: int, spread: float, seed: int) -> list[float]:
    """A random moment within `spread` seconds for each client, in order."""
    chance = random.Random(f"phases {seed}")
    return sorted(chance.uniform(0.0, spread) for _ in range(clients))


def poisson(rate: float, seconds: float, seed: int) -> list[float]:
    """Moments within `seconds` at a mean `rate` a second, each independent of all others; empty for a rate of 0."""
    chance, found, at = random.Random(f"poisson {seed}"), [], 0.0
    while rate > 0 and (at := at + chance.expovariate(rate)) < seconds:
        found.append(at)
    return found


async def come(moments: Sequence[float], work: Callable[[int, float], Awaitable[None]]) -> None:
    """Begin `work(n, due)` at each of `moments` (seconds from now, in order), whether or not what began before has
    ended; returns when all has. `due` is on the monotonic clock.

    What one of them raises ends the others.
    """
    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number, moment in enumerate(moments):
            due = begun + moment
            await until(due)
            group.create_task(_whole(work(number, due)))


async def paced(first: float, interval: float, end: float) -> AsyncIterator[float]:
    """Each moment of work that is due every `interval` seconds from `first` until `end` (monotonic clock).

    What is due already comes at once: nothing is left out because the work before it took long.
    """
    number = 0
    while (due := first + number * interval) < end:
        await until(due)
        yield due
        number += 1


async def until(due: float) -> None:
    """Sleep until a moment of the monotonic clock."""
    if (wait := due - time.monotonic()) > 0:
        await asyncio.sleep(wait)


async def _whole(work: Awaitable[None]) -> None:
    await work
