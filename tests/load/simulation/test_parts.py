"""What a fleet is made of: people, step times, and the growth of what one decision costs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from load.simulation import growth, people, price, tables
from load.simulation.fleet import Plan
from load.simulation.people import Day
from workers.latency import LatencyModel


def test_as_many_come_as_the_hour_says() -> None:
    day = Day(hour=100.0, peak=5.0)
    times = list(day.arrivals(random.Random(1)))
    assert times == sorted(times) and times[-1] < day.seconds
    for hour in (4, 11, 15, 20):
        came = sum(hour * 100 <= time < (hour + 1) * 100 for time in times)
        assert came == pytest.approx(500 * people.shape(hour + 0.5), abs=70)
    heights = [people.shape(hour / 10) for hour in range(240)]
    assert max(heights) == 1.0 and 0 < min(heights) < 0.2


def test_sessions_have_a_heavy_tail_and_the_mean_they_are_counted_with() -> None:
    dice = random.Random(2)
    stays = sorted(people.stay(dice) for _ in range(50_000))
    assert stays[0] >= people.SHORTEST and stays[-1] <= people.LONGEST
    assert sum(stays) / len(stays) == pytest.approx(people.mean_stay(), rel=0.02)
    assert stays[25_000] < 200 and sum(stays[-500:]) > 0.04 * sum(stays), "the longest hundredth is a good part"


def test_as_much_is_talked_as_the_price_has_it() -> None:
    dice = random.Random(3)
    talked = sum(people.talk(dice) for _ in range(20_000))
    silent = sum(people.pause(dice) for _ in range(20_000))
    assert talked / (talked + silent) == pytest.approx(price.TALKED, abs=0.03)


def test_a_gpu_by_arithmetic() -> None:
    table = tables.table("l4-large-v3-turbo")
    # 135 rows through 32 layers of 47 MFLOP each at 42 TFLOP/s, and the launches of 384 kernels.
    assert table.encodes(135) == pytest.approx(0.0067, rel=0.05)
    # 158 million weights of two bytes at 210 GB/s.
    assert table.decode == pytest.approx(0.0018, rel=0.05)
    faster = tables.table("h100-large-v3-turbo")
    assert Plan(faster).streams > 2 * Plan(table).streams > 100
    assert table.share(16) < table.share(4)
    with pytest.raises(ValueError, match="there is no table 'l9-tiny'"):
        tables.table("l9-tiny")


def test_a_table_is_read_from_what_a_service_has_learnt(tmp_path: Path) -> None:
    model = LatencyModel()
    for cost in (100.0, 1000.0):
        model.observe("cpu|asr|tiny.en||int8", ("encode", 0), cost, 0.008 + 1e-4 * cost, 1.0)
        model.observe("cpu|asr|tiny.en||int8", "decode", cost / 50, 0.009 + 1e-3 * cost / 50, 1.0)
    model.save(tmp_path / "steps.json")
    table = tables.table(str(tmp_path / "steps.json"))
    assert table.row == pytest.approx(4e-4, rel=0.05) and table.token == pytest.approx(1e-3, rel=0.05)
    LatencyModel().save(tmp_path / "empty.json")
    with pytest.raises(ValueError, match="no step times"):
        tables.table(str(tmp_path / "empty.json"))


def test_an_hour_of_a_stream_costs_less_on_what_carries_more() -> None:
    found = price.prices([tables.table(f"l4-{model}") for model in ("tiny.en", "large-v3")], batch=8, mean=0.5)
    assert found[0].stream_hour < found[1].stream_hour
    assert [price.prices([tables.table(f"{gpu}-base")], batch=8, mean=1.0)[0].hour for gpu in ("l4", "l40s")] == [
        0.8,
        1.8,
    ]
    assert found[0].day_stream_hour == pytest.approx(2 * found[0].stream_hour)


def test_nothing_grows_with_the_square() -> None:
    costs = growth.measure((10, 60), (10, 60))
    assert growth.squares(costs) == []


def test_a_decision_about_a_stream_that_has_a_place_does_not_depend_on_how_many_there_are() -> None:
    few, many = (growth.routing(count, leased=True).operations for count in (10, 200))
    assert many <= 1.2 * few
    few, many = (growth.decision(count).operations for count in (50, 500))
    assert many <= 1.3 * few


@pytest.mark.parametrize("full", [None, 0.0])
def test_an_admission_looks_at_a_few_devices_whatever_their_number(full: float | None) -> None:
    few, many = (growth.admission(count, full=full).operations for count in (20, 200))
    assert many <= 1.5 * few


def test_keys_that_wait_for_a_step_are_looked_through_once() -> None:
    few, many = (growth.decision(count, keys=count).operations for count in (50, 500))
    assert many <= 10 * few
