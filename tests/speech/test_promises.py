"""What was measured is kept for what it was measured with, and for nothing else."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from speech.carried import Carrying
from speech.promises import KEPT, Promise, find, identity, keep, path_of, read
from tests.workers.models import Timed, virtual
from workers.capacity import Capacity, Measured

MINE = {**identity("timed", "cpu", "", "torch"), "threads": "2"}
PROMISE = Promise(MINE, 7, 0.9, 1.0, "p95 ≤ 1 s", 0.96, 1_000.0)


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests import sets other numbers."""
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)


def test_a_number_holds_for_everything_it_was_measured_with(tmp_path: Path) -> None:
    assert find(MINE, tmp_path) == (None, [])
    path = keep(PROMISE, tmp_path)
    assert path.parent == tmp_path and find(MINE, tmp_path) == (PROMISE, [])
    assert set(MINE) == {"model", "device", "precision", "engine", "threads", "machine", "version", "torch"}
    for name in set(MINE) - {"model", "device"}:
        found, changed = find({**MINE, name: "another"}, tmp_path)
        assert found is None and changed == [f"{name} {MINE[name]} to another"]
    assert find({**MINE, "model": "other"}, tmp_path) == (None, [])
    assert find({**MINE, "device": "cuda:1"}, tmp_path) == (None, [])


def test_the_newest_of_each_identity_is_kept_and_not_too_many(tmp_path: Path) -> None:
    other = replace(PROMISE, identity={**MINE, "threads": "77"}, streams=3)
    for one in (PROMISE, other, replace(PROMISE, streams=9)):
        keep(one, tmp_path)
    assert find(other.identity, tmp_path)[0] == other
    newest, _ = find(MINE, tmp_path)
    assert newest is not None and newest.streams == 9
    for n in range(2 * KEPT):
        keep(replace(PROMISE, identity={**MINE, "threads": str(100 + n)}), tmp_path)
    path = path_of("timed", "cpu", tmp_path)
    assert len(read(path)) == KEPT
    assert read(path)[0].identity["threads"] == str(99 + 2 * KEPT)
    assert [one.name for one in tmp_path.iterdir()] == ["streams-timed-cpu.json"]


@pytest.mark.parametrize("name", ["/models/mine", "openai/whisper-tiny", "../../up"])
def test_a_models_name_is_no_path(tmp_path: Path, name: str) -> None:
    assert path_of(name, "cuda:0", tmp_path).parent == tmp_path


@pytest.mark.parametrize(
    "damage",
    [
        "", "[]", "{", '{"version": 2, "promises": []}', '{"version": 1}', '{"version": 1, "promises": [3]}',
        {"streams": 0}, {"streams": -1}, {"streams": 2.5}, {"streams": True}, {"streams": "7"}, {"busy": 2},
        {"busy": "x"}, {"within": -1}, {"within": 1e999}, {"confidence": 3}, {"identity": []}, {"identity": None},
    ],
)  # fmt: skip
def test_a_damaged_file_is_no_number(tmp_path: Path, damage: Any, caplog: pytest.LogCaptureFixture) -> None:
    path = keep(PROMISE, tmp_path)
    if isinstance(damage, str):
        path.write_text(damage)
    else:
        found = json.loads(path.read_text())
        found["promises"][0] |= damage
        path.write_text(json.dumps(found))
    with caplog.at_level(logging.WARNING):
        assert find(MINE, tmp_path) == (None, [])
    assert "speechlane capacity" in caplog.text


def carrying(folder: Path, admission: Any = "measured") -> SimpleNamespace:
    _, device, (pool,) = virtual(Timed())
    device.torch_device = "cpu"
    capacity = Capacity([device])
    made = Carrying(capacity, admission, folder)
    made.add("asr", "timed", device, "torch", lambda: 0.17)
    return SimpleNamespace(made=made, capacity=capacity, device=device, pool=pool)


def test_an_engine_goes_by_what_was_measured_and_says_so(tmp_path: Path) -> None:
    (estimated,) = carrying(tmp_path).made.status()
    assert (estimated.streams, estimated.basis, estimated.promise) == (5, "estimated", None)
    keep(PROMISE, tmp_path)
    found = carrying(tmp_path)
    (measured,) = found.made.status()
    assert (measured.streams, measured.basis, measured.promise) == (7, "measured", PROMISE)
    assert (measured.model, measured.task, measured.device) == ("timed", "asr", found.device.name)
    assert found.made.basis(found.device, "timed") == "measured"
    assert found.made.basis(found.device, "other") == "estimated"
    assert found.capacity.measured(found.device, "timed") == Measured(7, 0.9, 1.0)
    assert found.capacity.free_streams(found.device, 0.17, "timed") == 7


@pytest.mark.parametrize("admission", ["estimated", "everybody"])
def test_it_does_not_when_it_is_told_otherwise(tmp_path: Path, admission: str) -> None:
    keep(PROMISE, tmp_path)
    (found,) = carrying(tmp_path, admission).made.status()
    assert (found.streams, found.basis, found.changed) == (5, "estimated", ())


def test_a_number_that_holds_no_more_is_said_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keep(replace(PROMISE, identity={**MINE, "version": "0.0.9"}), tmp_path)
    with caplog.at_level(logging.WARNING):
        (found,) = carrying(tmp_path).made.status()
    assert (found.streams, found.basis) == (5, "estimated")
    assert found.changed == (f"version 0.0.9 to {MINE['version']}",)
    assert "version 0.0.9" in caplog.text and "speechlane capacity asr" in caplog.text
