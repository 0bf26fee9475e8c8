"""Whether live requests still are what the evidence says: a running sum that small luck does not move."""

from __future__ import annotations

from dataclasses import dataclass

from workers.gate.evidence import Evidence
from workers.gate.thresholds import Thresholds


@dataclass(slots=True)
class Watch:
    """CUSUM of one measure. `expected` and `deviation` are the evidence's, of an item."""

    expected: float
    deviation: float
    slack: float
    alarm: float
    sum: float = 0.0
    seen: int = 0

    def add(self, value: float) -> bool:
        """Take one more; True when it has drifted. What is no number counts as the worst."""
        low = (self.expected - (value if value == value else -1.0)) / self.deviation
        self.sum = max(0.0, self.sum + low - self.slack)
        self.seen += 1
        return self.sum > self.alarm


def watches(evidence: Evidence, bars: Thresholds, modality: str) -> dict[str, Watch]:
    """One for every measure that can be had of a live request, which nobody knows the right answer to."""
    measures = bars.of(modality)
    return {
        name: Watch(one.candidate, max(one.deviation, least), bars.live.slack, bars.live.alarm)
        for name, one in evidence.measures.items()
        if name in measures and (least := measures[name].live) is not None
    }
