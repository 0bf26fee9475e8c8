"""A made-up model: its speed and quality are numbers, its clock is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workers.gate.subject import Floats, Option, Run, Settings

STEPS = 50


@dataclass(frozen=True)
class Ways:
    """What an option does: `speed` times faster, `loss` of right answers, `noise`: share of answers that change
    without a loss, `unlike` from the reference, on `broken` of the items badly so; `acts`: whether anything runs
    otherwise; `leaks`; `held` bytes of 1000; `raises`."""

    speed: float = 1.0
    loss: float = 0.0
    noise: float = 0.0
    unlike: float = 0.0
    broken: float = 0.0
    acts: bool = True
    leaks: bool = False
    held: float = 1000.0
    raises: bool = False
    nan: float = 0.0


@dataclass
class Virtual:
    """`fewer`: how good fewer steps are: what each halving of the steps costs of right answers, and of likeness."""

    ways: Mapping[str, Ways]
    fewer: tuple[float, float] = (0.2, 0.1)
    right: float = 0.9
    jitter: float = 0.1
    seed: int = 0
    name: str = "made-up"
    modality: str = "made_up"
    facts: dict[str, str] = field(default_factory=lambda: {"weights": "abc", "steps": str(STEPS), "device": "none"})
    runs: int = 0

    def identity(self) -> Mapping[str, str]:
        return dict(self.facts)

    def options(self) -> Sequence[Option]:
        return [Option(name, True) for name in self.ways]

    def items(self, n: int, seed: int) -> Sequence[Any]:
        rng = np.random.default_rng(seed)
        return [(k, rng.random(), rng.random(), rng.random()) for k in range(n)]

    def run(self, settings: Settings, items: Sequence[Any]) -> Run:
        self.runs += 1
        rng = np.random.default_rng((self.seed, self.runs))
        ways = [self.ways[name] for name in settings if name != "fewer"]
        if any(way.raises for way in ways):
            raise RuntimeError("no such kernel")
        steps = int(settings.get("fewer", STEPS))  # type: ignore[call-overload]
        halvings = np.log2(STEPS / steps)
        seconds = np.full(len(items), steps / STEPS)
        held = np.full(len(items), 1000.0)
        effect = Counter({"block": steps * len(items)})
        outputs = []
        for way in ways:
            seconds /= way.speed
            held = np.minimum(held, way.held)
            if way.acts:
                effect["block"] -= len(items)
        loss = sum(way.loss for way in ways) + self.fewer[0] * halvings
        noise = sum(way.noise for way in ways)
        unlike = sum(way.unlike for way in ways) + self.fewer[1] * halvings
        for _, luck, other, third in items:
            right = luck < self.right
            if noise and other < noise:
                right = third < self.right
            elif right and third < loss / self.right:
                right = False
            bad = any(other < way.broken for way in ways)
            like = 0.2 if bad else 1 - unlike * (0.5 + luck)
            if any(third < way.nan for way in ways):
                like = float("nan")
            outputs.append((float(right), like))
        seconds = seconds * np.exp(self.jitter * rng.standard_normal(len(items)))
        return Run(outputs, seconds, effect, held)

    def score(self, reference: Sequence[Any], candidate: Sequence[Any], items: Sequence[Any]) -> Mapping[str, Floats]:
        return {
            "quality": np.array([one[0] for one in candidate]),
            "likeness": np.array([one[1] for one in candidate]),
        }

    def control(self, seconds_per_item: float) -> Settings | None:
        return {"fewer": max(1, min(STEPS, round(STEPS * seconds_per_item)))}

    def isolation(self, settings: Settings) -> list[str]:
        leaking = [name for name in settings if name != "fewer" and self.ways[name].leaks]
        return [f"{name}: another result beside others" for name in leaking]
