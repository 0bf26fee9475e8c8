"""What subjects have in common: who is running, stepping a backend without a device, counting what really runs."""

from __future__ import annotations

import hashlib
import os
import platform
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from workers.backend import Backend, Done, More


def running_on(device: str, packages: Sequence[str]) -> dict[str, str]:
    """The device, what it is, and the versions of packages: part of a subject's identity."""
    found = {"device": device, "machine": platform.machine(), "python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    import torch

    if device.startswith("cuda") and torch.cuda.is_available():
        found["chip"] = torch.cuda.get_device_name(device)
        found["cuda"] = str(torch.version.cuda)
    else:
        found["chip"] = f"{torch.backends.cpu.get_cpu_capability()} x{os.cpu_count()}"
    return found


def digest(text: str) -> str:
    """Twelve digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def answers(backend: Backend, payloads: Sequence[Any]) -> list[Any]:
    """The outputs of payloads that are stepped together, as the loop would: those of one bucket share a step. Raises
    what fails."""
    states = [backend.open(payload) for payload in payloads]
    found: dict[int, Any] = {}
    try:
        while len(found) < len(states):
            groups: dict[Hashable, list[int]] = {}
            for n, state in enumerate(states):
                if n not in found:
                    groups.setdefault(backend.demand(state).bucket, []).append(n)
            batch = max(groups.values(), key=len)[: backend.limits.items]
            for n, result in zip(batch, backend.step([states[n] for n in batch]), strict=True):
                if isinstance(result, Exception):
                    raise result
                if isinstance(result, Done):
                    found[n] = result.output
    finally:
        for state in states:
            backend.discard(state)
    return [found[n] for n in range(len(states))]


def cancelled(backend: Backend, payload: Any, steps: int) -> None:
    """Begin and drop it: what a client that goes away leaves behind."""
    state = backend.open(payload)
    try:
        for _ in range(steps):
            result = backend.step([state])[0]
            if not isinstance(result, More):
                return
    finally:
        backend.discard(state)


class Counted:
    """A callable whose calls, and the rows of what they are given, are counted under its class's name."""

    __slots__ = ("_inner", "_name", "_counts")

    def __init__(self, inner: Any, name: str, counts: Counter[str]) -> None:
        self._inner, self._name, self._counts = inner, name, counts

    def __call__(self, *given: Any, **named: Any) -> Any:
        self._counts[self._name] += 1
        if given and (shape := getattr(given[0], "shape", None)):
            self._counts[f"{self._name} rows"] += int(shape[0])
        return self._inner(*given, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def count_calls(root: object, classes: tuple[type, ...], counts: Counter[str]) -> int:
    """Put a `Counted` in the place of every object of these classes below `root`. How many there were."""
    seen: set[int] = set()
    waiting: list[object] = [root]
    replaced = 0
    while waiting:
        holder = waiting.pop()
        if id(holder) in seen:
            continue
        seen.add(id(holder))
        for key, value in list(_parts(holder)):
            if isinstance(value, Counted):
                continue
            if isinstance(value, classes):
                _put(holder, key, Counted(value, _name(value), counts))
                replaced += 1
            elif isinstance(value, dict | list) or type(value).__module__.partition(".")[0] in _OURS:
                waiting.append(value)
    return replaced


_OURS = ("workers", "speech", "vision_text")


def _name(value: object) -> str:
    dtype = getattr(value, "dtype", None) or getattr(value, "_dtype", None)
    return type(value).__name__ + (f" {str(dtype).removeprefix('torch.')}" if dtype is not None else "")


def _parts(holder: object) -> Iterator[tuple[Any, Any]]:
    if isinstance(holder, Mapping):
        yield from holder.items()
    elif isinstance(holder, list):
        yield from enumerate(holder)
    else:
        yield from getattr(holder, "__dict__", {}).items()


def _put(holder: object, key: Any, value: object) -> None:
    if isinstance(holder, dict | list):
        holder[key] = value
    else:
        setattr(holder, key, value)
