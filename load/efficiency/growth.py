"""What a second of audio costs the service at 1, 4, 16, 64 streams, paced at the speed of speech."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from load import report
from load.live import Step, measure
from load.metrics import exposition
from load.service import Running

NOISE = 1.05
"""The cost with more streams may be so much of that with fewer: what rounds of the same differ by."""
HEAD = ("model", "streams", "audio s", "CPU s for a second of audio", "device s for a second", "round trip", "broken")


@dataclass(slots=True)
class Cost:
    """Of one number of streams, by round: CPU seconds of the service, and seconds that devices were stepping, for each
    second of audio."""

    model: str
    streams: int
    cpu: list[float] = field(default_factory=list)
    device: list[float] = field(default_factory=list)
    audio: float = 0.0
    steps: list[Step] = field(default_factory=list)

    @property
    def least(self) -> float:
        """CPU seconds for a second of audio in the quietest round."""
        return min(self.cpu)

    def row(self) -> tuple[str, ...]:
        trips = self.steps[-1].latencies.summary()["round_trip"]
        return (
            self.model, str(self.streams), f"{self.audio:.0f}", " ".join(f"{one:.4f}" for one in self.cpu),
            " ".join(f"{one:.4f}" for one in self.device), report.pair(trips),
            str(sum(len(step.broken) for step in self.steps)),
        )  # fmt: skip


def one_round(running: Running, cost: Cost, seconds: float, seed: int) -> None:
    """Add a round of it."""
    assert running.process is not None
    before = _cpu(running), stepping(exposition(running))
    step = asyncio.run(measure(running, cost.streams, seconds, seed=seed))
    cpu, device = _cpu(running) - before[0], stepping(exposition(running)) - before[1]
    spoken = sum(said["seconds"] for said in step.tracks)
    cost.audio += spoken
    cost.cpu.append(cpu / spoken)
    cost.device.append(device / spoken)
    cost.steps.append(step)


def rising(costs: Sequence[Cost]) -> list[str]:
    """Numbers of streams at which a second of audio costs more than at the number before."""
    return [
        f"{more.model}: a second of audio costs {more.least:.4f} CPU s with {more.streams} streams, "
        f"{fewer.least:.4f} with {fewer.streams}"
        for fewer, more in pairwise(costs)
        if more.least > NOISE * fewer.least
    ]


def stepping(text: str) -> float:
    """Seconds that all devices were stepping since the start, out of what /metrics says."""
    lines = (line for line in text.splitlines() if line.startswith("speechlane_step_seconds_total"))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def _cpu(running: Running) -> float:
    assert running.process is not None
    return float(sum(running.process.cpu_times()[:2]))
