"""Devices for a cluster of tests: made in their own processes, so this has to be found there by its name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.workers.models import Timed
from workers.backend import StepResult
from workers.cluster.furnished import Furnished
from workers.device import Device


class Mortal(Timed):
    """Its process goes when it is told to."""

    def step(self, states: Sequence[Any]) -> list[StepResult]:
        if any(state.job.fault == "exit" for state in states):
            os._exit(1)
        return super().step(states)


@dataclass(frozen=True)
class Makes:
    """A device whose steps take `seconds`."""

    seconds: float
    broken: str = ""

    def __call__(self, name: str) -> Furnished:
        if self.broken:
            raise ValueError(self.broken)
        device = Device(name)
        device.add(Mortal(a=self.seconds))
        return Furnished(device, facts={"pid": os.getpid()})
