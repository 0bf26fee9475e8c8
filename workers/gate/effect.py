"""Whether an option did anything: which modules ran, how often. Wall time proves nothing, and neither does a flag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effect:
    """`changed` by name: how often without the option and with it."""

    changed: Mapping[str, tuple[int, int]]

    @property
    def shown(self) -> bool:
        return bool(self.changed)

    def __str__(self) -> str:
        ordered = sorted(self.changed.items(), key=lambda one: -abs(one[1][0] - one[1][1]))
        told = "; ".join(f"{name} {before:,} to {after:,}" for name, (before, after) in ordered[:4])
        return told + (f" and {len(ordered) - 4} more" if len(ordered) > 4 else "")


def effect(reference: Counter[str], candidate: Counter[str]) -> Effect:
    """Of two runs over the same items."""
    names = sorted(set(reference) | set(candidate))
    return Effect({name: (reference[name], candidate[name]) for name in names if reference[name] != candidate[name]})
