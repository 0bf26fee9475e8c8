"""How late the event loops of both sides are: the service's by its own figures, in Prometheus' text format, and this
program's.
"""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request

from load.service import Running

_BUCKET = re.compile(r'^speechlane_event_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)
Buckets = list[tuple[float, float]]
"""(upper bound, observations up to it) of a histogram."""


def exposition(running: Running) -> str:
    """What /metrics says. Raises HTTPError when it is not there or not for us, OSError."""
    asked = urllib.request.Request(f"{running.url}/metrics")
    if running.key:
        asked.add_header("Authorization", f"Bearer {running.key}")
    with urllib.request.urlopen(asked, timeout=30, context=running.tls) as answer:
        text: str = answer.read().decode()
        return text


def lag(text: str) -> Buckets:
    """How late the service's event loop runs its timers, since its start, out of what /metrics says."""
    return [(float(bound), float(count)) for bound, count in _BUCKET.findall(text)]


def bucketed(buckets: Buckets, share: float) -> float:
    """A quantile of a histogram: between the bounds as Prometheus has it."""
    total = buckets[-1][1] if buckets else 0.0
    if not total:
        return float("nan")
    below, least = 0.0, 0.0
    for bound, count in buckets:
        if count >= share * total:
            if bound == float("inf"):
                return least
            return least + (bound - least) * (share * total - below) / max(count - below, 1e-9)
        below, least = count, bound
    return least


def grown(after: Buckets, before: Buckets) -> Buckets:
    """What a histogram counted in between."""
    counted = dict(before)
    return [(bound, count - counted.get(bound, 0.0)) for bound, count in after]


async def watch_own(late: list[float], every: float = 0.010) -> None:
    """Note how late this program's event loop runs a timer of `every` seconds, again and again, until cancelled."""
    while True:
        due = time.monotonic() + every
        await asyncio.sleep(every)
        late.append(time.monotonic() - due)
