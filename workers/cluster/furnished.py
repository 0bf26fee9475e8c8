"""What a device that is to be placed on a cluster is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workers.cluster.packing import Packing, Plain
from workers.device import Device


@dataclass(frozen=True, slots=True)
class Furnished:
    """A device with its backends, not started. `facts` go to every gateway and have to be picklable. `busy`: what
    live lanes may take whatever was reserved, because they were seen to do well with it."""

    device: Device
    packing: Packing = field(default_factory=Plain)
    facts: Mapping[str, Any] = field(default_factory=dict)
    busy: float = 0.0


Make = Callable[[str], Furnished]
"""Makes the device of this name where it is to run. Picklable: it goes there."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Devices to place: as many as the cluster has room for.

    `kind` names them: devices of one kind are alike, and every gateway that asks for this kind uses the same ones.
    `resources` of each as Ray counts them ("GPU", "CPU", or a name of the operator's). `limit` is the share of a device
    that sessions may reserve; a device that no gateway has used for `linger` seconds gives its place back.
    """

    kind: str
    make: Make
    resources: Mapping[str, float]
    limit: float = 0.85
    linger: float = 60.0

    def __post_init__(self) -> None:
        if not self.resources or any(amount <= 0 for amount in self.resources.values()):
            raise ValueError("a device needs some resource of the cluster, for example GPU=1")

    def places(self, node: Mapping[str, float]) -> int:
        """How many of the devices a node with these resources has room for."""
        return min(int(node.get(name, 0.0) / amount + 1e-9) for name, amount in self.resources.items())
