"""What an hour of a stream costs, by arithmetic: how many fit on a device, and what the device costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from load.simulation.fleet import Plan
from load.simulation.tables import Table

TALKED = 0.4
"""Of a session in which somebody talks, in the simulation: partials and finals are made for that alone."""
PRICES = {"l4": 0.80, "l40s": 1.80, "a100": 2.50, "h100": 4.00, "cpu": 0.08}
"""Assumed dollars an hour of a device on demand, for two virtual CPUs as well: put your own in their place."""


@dataclass(frozen=True, slots=True)
class Price:
    """`streams` that are admitted, and of those `useful` when demand is below that for most of a day."""

    table: Table
    share: float
    streams: int
    hour: float
    stream_hour: float
    day_stream_hour: float

    def row(self) -> tuple[str, ...]:
        return (
            self.table.name, f"{1000 * self.share:.1f}", str(self.streams), f"{self.hour:.2f}",
            f"{self.stream_hour:.4f}", f"{self.day_stream_hour:.4f}",
        )  # fmt: skip


HEAD = ("table", "ms of steps a second", "streams", "$ an hour", "$ a stream-hour, full", "over a day")


def prices(tables: Sequence[Table], *, batch: int, mean: float) -> list[Price]:
    """`mean`: part of the places that is taken, on average over a day for whose height there is just room."""
    found = []
    for table in tables:
        plan = Plan(table, batch=batch)
        hour = PRICES.get(table.name.partition("-")[0], float("nan"))
        streams = max(1, plan.streams)
        found.append(Price(table, plan.share, streams, hour, hour / streams, hour / (streams * mean)))
    return found
