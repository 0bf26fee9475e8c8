"""What a trial has found, bound to everything that it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from workers.gate.subject import canonical, label


class Verdict(StrEnum):
    """Only PASSED may serve."""

    PASSED = "passed"
    NO_EFFECT = "no effect"
    NOT_FASTER = "not faster"
    HARMFUL = "harmful"
    BEATEN = "beaten"
    """Doing less costs the same and is no worse."""
    LEAKS = "leaks"
    """Requests depend on each other."""
    UNDECIDED = "undecided"
    """More items than there are would be needed."""
    REFUSED = "refused"
    """Together with others, by the table."""
    FAILED = "failed"
    """It could not be run."""


NOT_GOOD = (Verdict.HARMFUL, Verdict.LEAKS, Verdict.UNDECIDED, Verdict.FAILED)
"""Verdicts of what was not shown to be good."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure of one option: means, what the paired test says, the worst twentieth, and the control's."""

    reference: float
    candidate: float
    worst: float
    paired: Mapping[str, Any]
    control: float | None = None
    control_worst: float | None = None
    deviation: float = 0.0
    """Of the candidate's values between items; what live drift is measured in."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The record. `settings` as JSON has them; `speed` and `bytes` are ratios to the reference; `control` are the
    settings of the plain way, `control_speed` its ratio."""

    settings: Mapping[str, Any]
    verdict: Verdict
    reasons: Sequence[str]
    identity: Mapping[str, str]
    thresholds: str
    seed: int
    items: int
    at: float
    harmful: bool = False
    gains: str = "seconds"
    effect: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    speed: Mapping[str, Any] | None = None
    bytes: float | None = None
    measures: Mapping[str, Measured] = field(default_factory=dict)
    control: Mapping[str, Any] | None = None
    control_speed: float | None = None
    isolation: Sequence[str] = ()

    @property
    def label(self) -> str:
        return label(self.settings)

    @property
    def passed(self) -> bool:
        return self.verdict is Verdict.PASSED

    @property
    def gain(self) -> float:
        """Times faster, in the median; 1 when it was not measured."""
        return float(self.speed["median"]) if self.speed else 1.0

    def valid(self, identity: Mapping[str, str], thresholds: str) -> bool:
        """Whether it still holds: nothing that it depends on has changed."""
        return fingerprint(identity) == fingerprint(self.identity) and thresholds == self.thresholds

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError, ValueError for what was not written by `as_dict`."""
        values = dict(found)
        values["verdict"] = Verdict(values["verdict"])
        values["measures"] = {name: Measured(**one) for name, one in values["measures"].items()}
        values["effect"] = {name: (int(a), int(b)) for name, (a, b) in values["effect"].items()}
        made = cls(**values)
        fingerprint(made.identity)
        return made


def fingerprint(identity: Mapping[str, str]) -> str:
    """16 digits; another for any change."""
    return hashlib.sha256(json.dumps(dict(identity), sort_keys=True).encode()).hexdigest()[:16]


def differing(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What has changed, as "torch 2.12 to 2.13"."""
    names = sorted(set(then) | set(now))
    return [f"{name} {then.get(name, 'none')} to {now.get(name, 'none')}" for name in names
            if then.get(name) != now.get(name)]  # fmt: skip


def same_settings(first: Mapping[str, object], second: Mapping[str, object]) -> bool:
    """Pairs and lists are the same, and so are an option that is off and one that is not there."""
    return canonical(first) == canonical(second)
