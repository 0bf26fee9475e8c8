"""Proven and unproven options as metrics, read when somebody scrapes."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.tune.proven import ProvenOptions


class ProofMetrics(Collector):
    """Labels come from profiles and names of models, never from requests."""

    def __init__(self, proven: ProvenOptions) -> None:
        self._proven = proven

    def describe(self) -> Iterable[Metric]:
        return self._families()

    def collect(self) -> Iterable[Metric]:
        """All of them."""
        options, serving, drift, reruns = families = self._families()
        for model in self._proven.report():
            name = model["model"]
            for one in model["options"]:
                options.add_metric([name, one["option"], one["state"]], 1)
            serving.add_metric([name, model["serving"] or "reference"], 1)
            for measure, value in model["drift"].items():
                drift.add_metric([name, measure], value)
            for outcome, count in model["reruns"].items():
                reruns.add_metric([name, outcome], count)
        return families

    def _families(self) -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily, CounterMetricFamily]:
        return (
            GaugeMetricFamily(
                "speechlane_option", "Options of models by state: proven, unproven, stale, forced, taken back.",
                labels=["model", "option", "state"],
            ),
            GaugeMetricFamily("speechlane_option_serving", "With what a model runs.", labels=["model", "options"]),
            GaugeMetricFamily(
                "speechlane_option_drift", "Running sum of how far live requests lie below the evidence.",
                labels=["model", "measure"],
            ),
            CounterMetricFamily(
                "speechlane_option_reruns", "Live requests made again exactly.", labels=["model", "outcome"]
            ),
        )  # fmt: skip
