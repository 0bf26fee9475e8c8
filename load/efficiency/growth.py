"""What a second of audio costs the service at 1, 4, 16, 64 streams, paced at the speed of speech."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from load import report
from load.live import Step, measure
from load.metrics import exposition
from load.service import Running

NOISE = 1.05
"""The cost with more streams may be so much of that with fewer: what rounds of the same differ by."""
HEAD = (
    "model", "streams", "audio s", "CPU s for a second of audio", "of fewer streams", "device s for a second",
    "of fewer streams", "round trip", "broken",
)  # fmt: skip


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

    def against(self, fewer: Cost) -> tuple[list[float], list[float]]:
        """CPU and device seconds of each round over those of fewer streams in the same round."""
        return (
            [mine / theirs for mine, theirs in zip(self.cpu, fewer.cpu, strict=True)],
            [mine / theirs for mine, theirs in zip(self.device, fewer.device, strict=True)],
        )

    def row(self, fewer: Cost | None) -> tuple[str, ...]:
        trips = self.steps[-1].latencies.summary()["round_trip"]
        shares = self.against(fewer) if fewer is not None else ([], [])
        return (
            self.model, str(self.streams), f"{self.audio:.0f}", " ".join(f"{one:.4f}" for one in self.cpu),
            " ".join(f"{one:.2f}" for one in shares[0]), " ".join(f"{one:.4f}" for one in self.device),
            " ".join(f"{one:.2f}" for one in shares[1]), report.pair(trips),
            str(sum(len(step.broken) for step in self.steps)),
        )  # fmt: skip


def one_round(running: Running, cost: Cost, seconds: float, seed: int) -> None:
    """Add a round of it."""
    assert running.process is not None
    before = _cpu(running), stepping(exposition(running))
    step = asyncio.run(measure(running, cost.streams, seconds, seed=seed, alike=True))
    cpu, device = _cpu(running) - before[0], stepping(exposition(running)) - before[1]
    spoken = sum(said["seconds"] for said in step.tracks)
    cost.audio += spoken
    cost.cpu.append(cpu / spoken)
    cost.device.append(device / spoken)
    cost.steps.append(step)


def rising(costs: Sequence[Cost]) -> list[str]:
    """Numbers of streams at which a second of audio costs more than at the number before, in the middle one of the
    rounds; and those that were not all admitted, whose cost is that of fewer."""
    told = [
        f"{cost.model}: of {cost.streams} streams {step.admitted} were admitted"
        for cost in costs
        for step in cost.steps
        if step.admitted < cost.streams
    ]
    for fewer, more in pairwise(costs):
        for what, shares in zip(("CPU", "device"), more.against(fewer), strict=True):
            if (middle := statistics.median(shares)) > NOISE:
                told.append(
                    f"{more.model}: a second of audio costs {middle:.2f} times the {what} seconds with {more.streams} "
                    f"streams as with {fewer.streams}"
                )
    return told


def stepping(text: str) -> float:
    """Seconds that all devices were stepping since the start, out of what /metrics says."""
    lines = (line for line in text.splitlines() if line.startswith("speechlane_step_seconds_total"))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def _cpu(running: Running) -> float:
    assert running.process is not None
    return float(sum(running.process.cpu_times()[:2]))
