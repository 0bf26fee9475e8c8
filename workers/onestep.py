"""A base for models that need a single step: write `run`, and say what an item costs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from workers.backend import Demand, Done, Limits, Spec, StepResult


class OneStep:
    """A backend whose tasks end with their first step. Subclasses set `spec` and write `run`."""

    spec: Spec
    limits: Limits = Limits()

    def run(self, payloads: Sequence[Any]) -> Sequence[Any]:
        """One result for each payload, in order. An exception as a result fails that payload alone."""
        raise NotImplementedError

    def cost(self, payload: Any) -> float:
        """What the payload adds to a batch, in the unit of `limits.cost`."""
        return 1.0

    def bucket(self, payload: Any) -> Hashable:
        """Payloads share a batch only when their buckets are equal: a length class, a shape, a language."""
        return None

    def validate(self, payload: Any) -> None:
        """Raise `InputInvalid` or `InputTooLarge` for a payload that can never be run. In the submitter's thread."""

    def load(self, device: str) -> None:
        """Bring the weights to the device and run the real shapes once."""

    def check(self) -> None:
        """Raise when the device or the model is gone."""

    def close(self) -> None:
        """Free the model."""

    def open(self, payload: Any) -> Any:
        self.validate(payload)
        return payload

    def demand(self, state: Any) -> Demand:
        return Demand(self.bucket(state), self.cost(state))

    def step(self, states: Sequence[Any]) -> list[StepResult]:
        return [result if isinstance(result, Exception) else Done(result) for result in self.run(states)]

    def discard(self, state: Any) -> None:
        """Nothing is held."""
