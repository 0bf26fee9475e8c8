"""What is seen of both sides while clients are at a service: the event loops, memory, processors, sessions.

The service is seen through its /metrics; one that has none, or shows them to nobody without a key of the scope admin,
is measured all the same, by what its clients see.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.error import HTTPError

import numpy as np
import psutil

from load.metrics import Buckets, bucketed, exposition, grown, lag, watch_own
from load.service import Running

LATE = 0.020
"""How late 1 % of them may be: beyond it the client is too slow for figures of milliseconds."""
BUSY = 0.85
"""Share of one processor that this process, which has one thread, may take."""
_SIGHTS = 600
_VALUE = re.compile(
    r"^(speechlane_device_utilisation|speechlane_sessions|process_resident_memory_bytes)(?:\{[^}]*\})? (\S+)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Sight:
    """One look, `at` seconds from the beginning. `utilisation` of the fullest device, 0 to 1; memory in bytes."""

    at: float
    utilisation: float
    sessions: int
    memory: int
    own_memory: int
    cpu: float
    """Share of the whole machine's processors that was busy since the look before."""


@dataclass(slots=True)
class Watched:
    """A run from outside. `late`: how late timers of the client's event loop ran, seconds; `own_cpu`: processors that
    the client took; `loop`: the service's own histogram of its event loop's lag over the run, empty when not seen.
    """

    begun: float
    seconds: float = 0.0
    late: list[float] = field(default_factory=list)
    own_cpu: float = 0.0
    loop: Buckets = field(default_factory=list)
    sights: list[Sight] = field(default_factory=list)

    def loop_lag(self, share: float) -> float | None:
        """A quantile of the lag of the service's event loop, in seconds; None when it was not seen."""
        return bucketed(self.loop, share) if self.loop and self.loop[-1][1] else None

    def client_lag(self, share: float) -> float:
        """A quantile of how late the client's own timers ran, in seconds."""
        return float(np.quantile(self.late, share)) if self.late else 0.0

    @property
    def memory(self) -> int:
        """The most that the service took, in bytes; 0 when it was not seen."""
        return max((one.memory for one in self.sights), default=0)

    def limits(self) -> list[str]:
        """How these clients were too slow to measure with; empty when they were not."""
        found = []
        if (late := self.client_lag(0.99)) > LATE:
            found.append(f"timers of the client ran {1000 * late:.0f} ms late (p99); {1000 * LATE:.0f} would do")
        if self.own_cpu > BUSY:
            found.append(f"the client took {self.own_cpu:.0%} of the one processor that it can use")
        return found


@asynccontextmanager
async def watching(running: Running, seconds: float = 60.0) -> AsyncIterator[Watched]:
    """Watch until the block ends; `seconds` is about how long that is."""
    watched = Watched(time.monotonic())
    before = await asyncio.to_thread(_loop, running)
    own = time.process_time()
    psutil.cpu_percent()
    tasks = [
        asyncio.create_task(watch_own(watched.late)),
        asyncio.create_task(_look(running, watched, max(1.0, seconds / _SIGHTS))),
    ]
    try:
        yield watched
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        watched.seconds = time.monotonic() - watched.begun
        watched.own_cpu = (time.process_time() - own) / max(watched.seconds, 1e-9)
        after = await asyncio.to_thread(_loop, running)
        watched.loop = grown(after, before)


async def _look(running: Running, watched: Watched, every: float) -> None:
    own = psutil.Process()
    while True:
        values = await asyncio.to_thread(_values, running)
        watched.sights.append(
            Sight(
                round(time.monotonic() - watched.begun, 2),
                max(values.get("speechlane_device_utilisation", [0.0])),
                int(sum(values.get("speechlane_sessions", []))),
                int(sum(values.get("process_resident_memory_bytes", []))) or running.memory(),
                own.memory_info().rss,
                psutil.cpu_percent() / 100,
            )
        )
        await asyncio.sleep(every)


def _values(running: Running) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for name, value in _VALUE.findall(_metrics(running)):
        found.setdefault(name, []).append(float(value))
    return found


def _loop(running: Running) -> Buckets:
    return lag(_metrics(running))


def _metrics(running: Running) -> str:
    """What /metrics says; nothing when it is not there, or not for us."""
    try:
        return exposition(running)
    except HTTPError as error:
        error.close()
        return ""
    except OSError:
        return ""
