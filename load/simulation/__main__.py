"""A fleet of GPUs on virtual time: the real devices, schedulers, pools and reservations, with models that take the time
of a table, people who come and go over a day, and machines and gateways that die.

    python -m load.simulation day --html day.html   # a day of 1,000 GPUs and 10 gateways, compressed
    python -m load.simulation views                 # gateways that know the loads of machines late
    python -m load.simulation growth                # what one decision costs as there is more of everything
    python -m load.simulation price                 # what an hour of a stream costs, by arithmetic

docs/scaling.md tells what was scaled and why, and has the figures. Exit status 1 when something that must hold does
not.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from load import report
from load.simulation import growth, price, tables, views
from load.simulation.fleet import Fleet, Plan
from load.simulation.page import HOURS_HEAD, day_page, hours_rows, promises


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    day = kinds.add_parser("day", help="a day of a fleet")
    look = kinds.add_parser("views", help="how gateways share machines")
    grow = kinds.add_parser("growth", help="what one decision costs")
    cost = kinds.add_parser("price", help="what an hour of a stream costs")
    for one in (day, look, cost):
        one.add_argument("--batch", type=int, default=8, help="streams that share a decode where a stream's share of a "
                         "device is worked out (default %(default)s)")  # fmt: skip
    for one in (day, look):
        one.add_argument("--table", default="l4-large-v3-turbo", help="step times (default %(default)s)")
        one.add_argument("--gateways", type=int, default=10, help="(default %(default)s)")
        one.add_argument("--seed", type=int, default=1, help="(default %(default)s)")
    day.add_argument("--machines", type=int, default=1000, help="with a GPU each (default %(default)s)")
    day.add_argument("--observed", type=int, default=10, help="on which people talk; 0: all (default %(default)s)")
    day.add_argument("--hour", type=float, default=150.0, help="virtual seconds of an hour (default %(default)s)")
    day.add_argument(
        "--load", type=float, default=1.05, help="that come at the height, of what fits (default %(default)s)"
    )
    policies = ("random", "two", "full", "ledger")
    day.add_argument("--policy", choices=policies, default="two", help="(default %(default)s)")
    day.add_argument("--age", type=float, default=1.0, help="seconds between looks (default %(default)s)")
    day.add_argument("--reach", type=int, help="gateways that use each machine (default all)")
    day.add_argument("--deaths", type=float, default=30.0, help="of machines in the day (default %(default)s)")
    day.add_argument("--gateway-deaths", type=float, default=2.0, help="in the day (default %(default)s)")
    look.add_argument("--machines", type=int, default=100, help="(default %(default)s)")
    look.add_argument("--ages", type=float, nargs="+", default=[0.05, 1.0, 5.0], help="(default %(default)s)")
    look.add_argument("--load", type=float, default=0.98, help="of what fits (default %(default)s)")
    look.add_argument("--seconds", type=float, default=3600.0, help="of each row (default %(default)s)")
    grow.add_argument("--devices", type=int, nargs="+", default=list(growth.DEVICES), help="(default %(default)s)")
    grow.add_argument("--streams", type=int, nargs="+", default=list(growth.STREAMS), help="(default %(default)s)")
    cost.add_argument("--mean", type=float, default=0.6, help="of the places taken over a day (default %(default)s)")
    for one in (day, look, grow, cost):
        one.add_argument("--json", type=Path, help="write the figures here")
    day.add_argument("--html", type=Path, help="write a page with plots here")
    asked = parser.parse_args()
    kind = {"day": _day, "views": _views, "growth": _growth, "price": _price}[asked.kind]
    try:
        told, missed = kind(asked)
    except ValueError as wrong:
        parser.error(str(wrong))
    if asked.json is not None:
        asked.json.write_text(json.dumps(told, indent=1))
    return report.verdict(report.console(), missed)


def _day(asked: argparse.Namespace) -> tuple[Any, list[str]]:
    plan = Plan(
        tables.table(asked.table), asked.machines, asked.gateways, observed=asked.observed or None, hour=asked.hour,
        load=asked.load, policy=asked.policy, age=asked.age, reach=asked.reach, deaths=asked.deaths,
        gateway_deaths=asked.gateway_deaths, batch=asked.batch, seed=asked.seed,
    )  # fmt: skip
    out = report.console()
    out.print(f"{plan.machines} machines for {plan.streams} streams each ({plan.table.source})", highlight=False)
    began, worked, before = time.monotonic(), time.process_time(), gc.isenabled()
    gc.disable()  # a million sessions come and go, none of them in a ring for long
    fleet = Fleet(plan)
    try:
        figures = fleet.run(lambda text: out.print(f"[dim]{time.monotonic() - began:5.0f} s  {text}[/]"))
    finally:
        if before:
            gc.enable()
    took = time.monotonic() - began
    out.print(report.table("hour by hour", HOURS_HEAD, hours_rows(figures)))
    summary = figures.summary()
    for name, value in summary.items():
        out.print(f"  {name:20} {value}", highlight=False)
    worked = time.process_time() - worked
    out.print(
        f"{plan.day.seconds:,.0f} virtual seconds in {took:.0f} s ({worked:.0f} s of one processor), "
        f"{fleet.world.happened:,} events",
        highlight=False,
    )
    missed = promises(plan, figures, fleet)
    if asked.html is not None:
        day_page(asked.html, plan, figures, took)
        out.print(f"written: {asked.html}")
    return {"summary": summary, "hours": [hour.row() for hour in figures.hours], "seconds": took}, missed


def _views(asked: argparse.Namespace) -> tuple[Any, list[str]]:
    out, table = report.console(), tables.table(asked.table)
    by_chance = views.chance(table, asked.machines, asked.load)
    found = views.measure(
        table, machines=asked.machines, gateways=asked.gateways, load=asked.load, ages=asked.ages,
        seconds=asked.seconds, seed=asked.seed, tell=lambda text: out.print(f"[dim]{text}[/]", highlight=False),
    )  # fmt: skip
    title = (
        f"{asked.gateways} gateways, {asked.machines} machines, {asked.load:.0%} of the places asked for; by chance "
        f"alone {100 * by_chance:.2f} % would be refused"
    )
    out.print(report.table(title, views.HEAD, [one.row() for one in found]))
    return [one.told() for one in found], []


def _growth(asked: argparse.Namespace) -> tuple[Any, list[str]]:
    out = report.console()
    costs = growth.measure(
        asked.devices, asked.streams, lambda text: out.print(f"[dim]{text}[/]", highlight=False)
    )  # fmt: skip
    factors = growth.factors(costs)
    rows = [
        (cost.what, f"{cost.count:,} {cost.of}", f"{cost.operations:,}", f"{1e6 * cost.seconds:.1f}",
         f"{factors.get((cost.what, cost.of), float('nan')):.1f}")
        for cost in sorted(costs, key=lambda cost: (cost.what, cost.of, cost.count))
    ]  # fmt: skip
    out.print(report.table("one decision", ("what", "with", "bytecodes", "µs", "× for ten times"), rows))
    told = [{"what": cost.what, "of": cost.of, "count": cost.count, "operations": cost.operations,
             "seconds": cost.seconds} for cost in costs]  # fmt: skip
    return told, growth.squares(costs)


def _price(asked: argparse.Namespace) -> tuple[Any, list[str]]:
    wanted = [tables.CPU, *(tables.worked_out(gpu, tables.SHAPES[model]) for gpu in tables.GPUS.values()
                            for model in ("tiny.en", "large-v3-turbo"))]  # fmt: skip
    found = price.prices(wanted, batch=asked.batch, mean=asked.mean)
    report.console().print(report.table("by arithmetic", price.HEAD, [one.row() for one in found]))
    return [{"table": one.table.name, "streams": one.streams, "stream_hour": one.stream_hour} for one in found], []


if __name__ == "__main__":
    sys.exit(main())
