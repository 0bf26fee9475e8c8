"""One picture or clip in the making: what holds for it, and how far it is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from vision_text.denoise.adapters import Conditions, Course
from vision_text.denoise.options import Options, read_options
from vision_text.denoise.request import Approximation, Asked
from vision_text.denoise.tree import Tree

WHOLE = (0.0, 1.0)
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Settled:
    """What holds after the request, the model's start and `exact` have been heard. `interval` as in `Asked`."""

    options: Options
    steps: int
    interval: tuple[float, float]

    @classmethod
    def of(cls, asked: Asked, base: Options, default_steps: int) -> Settled:
        """A request's own options go before its fields, and its fields, where they are not as by default, before the
        options that the model was started with. Raises InputInvalid."""
        given: Mapping[str, object] = {**asked.options}
        interval = asked.interval
        if interval != WHOLE and "guidance_interval" not in given:
            given = {**given, "guidance_interval": interval}
        options = read_options(given, base)
        if asked.exact:
            return cls.exact(asked, options)
        steps = asked.steps
        if options.steps is not None and ("steps" in given or asked.steps == default_steps):
            steps = options.steps
        return cls(replace(options, steps=None), steps, options.guidance_interval or WHOLE)

    @classmethod
    def exact(cls, asked: Asked, options: Options) -> Settled:
        """The same request without approximations."""
        return cls(options.exactly(), asked.steps, WHOLE)

    def lossy(self, asked: Asked) -> bool:
        return self != self.exact(asked, self.options)

    def as_dict(self, asked: Asked) -> dict[str, Any]:
        """The options that made a difference, for JSON."""
        found = self.options.as_dict()
        found.pop("guidance_interval", None)
        if self.interval != WHOLE:
            found["guidance_interval"] = list(self.interval)
        if self.steps != asked.steps:
            found["steps"] = self.steps
        return found


@dataclass(slots=True)
class Making:
    """`phase`: what the next step does. Everything else belongs to the device's thread."""

    asked: Asked
    settled: Settled
    guided: bool
    tokens: int
    phase: Literal["encode", "denoise", "preview", "decode"] = "encode"
    number: int = field(default_factory=lambda: next(_numbers))
    step: int = 0
    evaluations: int = 0
    cached: int = 0
    seconds: float = 0.0
    fallback: str | None = None
    tree: Tree | None = None
    with_prompt: Conditions = field(default_factory=dict)
    without: Conditions | None = None
    latents: Tensor = field(default_factory=lambda: torch.empty(0))
    guess: Tensor | None = None
    course: Course | None = None
    generator: torch.Generator = field(default_factory=torch.Generator)
    kernel: str = "native"
    precision: str = "float32"

    @property
    def steps(self) -> int:
        """Of the scheduler, which may be more than asked for (two for one in Heun's)."""
        return len(self.course) if self.course is not None else self.settled.steps

    @property
    def both(self) -> bool:
        """Whether guidance is on in the next step."""
        start, stop = self.settled.interval
        return self.guided and start <= self.step / self.steps < stop

    @property
    def contexts(self) -> tuple[str, str]:
        """Names of the states of its two branches."""
        return f"{self.number}/with", f"{self.number}/without"

    @property
    def looked_at(self) -> bool:
        """Whether a preview is due after the step that is next. They are evenly spread."""
        count = self.asked.previews
        return (self.step + 1) in {max(1, n * self.steps // (count + 1)) for n in range(1, count + 1)}

    def let_go(self) -> None:
        """Drop everything that takes memory, and what caches have kept."""
        if self.tree is not None:
            self.tree.forget(self.contexts)
        self.tree = self.course = self.without = self.guess = None
        self.with_prompt, self.latents = {}, torch.empty(0)

    def again(self, reason: str) -> None:
        """From the start, exactly."""
        self.let_go()
        self.settled = Settled.exact(self.asked, self.settled.options)
        self.fallback = f"{reason}; made again exactly"
        self.number = next(_numbers)
        self.phase, self.step, self.cached = "encode", 0, 0

    def approximation(self) -> Approximation:
        full = self.asked.steps * (2 if self.guided else 1)
        return Approximation(
            evaluations=self.evaluations,
            skipped=max(0, full - self.evaluations),
            cached_steps=self.cached,
            precision=self.precision,
            kernel=self.kernel,
            options=self.settled.as_dict(self.asked),
            fallback=self.fallback,
        )
