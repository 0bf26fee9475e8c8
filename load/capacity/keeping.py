"""The number found, written down where the engine that was measured looks for it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from load.capacity.goal import Goal
from load.capacity.measure import Run
from speech.models import cache_dir
from speech.promises import Promise, keep, read

Carried = Mapping[str, Any]
"""A model on a device, as /readyz tells it."""


HEAD = ("model", "device", "streams", "precision", "threads", "version", "shown with", "at", "objective")


def folder() -> Path:
    """Where engines look, unless they are told otherwise."""
    return cache_dir() / "profiles"


def measured(state: Mapping[str, Any], kind: str) -> list[Carried]:
    """The default model of the kind (asr, tts) at a service, on each of its devices. Raises SystemExit for none."""
    of_kind = [one for one in state["carried"] if one["task"] == kind]
    if not of_kind:
        raise SystemExit(f"the service has no model for {kind}")
    return [one for one in of_kind if one["model"] == of_kind[0]["model"]]


def promises(carried: Sequence[Carried], run: Run, goal: Goal) -> list[Promise]:
    """What each device is promised to carry of what `run` showed; clients are spread evenly. Empty when there are fewer
    clients than devices."""
    each = run.clients // len(carried)
    if not each:
        return []
    return [
        Promise(
            identity=dict(one["identity"]),
            streams=each,
            busy=run.busy,
            within=goal.within,
            objective=goal.objective,
            confidence=run.verdict.confidence,
            at=time.time(),
        )
        for one in carried
    ]


def write(found: Sequence[Promise], where: Path) -> list[Path]:
    """Write them down. Raises OSError."""
    return [keep(one, where) for one in found]


def rows(where: Path) -> list[tuple[str, ...]]:
    """What is written down, for a table."""
    out: list[tuple[str, ...]] = []
    for path in sorted(where.glob("streams-*.json")):
        for one in read(path):
            mine = one.identity
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.at))
            out.append((mine["model"], mine["device"], str(one.streams), mine["precision"], mine["threads"],
                        mine["version"], f"{100 * one.confidence:.0f} %", when, one.objective))  # fmt: skip
    return out
