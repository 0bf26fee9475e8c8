"""How several gateways share the machines: what each of them knows, how old that is, and how it chooses.

As many sessions come at every hour, just as many as fit, so that every place that is not found is a session refused.
Nobody talks: this is about places alone. With reservations that are made in one ledger for all gateways nothing is
ever refused while there is room; its refusals are what chance alone makes (Erlang's formula), and those of the other
rows beyond them are the price of not sharing one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from load.simulation.fleet import Fleet, Plan
from load.simulation.gateway import Policy
from load.simulation.tables import Table

NAMES: dict[Policy, str] = {
    "ledger": "one ledger",
    "random": "random",
    "two": "better of two",
    "full": "best of all",
    "grants": "granted beforehand",
}
FILLING = 6
"""Hours at the start that are not counted: the machines are filling."""


@dataclass(frozen=True, slots=True)
class View:
    """A row of the table. `refused` and `asked` are of a session, `spread` the deviation of what is reserved on the
    machines from their mean, by that mean."""

    name: str
    age: float | None
    reach: int | None
    refused: float
    asked: float
    spread: float

    def row(self) -> tuple[str, ...]:
        age = "-" if self.age is None else f"{self.age:g}"
        return (
            self.name, age, "all" if self.reach is None else str(self.reach), f"{100 * self.refused:.2f} %",
            f"{self.asked:.3f}", f"{100 * self.spread:.1f} %",
        )  # fmt: skip

    def told(self) -> dict[str, Any]:
        return {"policy": self.name, "age": self.age, "reach": self.reach, "refused": self.refused,
                "asked": self.asked, "spread": self.spread}  # fmt: skip


HEAD = ("choice", "age, s", "gateways a machine", "refused", "machines asked", "spread")


def erlang(offered: float, places: int) -> float:
    """The part that is refused, of calls that come at random and find `places`: Erlang's loss formula. `offered` in
    calls that would be open if there were places without end."""
    refused = 1.0
    for number in range(1, places + 1):
        refused = offered * refused / (number + offered * refused)
    return refused


def measure(
    table: Table,
    *,
    machines: int,
    gateways: int,
    load: float,
    ages: Sequence[float],
    seconds: float,
    seed: int,
    reach: Sequence[int] = (2,),
    tell: Callable[[str], None] = lambda text: None,
) -> list[View]:
    """`seconds` of virtual time for each row, `load` of the places."""

    def plan(policy: Policy, age: float, *, counts: bool = True, reach: int | None = None) -> Plan:
        return Plan(
            table, machines, gateways, observed=0, hour=seconds / 24, load=load, policy=policy, age=age,
            counts=counts, deaths=0.0, gateway_deaths=0.0, seed=seed, flat=True, reach=reach,
        )  # fmt: skip

    rows: list[tuple[str, float | None, Plan]] = []
    rows += [(NAMES[policy], None, plan(policy, 0.0)) for policy in ("ledger", "grants")]
    for age in ages:
        rows += [(NAMES[policy], age, plan(policy, age)) for policy in ("random", "two", "full")]
        if age:
            rows.append(("best of all, own not counted", age, plan("full", age, counts=False)))
    for some in reach:
        rows += [(NAMES[policy], ages[-1], plan(policy, ages[-1], reach=some)) for policy in ("two", "full")]
    found = []
    for name, shown, one in rows:
        began = time.monotonic()
        figures = Fleet(one).run()
        hours = figures.hours[FILLING:]
        offered = max(1, sum(hour.offered for hour in hours))
        samples = len(figures.spread) * FILLING // 24
        spread = figures.spread[samples:]
        found.append(
            View(
                name,
                shown,
                one.reach,
                sum(hour.refused for hour in hours) / offered,
                sum(hour.asked for hour in hours) / offered,
                sum(spread) / max(1, len(spread)),
            )
        )
        tell(f"{found[-1].row()}  ({time.monotonic() - began:.0f} s)")
    return found


def chance(table: Table, machines: int, load: float) -> float:
    """What is refused by chance alone when all places are one."""
    places = machines * Plan(table).streams
    return erlang(load * places, places)
