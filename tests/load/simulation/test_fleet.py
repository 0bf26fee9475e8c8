"""Small days of a fleet, whose promises hold exactly: every utterance ends once, whoever was let in stays in, no
machine is reserved beyond its limit, and a seed tells everything."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from load.simulation.figures import Figures
from load.simulation.fleet import Fleet, Plan
from load.simulation.page import day_page, promises
from load.simulation.tables import CPU, MODEL, final
from load.simulation.views import erlang
from workers.backend import Done
from workers.capacity import Capacity
from workers.errors import BackendDead
from workers.pool import Pool
from workers.task import Lane, Result, Task

SHORT = Plan(
    CPU, machines=20, gateways=4, observed=None, hour=18.0, load=1.3, deaths=12.0, gateway_deaths=4.0, age=0.5, seed=3
)
"""Seven streams on each machine, and more deaths than in a year."""


@pytest.fixture(scope="module")
def day() -> tuple[Fleet, Figures]:
    fleet = Fleet(SHORT)
    return fleet, fleet.run()


def test_every_promise_holds_while_machines_and_gateways_die(day: tuple[Fleet, Figures]) -> None:
    fleet, figures = day
    assert promises(SHORT, figures, fleet) == []
    assert figures.machines_lost >= 5 and figures.gateways_lost >= 1
    assert figures.moved_by_machines > 0 and figures.moved_by_gateways > 0 and figures.retried > 0
    assert figures.failed == 0, "one death is not enough to lose a final"
    assert figures.utterances > 1000


def test_what_is_admitted_is_in_time(day: tuple[Fleet, Figures]) -> None:
    _, figures = day
    summary = figures.summary()
    assert 0 < summary["busy"] < SHORT.limit and summary["reserved"] <= SHORT.limit
    assert summary["final"]["p95"] < 1000 and summary["partial"]["p95"] < 1000
    # Some lose both, and some go before they have a place again.
    assert 0 < len(figures.outages) <= figures.moved_by_machines + figures.moved_by_gateways
    # A lost machine is noticed within two seconds, and places for those who were there are found at once or soon.
    assert summary["retried_final"]["p50"] < 5000


def test_most_come_where_the_day_is_highest(day: tuple[Fleet, Figures]) -> None:
    _, figures = day
    offered = [hour.offered for hour in figures.hours]
    assert max(offered) > 3 * min(offered)
    assert sum(offered[10:18]) > 2 * sum(offered[0:8])


def test_a_seed_tells_everything() -> None:
    plan = replace(SHORT, machines=6, hour=3.0, deaths=4.0)
    one, again, other = (Fleet(replace(plan, seed=seed)).run().summary() for seed in (1, 1, 2))
    assert one == again != other


def test_a_page_loads_nothing_from_elsewhere(day: tuple[Fleet, Figures], tmp_path: Path) -> None:
    _, figures = day
    day_page(tmp_path / "day.html", SHORT, figures, 1.0)
    text = (tmp_path / "day.html").read_text()
    assert text.count("<svg") == 5 and "http" not in text and "<script" not in text
    json.dumps([hour.row() for hour in figures.hours])


def test_one_ledger_refuses_what_erlang_says() -> None:
    """Sessions of any lengths that come at random find all places taken so often as the formula has it."""
    plan = Plan(CPU, machines=3, gateways=2, observed=0, hour=6000.0, load=1.0, deaths=0, gateway_deaths=0,
                policy="ledger", flat=True)  # fmt: skip
    assert 3 * plan.streams == 21
    summary = Fleet(plan).run().summary()
    assert summary["offered"] > 10_000
    assert summary["refused"] == pytest.approx(erlang(21, 21), abs=0.015)
    assert erlang(1.0, 1) == 0.5 and erlang(2.0, 2) == pytest.approx(0.4)


def test_knowing_more_finds_more_of_the_places_that_there_are() -> None:
    plan = Plan(CPU, machines=20, gateways=4, observed=0, hour=100.0, load=0.9, age=1.0, deaths=0, gateway_deaths=0,
                flat=True)  # fmt: skip
    asked, refused = {}, {}
    for policy in ("random", "two", "full", "grants", "ledger"):
        fleet = Fleet(replace(plan, policy=policy))
        figures = fleet.run()
        assert promises(plan, figures, fleet) == []
        summary = figures.summary()
        asked[policy], refused[policy] = summary["asked"], summary["refused"]
    assert asked["random"] > asked["two"] > asked["full"] >= 1.0
    assert refused["random"] > refused["full"]
    assert refused["ledger"] <= min(refused.values()) + 0.01


def test_a_machine_that_dies_in_a_step_has_its_tasks_done_elsewhere_once() -> None:
    fleet = Fleet(replace(SHORT, machines=2))
    world, (one, other) = fleet.world, fleet.machines
    lease = one.reserve(0.1)
    pool = Pool(MODEL, [one.device, other.device])
    ends: Counter[Task] = Counter()

    def sink(task: Task, result: Result) -> None:
        assert isinstance(result, Done)
        ends[task] += 1

    tasks = [
        pool.submit_task(final(3.0), lane=Lane.FINAL, deadline=1.0, sink=sink, lease=lease, stream=n // 2)
        for n in range(4)
    ]
    world.run(0.01)  # the encode of the first is under way
    assert one.device.loop.batch is not None and not ends
    one.die()
    world.run(1.0)
    assert not ends, "nobody has noticed yet"
    assert one.lost() == []
    world.run(5.0)
    assert ends == Counter(tasks)
    assert tasks[0].retries == 1 and [task.moves for task in tasks[1:]] == [1, 1, 1]
    one.back()
    assert one.backend.open_states == other.backend.open_states == 0
    assert Capacity([one.device]).free_streams(one.device, 0.1) == 8


def test_tasks_of_a_machine_without_another_wait_for_it() -> None:
    fleet = Fleet(replace(SHORT, machines=1, gateways=1))
    (one,) = fleet.machines
    results: list[Result] = []
    pool = Pool(MODEL, [one.device])
    pool.submit_task(final(3.0), lane=Lane.FINAL, deadline=1.0, sink=lambda task, result: results.append(result))
    fleet.world.run(0.01)
    one.die()
    one.lost()
    fleet.world.run(1.0)
    assert not results
    one.back()
    fleet.world.run(2.0)
    assert [type(result) for result in results if not isinstance(result, BackendDead)][-1] is Done
