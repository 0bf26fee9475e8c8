"""The last minutes of the registry that /metrics shows: a moment every few seconds, in a ring of fixed length.

Everything is read from the registry itself, so that no figure can differ from those of /metrics. What happened lately
is the difference between two moments.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from prometheus_client import CollectorRegistry

EVERY = 5.0
"""Seconds between two moments."""
KEPT = 121
"""Moments that are kept: ten minutes."""
SMOOTHED = 6
"""Moments whose observations a point of a chart of latencies is made of."""
LATENCIES = {
    "final": "speechlane_final_latency_seconds",
    "round_trip": "speechlane_chunk_round_trip_seconds",
    "first_sound": "speechlane_speech_first_sound_seconds",
}

Buckets = Mapping[float, float]
"""Observations so far at most as large as a bound, by bound."""


class Figures:
    """The samples of a registry, read at one moment."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._samples: dict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
        for family in registry.collect():
            for sample in family.samples:
                self._samples[sample.name].append((sample.labels, sample.value))

    def total(self, name: str) -> float:
        """The sum over all labels, 0 when there is nothing."""
        return sum(value for _, value in self._samples.get(name, ()))

    def by(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Sums for each value of the labels; what lacks one of them is left out."""
        sums: dict[tuple[str, ...], float] = defaultdict(float)
        for has, value in self._samples.get(name, ()):
            if all(label in has for label in labels):
                sums[tuple(has[label] for label in labels)] += value
        return dict(sums)

    def each(self, name: str, label: str) -> dict[str, float]:
        """The same for one label."""
        return {key: value for (key,), value in self.by(name, label).items()}

    def buckets(self, name: str) -> Buckets:
        """A histogram, over all other labels."""
        return {float(bound): count for bound, count in self.each(f"{name}_bucket", "le").items()}


@dataclass(frozen=True, slots=True)
class Moment:
    """What the charts and the recent past are made of. `at` is Unix time."""

    at: float
    utilisation: dict[str, float]
    reserved: dict[str, float]
    streams: dict[str, float]
    queue: dict[str, float]
    sessions: float
    speakers: float
    refused: dict[tuple[str, ...], float]
    underruns: float
    latencies: dict[str, Buckets]

    @classmethod
    def of(cls, figures: Figures, at: float) -> Moment:
        return cls(
            at,
            figures.each("speechlane_device_utilisation", "device"),
            figures.each("speechlane_device_reserved", "device"),
            figures.each("speechlane_device_streams", "device"),
            figures.each("speechlane_queue_tasks", "device"),
            figures.total("speechlane_sessions"),
            figures.total("speechlane_speakers"),
            figures.by("speechlane_refused_total", "kind", "reason"),
            figures.total("speechlane_speech_underruns_total"),
            {name: figures.buckets(metric) for name, metric in LATENCIES.items()},
        )


@dataclass
class History:
    """The last moments of a registry."""

    registry: CollectorRegistry
    clock: Callable[[], float] = time.time
    moments: deque[Moment] = field(default_factory=lambda: deque(maxlen=KEPT))

    def keep(self) -> None:
        """Look now."""
        self.moments.append(Moment.of(Figures(self.registry), self.clock()))

    async def watch(self) -> None:
        """Look every few seconds, until cancelled."""
        while True:
            self.keep()
            await asyncio.sleep(EVERY)

    def charts(self, current: Moment) -> dict[str, Any]:
        """Columns of equal length, oldest first, the current moment last. Null where nothing is known or observed."""
        moments = [*self.moments, current]
        devices = dict.fromkeys(name for moment in moments for name in moment.utilisation)
        return {
            "at": [round(moment.at, 1) for moment in moments],
            "sessions": [moment.sessions for moment in moments],
            "speakers": [moment.speakers for moment in moments],
            "refused": [None, *(sum(rise(a.refused, b.refused).values()) for a, b in pairwise(moments))][
                : len(moments)
            ],
            "underruns": [None, *(b.underruns - a.underruns for a, b in pairwise(moments))],
            "devices": {
                name: {
                    "utilisation": [rounded(moment.utilisation.get(name)) for moment in moments],
                    "reserved": [rounded(moment.reserved.get(name)) for moment in moments],
                    "streams": [moment.streams.get(name) for moment in moments],
                    "queue": [moment.queue.get(name) for moment in moments],
                }
                for name in devices
            },
            "latency": {
                name: {
                    key: [
                        rounded(quantile(share, moments[max(0, at - SMOOTHED)].latencies[name], moment.latencies[name]))
                        for at, moment in enumerate(moments)
                    ]
                    for key, share in (("p50", 0.5), ("p95", 0.95))
                }
                for name in LATENCIES
            },
        }


def quantile(share: float, before: Buckets, after: Buckets) -> float | None:
    """What that share of the observations between two moments was at most, as Prometheus' histogram_quantile has it.

    None when nothing was observed. What is beyond the last bound counts as that bound.
    """
    counts = sorted(rise(before, after).items())
    total = counts[-1][1] if counts else 0.0
    if total <= 0:
        return None
    rank = share * total
    low, below = 0.0, 0.0
    for bound, count in counts:
        if count >= rank and count > below:
            return low if bound == float("inf") else low + (bound - low) * (rank - below) / (count - below)
        low, below = (low if bound == float("inf") else bound), count
    return low


def rise(before: Mapping[Any, float], after: Mapping[Any, float]) -> dict[Any, float]:
    """What has been added since, by key."""
    return {key: value - before.get(key, 0.0) for key, value in after.items()}


def rounded(value: float | None) -> float | None:
    """To what can be seen."""
    return None if value is None else round(value, 4)
