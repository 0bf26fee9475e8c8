"""The contract between a model and the step loop: the only thing a model author writes.

A backend turns a payload into a *state* and advances states one *step* at a time. What a step is belongs to the
model: a token, a denoising step, a window of sound, a piece of the encoder. The loop asks every state what its next
step would cost (`Demand`), groups states of equal bucket, and calls `step` with as many as fit.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Spec:
    """Identity of a model on a device. `fingerprint` names the vector space for embedding models, else ''."""

    task: str
    model: str
    revision: str = ""
    precision: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one batch may hold. `cost` is in the backend's own unit (frames, tokens, pixels times steps).

    A single state whose next step costs more than `cost` still runs, alone.
    """

    items: int = 32
    cost: float = float("inf")
    resident_bytes: int = 0
    task_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Demand:
    """The next step of one state: only states with an equal `bucket` may share a batch.

    `opening`: the step only leads up to the many that follow (an encode, a prefill). In bulk it goes first while the
    batch of those that are past it has room, so that the long run of steps is made by full batches.
    """

    bucket: Hashable
    cost: float
    opening: bool = False


@dataclass(frozen=True, slots=True)
class More:
    """The state goes on; `outputs` (maybe none) are handed out in order."""

    outputs: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """The state has ended with this last output."""

    output: Any = None


StepResult = More | Done | Exception


class Backend(Protocol):
    """A model living on a device. Every method but `open` and `demand` runs on the device's own thread."""

    spec: Spec
    limits: Limits

    def load(self, device: str) -> None:
        """Bring the weights to `device` ("cpu", "cuda:0") and run the real bucket shapes once. Idempotent."""

    def check(self) -> None:
        """Raise when the device or the model is gone."""

    def open(self, payload: Any) -> Any:
        """Make the state of one task: validation and bookkeeping only, no device work; runs in the submitter's thread.

        Raises `InputInvalid` or `InputTooLarge`. Must not consume the payload: a retry opens it again.
        """

    def demand(self, state: Any) -> Demand:
        """Bucket and cost of the state's next step. Cheap; asked once after `open` and once after each step."""

    def step(self, states: Sequence[Any]) -> list[StepResult]:
        """Advance every state by one step. Same length and order; an exception in the list fails that item alone.

        Raising instead fails no one yet: the loop halves the batch until the bad item stands alone.
        """

    def discard(self, state: Any) -> None:
        """The state's task has ended, failed or been cancelled: free what it holds. Never raises."""

    def close(self) -> None:
        """Free the model."""
