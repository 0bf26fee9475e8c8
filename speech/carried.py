"""How many streams of each model the devices of one engine carry, and whether that was measured or is an estimate."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from speech.promises import Promise, find, identity
from workers.capacity import ROUNDING, Capacity, Measured
from workers.device import Device
from workers.site import Site

log = logging.getLogger(__name__)

Admission = Literal["measured", "estimated", "everybody"]
"""By what live streams are admitted; everybody is for whoever measures."""
Basis = Literal["measured", "estimated"]


@dataclass(frozen=True, slots=True)
class Carried:
    """`streams` of `model` alone fit on `device`; `task` is asr or tts.

    `identity` is what a measured number is valid for, `promise` that number, `changed` how the newest that was measured
    differs when it holds no more.
    """

    model: str
    task: str
    device: str
    streams: int
    basis: Basis
    identity: Mapping[str, str]
    promise: Promise | None
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Load:
    """A model on a device. `share`: seconds of step time per second of a stream, as estimated now."""

    task: str
    model: str
    device: Device
    share: Callable[[], float]
    identity: Mapping[str, str]
    promise: Promise | None
    changed: tuple[str, ...]


class Carrying:
    """Has `capacity` admit by what was measured, where `admission` is that and it was; numbers are in `folder`."""

    def __init__(self, capacity: Capacity, admission: Admission, folder: Path) -> None:
        self._capacity, self._admission, self._folder = capacity, admission, folder
        self._loads: list[_Load] = []

    def add(self, task: str, model: str, device: Device, engine: str, share: Callable[[], float]) -> None:
        """A model that has been loaded on a device. `engine`: which implementation of it."""
        precision = device.loop.homes[model].backend.spec.precision
        mine = identity(model, device.torch_device, precision, engine)
        promise, changed = find(mine, self._folder) if self._admission == "measured" else (None, [])
        if promise is not None:
            self._capacity.promise(device, model, Measured(promise.streams, promise.busy, promise.within))
            log.info("%s on %s carries %d streams, as was measured", model, device.name, promise.streams)
        elif changed:
            log.warning(
                "%s on %s: the measured number of streams holds no more (%s); admission goes by an estimate until "
                "speechlane capacity %s has measured again", model, device.name, "; ".join(changed), task,
            )  # fmt: skip
        self._loads.append(_Load(task, model, device, share, mine, promise, tuple(changed)))

    def status(self) -> tuple[Carried, ...]:
        """Every model on every device."""
        return tuple(self._carried(load) for load in self._loads)

    def basis(self, device: Site, model: str | None) -> Basis:
        """Of the number of streams of a model on a device."""
        known = model is not None and self._capacity.measured(device, model) is not None
        return "measured" if known else "estimated"

    def _carried(self, load: _Load) -> Carried:
        measured = self._capacity.measured(load.device, load.model)
        streams = (
            measured.streams if measured is not None
            else max(1, int((self._capacity.limit + ROUNDING) / load.share()))
        )  # fmt: skip
        return Carried(
            model=load.model,
            task=load.task,
            device=load.device.name,
            streams=streams,
            basis="measured" if measured is not None else "estimated",
            identity=load.identity,
            promise=load.promise,
            changed=load.changed,
        )
