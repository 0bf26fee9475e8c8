"""What happened, hour by hour, and whether everything ended as it should."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(slots=True)
class Hour:
    """`asked`: machines that were asked to reserve. Latencies in seconds: of partials from being due, of finals from
    the end of the utterance (its silence included). `busy`: seconds of steps per second of the observed machines,
    `reserved` the share of all machines' time that is reserved, `up` machines: all three as samples."""

    offered: int = 0
    refused: int = 0
    asked: int = 0
    moved: int = 0
    skipped: int = 0
    partials: array[float] = field(default_factory=lambda: array("d"))
    finals: array[float] = field(default_factory=lambda: array("d"))
    busy: list[float] = field(default_factory=list)
    reserved: list[float] = field(default_factory=list)
    up: list[int] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """Milliseconds, shares of one."""
        return {
            "offered": self.offered,
            "refused": self.refused / self.offered if self.offered else 0.0,
            "asked": self.asked / max(1, self.offered),
            "reserved": _mean(self.reserved),
            "busy": _mean(self.busy),
            "up": _mean(self.up),
            "moved": self.moved,
            "partial": quantiles(self.partials),
            "final": quantiles(self.finals),
        }


@dataclass(slots=True)
class Figures:
    """Of a run. `utterances` were begun, `finals` and `failed` are their ends, `twice` the ends of those that had ended
    before. `retried` ended after their machine or gateway had died. `outages`: seconds for which sessions had no
    machine."""

    hours: list[Hour]
    utterances: int = 0
    finals: int = 0
    failed: int = 0
    twice: int = 0
    retried: int = 0
    admitted: int = 0
    left: int = 0
    machines_lost: int = 0
    gateways_lost: int = 0
    moved_by_machines: int = 0
    moved_by_gateways: int = 0
    outages: array[float] = field(default_factory=lambda: array("d"))
    spread: list[float] = field(default_factory=list)
    most_reserved: float = 0.0
    late: array[float] = field(default_factory=lambda: array("d"))  # finals of those that were retried

    def summary(self) -> dict[str, Any]:
        offered, refused = (sum(getattr(hour, name) for hour in self.hours) for name in ("offered", "refused"))
        partials = np.concatenate([np.asarray(hour.partials) for hour in self.hours])
        finals = np.concatenate([np.asarray(hour.finals) for hour in self.hours])
        skipped = sum(hour.skipped for hour in self.hours)
        return {
            "offered": offered,
            "refused": refused / max(1, offered),
            "asked": sum(hour.asked for hour in self.hours) / max(1, offered),
            "reserved": _mean([one for hour in self.hours for one in hour.reserved]),
            "busy": _mean([one for hour in self.hours for one in hour.busy]),
            "partial": quantiles(partials),
            "final": quantiles(finals),
            "skipped": skipped / max(1, len(partials) + skipped),
            "utterances": self.utterances,
            "finals": self.finals,
            "failed": self.failed,
            "twice": self.twice,
            "retried": self.retried,
            "retried_final": quantiles(self.late),
            "admitted": self.admitted,
            "left": self.left,
            "machines_lost": self.machines_lost,
            "gateways_lost": self.gateways_lost,
            "moved_by_machines": self.moved_by_machines,
            "moved_by_gateways": self.moved_by_gateways,
            "outage": quantiles(self.outages),
            "most_reserved": self.most_reserved,
            "spread": _mean(self.spread),
        }


def quantiles(seconds: Sequence[float] | array[float] | Any) -> dict[str, float | None]:
    """In milliseconds."""
    if not len(seconds):
        return {"p50": None, "p95": None, "p99": None}
    found = np.quantile(np.asarray(seconds), (0.5, 0.95, 0.99))
    return {name: round(1000 * float(one), 2) for name, one in zip(("p50", "p95", "p99"), found, strict=True)}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
