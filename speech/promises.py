"""How many live streams a model was shown to carry on this machine: `speechlane capacity` writes it, engines read it.

A number holds for what it was measured with, its identity: the model, the device, precision, threads, the machine and
the versions. There is a file for each model and device, with the newest number of every identity, so that processes
with other settings do not take each other's away.
"""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from workers.gate.evidence import differing

log = logging.getLogger(__name__)

KEPT = 16
"""Identities of a model on a device that are remembered, the newest."""
_VERSION = 1
_NAME = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class Promise:
    """`streams` of a model met `objective` on a device, which their steps kept `busy` (seconds per second).

    `within`: seconds of the objective. `confidence`: that with which it was shown, between 0 and 1. `at`: Unix time.
    """

    identity: Mapping[str, str]
    streams: int
    busy: float
    within: float
    objective: str
    confidence: float
    at: float

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Promise:
        """As it was written. Raises ValueError, KeyError, TypeError, AttributeError."""
        one = cls(
            {str(name): str(value) for name, value in found["identity"].items()},
            found["streams"], float(found["busy"]), float(found["within"]), str(found["objective"]),
            float(found["confidence"]), float(found["at"]),
        )  # fmt: skip
        if type(one.streams) is not int or one.streams < 1:
            raise ValueError("streams must be a number above 0")
        if not 0 <= one.busy <= 1 or not 0 <= one.confidence <= 1 or not 0 <= one.within < math.inf:
            raise ValueError("busy and confidence are between 0 and 1, and within is in seconds")
        return one


def identity(model: str, device: str, precision: str, engine: str = "torch") -> dict[str, str]:
    """Everything that makes a number worthless when it changes. `device` as torch names it; `threads` are those of now.

    `engine`: which implementation runs the model.
    """
    kind = _machine()
    if device.startswith("cuda"):
        kind = f"{torch.cuda.get_device_name(device)}; {kind}"
    threads = str(torch.get_num_threads()) if device == "cpu" else "none"
    return {"model": model, "device": device, "precision": precision, "engine": engine, "threads": threads,
            "machine": kind, "version": _own_version(), "torch": torch.__version__}  # fmt: skip


def path_of(model: str, device: str, folder: Path) -> Path:
    """The file of a model, which may be a path or have a slash in its name, on a device."""
    return folder / f"streams-{_NAME.sub('--', model.strip('/'))}-{device.replace(':', '')}.json"


def read(path: Path) -> list[Promise]:
    """Every number in a file, the newest first. A file that cannot be used is none, said in the log."""
    try:
        found = json.loads(path.read_text("utf-8"))
        if found["version"] != _VERSION:
            raise ValueError(f"it has version {found['version']}, not {_VERSION}")
        return [Promise.parse(one) for one in found["promises"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        log.warning("%s cannot be used (%r): run speechlane capacity again, or remove it", path, problem)
        return []


def keep(promise: Promise, folder: Path) -> Path:
    """Write a number down in place of the one of the same identity. Whole or not at all; raises OSError."""
    path = path_of(promise.identity["model"], promise.identity["device"], folder)
    others = [one for one in read(path) if one.identity != promise.identity]
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    told = {"version": _VERSION, "promises": [asdict(one) for one in (promise, *others)][:KEPT]}
    draft.write_text(json.dumps(told, indent=1, sort_keys=True), "utf-8")
    draft.replace(path)
    return path


def find(wanted: Mapping[str, str], folder: Path) -> tuple[Promise | None, list[str]]:
    """The number of this identity; else None and how the newest differs ([]: none was ever measured)."""
    known = read(path_of(wanted["model"], wanted["device"], folder))
    for one in known:
        if one.identity == wanted:
            return one, []
    return None, differing(known[0].identity, wanted) if known else []


@cache
def _machine() -> str:
    """The processor and how much of it this process may use."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {_cpus():g} CPUs"


def _cpus() -> float:
    """As this process may use them: by affinity, and by what a container is limited to."""
    count = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return min(count, round(int(quota) / int(period), 2))
    except (OSError, ValueError):  # there is no such limit here, or it is "max"
        return count


def _own_version() -> str:
    try:
        return version("speechlane")
    except PackageNotFoundError:  # it runs from its source
        return "source"
