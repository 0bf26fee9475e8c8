"""The latency table: learns both terms, forgets, stays hopeful, survives its file."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from tests.workers.models import Diary, Job, Timed, virtual
from workers.latency import FRESH, HALF_LIFE, OPTIMISM, LatencyModel
from workers.task import Lane


def observe(model: LatencyModel, a: float, k: float, count: int, *, noise: float = 0.0, at: float = 0.0) -> None:
    dice = random.Random(3)
    for _ in range(count):
        cost = dice.uniform(1, 32)
        model.observe("m", "b", cost, (a + k * cost) * dice.uniform(1 - noise, 1 + noise), at)


def test_learns_fixed_and_unit_cost() -> None:
    model = LatencyModel()
    observe(model, 0.012, 0.0016, 200, noise=0.1)
    curve = model.curve("m", "b", 0.0)
    assert curve is not None
    assert curve.a == pytest.approx(0.012, rel=0.15)
    assert curve.k == pytest.approx(0.0016, rel=0.1)


def test_forgets_both_terms_when_the_machine_changes() -> None:
    model = LatencyModel()
    observe(model, 0.050, 0.0100, 200)
    observe(model, 0.010, 0.0010, 200)
    curve = model.curve("m", "b", 0.0)
    assert curve is not None
    assert curve.a == pytest.approx(0.010, rel=0.1)
    assert curve.k == pytest.approx(0.0010, rel=0.1)


def test_one_tiny_slow_step_does_not_make_real_ones_look_impossible() -> None:
    model = LatencyModel()
    model.observe("m", "b", 0.01, 0.012, 0.0)
    for cost in (0.01, 0.01, 0.02):
        assert model.predict("m", "b", cost, 0.0) < 0.05
    for _ in range(6):
        model.observe("m", "b", 1.0, 0.014, 0.0)
    assert model.predict("m", "b", 1.0, 0.0) == pytest.approx(0.014, rel=0.1)


def test_a_slow_first_step_is_soon_forgotten_and_a_pause_hardly_counts() -> None:
    model = LatencyModel()
    model.observe("m", "b", 8.0, 5.0, 0.0)
    for _ in range(20):
        model.observe("m", "b", 8.0, 0.020, 0.0)
    assert model.predict("m", "b", 8.0, 0.0) < 0.050
    before = model.predict("m", "b", 8.0, 0.0)
    model.observe("m", "b", 8.0, 20.0, 0.0)
    assert model.predict("m", "b", 8.0, 0.0) < before * 1.5


def test_beyond_what_was_seen_time_grows_in_proportion() -> None:
    model = LatencyModel()
    for _ in range(10):
        model.observe("m", "b", 1.0, 0.1, 0.0)
    assert model.predict("m", "b", 2.0, 0.0) == pytest.approx(0.1)
    assert model.predict("m", "b", 20.0, 0.0) == pytest.approx(1.0)


def test_unconfirmed_predictions_shrink() -> None:
    model = LatencyModel()
    observe(model, 1.0, 1.0, 50)
    fresh = model.predict("m", "b", 1.0, FRESH)
    assert fresh == pytest.approx(2.0, rel=0.1)
    assert model.predict("m", "b", 1.0, FRESH + HALF_LIFE) == pytest.approx(fresh / 2)
    assert model.predict("m", "b", 1.0, 1e9) == pytest.approx(fresh * OPTIMISM)


def test_an_unknown_bucket_borrows_and_an_unknown_model_is_hopeful() -> None:
    model = LatencyModel()
    observe(model, 0.01, 0.001, 50)
    assert model.predict("m", "another", 10.0, 0.0) == pytest.approx(0.02, rel=0.1)
    assert model.predict("other", None, 10.0, 0.0) == 0.0
    assert model.curve("other", None, 0.0) is None


def test_whatever_the_table_says_an_idle_device_runs_the_task() -> None:
    model, diary = Timed(a=0.01), Diary()
    _, device, (pool,) = virtual(model)
    home = device.loop.homes["timed"]
    for _ in range(20):
        device.loop.latency.observe(home.name, None, 1.0, 100.0, 0.0)
    pool.submit_task(Job("late"), lane=Lane.PARTIAL, deadline=0.2, sink=diary)
    assert device.loop.turn()
    assert diary.ends() == ["late"]


def test_terms_are_never_negative() -> None:
    model = LatencyModel()
    dice = random.Random(1)
    for _ in range(500):
        model.observe("m", "b", dice.choice((0.0, 0.001, 5.0, 100.0)), dice.expovariate(10), 0.0)
        curve = model.curve("m", "b", 0.0)
        assert curve is not None and curve.a >= 0 and curve.k >= 0 and math.isfinite(curve.at(1000.0))


def test_the_number_of_buckets_is_bounded() -> None:
    model = LatencyModel()
    for bucket in range(5000):
        model.observe("m", bucket, 1.0, 0.1, float(bucket))
    assert len(model._fits) <= 1024
    assert (("m", 4999)) in model._fits


def test_saved_and_reloaded(tmp_path: Path) -> None:
    path = tmp_path / "profile" / "latency.json"
    model = LatencyModel()
    observe(model, 0.012, 0.0016, 100)
    model.observe("m", ("encode", 100), 5.0, 0.5, 0.0)
    model.save(path)
    again = LatencyModel.load(path)
    assert again.predict("m", "b", 20.0, 50.0) == pytest.approx(model.predict("m", "b", 20.0, 0.0), rel=0.02)
    assert again.predict("m", ("encode", 100), 5.0, 50.0) == pytest.approx(0.5)
    again.save(path)
    observe(again, 0.10, 0.01, 100, at=50.0)
    assert again.predict("m", "b", 20.0, 50.0) == pytest.approx(0.3, rel=0.1)
    assert LatencyModel.load(path).predict("m", "b", 20.0, 0.0) == pytest.approx(0.044, rel=0.05)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 9, "steps": []}', json.dumps({"version": 1, "steps": [{"a": -1}]})]
)
def test_a_broken_file_is_an_empty_table(tmp_path: Path, text: str) -> None:
    path = tmp_path / "latency.json"
    path.write_text(text)
    assert LatencyModel.load(path).curve("m", "b", 0.0) is None
    assert LatencyModel.load(tmp_path / "none.json").curve("m", "b", 0.0) is None
    assert LatencyModel.load(path / "below-a-file.json").curve("m", "b", 0.0) is None
