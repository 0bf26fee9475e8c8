"""docs/metrics.md names every metric of a running service with its type and labels, and none that is not there."""

from __future__ import annotations

import re
import sys

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from gateway.metrics import Metrics
from tests.conftest import ROOT
from tests.gateway.speak.conftest import Server

ROW = re.compile(r"\| `([a-z_]+)` \| (\w+) \|([^|]*)\| ([^|]+) \| ([^|]+) \|")

Row = tuple[str, str, frozenset[str]]
"""Name, type, labels."""


def documented() -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for name, kind, labels, unit, meaning in ROW.findall((ROOT / "docs" / "metrics.md").read_text("utf-8")):
        assert name not in rows, f"{name} is there twice"
        assert unit.strip() and meaning.strip()
        if name.endswith("_seconds"):
            assert unit == "seconds" or "time" in unit, name
        rows[name] = (name, kind, frozenset(re.findall("`([a-z]+)`", labels)))
    return rows


def served(metrics: Metrics) -> list[Metric]:
    return list(text_string_to_metric_families(metrics.exposition().decode()))


def name_of(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


@pytest.fixture(scope="module")
def metrics(server: Server) -> Metrics:
    """Those of a service with its models, in which everything has happened that has a label."""
    metrics = Metrics()
    metrics.watch_engine(lambda: server.engine)
    return metrics


@pytest.mark.skipif(sys.platform != "linux", reason="there is nothing of the process elsewhere")
def test_the_table_is_the_registry(metrics: Metrics) -> None:
    there = {(name_of(family), family.type) for family in served(metrics)}
    assert there == {(name, kind) for name, kind, _ in documented().values()}


def test_the_labels_are_those_of_the_table(metrics: Metrics) -> None:
    declared = {
        collector._name + ("_total" if collector._type == "counter" else ""): frozenset(collector._labelnames)
        for collector in metrics.registry._collector_to_names
        if hasattr(collector, "_labelnames")
    }
    seen = {
        name_of(family): frozenset(label for sample in family.samples for label in sample.labels) - {"le"}
        for family in served(metrics)
        if name_of(family) not in declared and family.samples
    }
    assert {"speechlane_steps_total", "speechlane_queue_tasks", "speechlane_ready"} <= seen.keys()
    rows = documented()
    for name, labels in {**declared, **seen}.items():
        assert rows[name][2] == labels, name


def test_every_backend_is_told(metrics: Metrics) -> None:
    steps = next(family for family in served(metrics) if family.name == "speechlane_steps")
    where = {(sample.labels["device"], sample.labels["model"]) for sample in steps.samples}
    assert {("vad", "silero"), ("cpu", "tiny.en")} <= where
