"""What is under trial: a model with options, and how to tell whether what it makes is good."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Settings = Mapping[str, object]
"""Option names with values. None of them is the reference: the model as exactly as it can be run."""


@dataclass(frozen=True, slots=True)
class Option:
    """`gains`: "seconds", or "bytes" for one that is about what a request holds. `harmful`: made to be caught, never
    proposed. `together`: the settings it is tried with; without any of them it cannot be had."""

    name: str
    value: object
    harmful: bool = False
    gains: str = "seconds"
    together: Settings = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, object]:
        """With what it needs."""
        return {**self.together, self.name: self.value}

    @property
    def label(self) -> str:
        """As "step_cache=[\"first_block\", 0.1]"."""
        return label(self.settings)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What came of some items. `seconds` and `held` (bytes of a request's own caches; None: not told) by item.
    `effect`: how often what ran, by name of module; wall time has no part in it."""

    outputs: Sequence[Any]
    seconds: Floats
    effect: Counter[str]
    held: Floats | None = None


class Subject(Protocol):
    """A model, loaded. Not for several threads at once."""

    name: str
    modality: str

    def identity(self) -> Mapping[str, str]:
        """Everything that makes old evidence worthless when it changes: weights, scheduler, steps, resolution,
        versions, device."""

    def options(self) -> Sequence[Option]:
        """What can be tried here, harmful ones included."""

    def items(self, n: int, seed: int) -> Sequence[Any]:
        """Inputs that no model was trained on; the same for the same seed."""

    def run(self, settings: Settings, items: Sequence[Any]) -> Run:
        """Each item as a request of its own, caches of earlier calls forgotten."""

    def score(self, reference: Sequence[Any], candidate: Sequence[Any], items: Sequence[Any]) -> Mapping[str, Floats]:
        """By measure and item, higher is better, 1 is perfect. What the reference gets is `score` of it with itself."""

    def control(self, seconds_per_item: float) -> Settings | None:
        """The plain way to such a cost: fewer steps, a smaller model. None: there is no plain way."""

    def isolation(self, settings: Settings) -> list[str]:
        """What of a request's result depends on others: alone, interleaved, after a cancel, with other steps. [] when
        nothing does."""


@runtime_checkable
class Probing(Protocol):
    """A subject that can tell which operations run, beneath all modules: for options that change none of those."""

    def probe(self, settings: Settings, item: Any) -> Counter[str]:
        """How often each ran for one item. Slow, and apart from all that is timed."""


@runtime_checkable
class Showing(Protocol):
    """A subject whose outputs can be looked at."""

    def show(self, output: Any) -> NDArray[np.uint8] | str:
        """A picture (height, width, 3), or a text."""

    def caption(self, item: Any) -> str:
        """What was asked for."""


def canonical(settings: Settings) -> dict[str, Any]:
    """As JSON has it: pairs are lists, objects their fields, options that are off are left out."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(settings), default=_plain, sort_keys=True, allow_nan=False))
    return {name: value for name, value in plain.items() if value is not None and value is not False}


def label(settings: Settings) -> str:
    """In one line, in the order of the names; "reference" when nothing is set."""
    plain = canonical(settings)
    return ", ".join(f"{name}={json.dumps(plain[name])}" for name in sorted(plain)) or "reference"


def _plain(value: object) -> object:
    slots = getattr(value, "__slots__", None) or getattr(value, "__dataclass_fields__", None)
    if slots is None:
        raise TypeError(f"an option's value is {type(value).__name__}, which a profile cannot hold")
    return {name: getattr(value, name) for name in slots if getattr(value, name) is not None}
