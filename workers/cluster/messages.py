"""What a gateway and a device tell each other. Times are seconds left or passed: two hosts have two clocks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from workers.backend import Done
from workers.device import DeviceStats
from workers.errors import ServingError
from workers.fairness import Tenant
from workers.task import Lane

# -- from a gateway to a device


class Open(NamedTuple):
    """Run a task. `left` seconds until its deadline; `parcel` is the payload as its packing made it.

    `alone`: it was there when devices died, so nobody else may be in a step with it.
    """

    number: int
    model: str
    lane: Lane
    left: float
    stream: Hashable
    coalesce: Hashable
    hard: bool
    tenant: Tenant
    alone: bool
    parcel: Any


class Cancel(NamedTuple):
    """Nobody wants the task any more."""

    number: int


class Move(NamedTuple):
    """The task has a new deadline, `left` seconds from now, and another lane if one is given."""

    number: int
    left: float
    lane: Lane | None


class Forget(NamedTuple):
    """What was kept for these will not be asked for again."""

    keys: tuple[int, ...]


class Report(NamedTuple):
    """The sessions that a gateway has on the device.

    `held`: share that they reserve; `live`: how many of each tenant. `unit`: the most that one of them took; `wants`:
    sessions that were refused here lately though there was room at the device. The gateway keeps itself to `allowed`,
    from the grant with the number `grant`.
    """

    held: float
    live: Mapping[Tenant, int]
    unit: float
    wants: int
    grant: int
    allowed: float


class Bye(NamedTuple):
    """The gateway goes, and everything that is there for it may."""


Order = Open | Cancel | Move | Forget | Report | Bye

# -- from a device to a gateway


class Some(NamedTuple):
    """Outputs of a task that goes on."""

    number: int
    outputs: tuple[Any, ...]


class Spent(NamedTuple):
    """Where a task's time went over there (`Timing`), seconds; `started` and `opened` count back from its end."""

    started: float | None
    opened: float | None
    steps: int
    step_seconds: float
    share_seconds: float
    device_seconds: float
    opening_seconds: float


class End(NamedTuple):
    """The task has ended there."""

    number: int
    result: Done | ServingError
    spent: Spent


class Back(NamedTuple):
    """The device cannot run the task now: it hangs, or goes. `alone`: it was in the step that hung."""

    number: int
    alone: bool
    reason: str


class Again(NamedTuple):
    """What the task builds on is not kept there any more: send the whole of it."""

    number: int


class Grant(NamedTuple):
    """The gateway's sessions may reserve `share` of the device from now on. Grants are numbered."""

    number: int
    share: float


Answer = Some | End | Back | Again | Grant


class Status(NamedTuple):
    """One moment of a device, as its gateways need it.

    `finish_in` by lane in seconds; `each` is what a task took lately; `held` of `limit` is reserved by the sessions of
    all `gateways`.
    """

    stats: DeviceStats
    ready: bool
    finish_in: tuple[float, ...]
    each: float
    held: float
    limit: float
    gateways: int


class Welcome(NamedTuple):
    """A device to a gateway that comes. `node` is where it runs; `facts` are what its maker tells of its models."""

    node: str
    models: tuple[str, ...]
    facts: Mapping[str, Any]
    status: Status


class Reply(NamedTuple):
    """Answers from number `first` on, the number of the last order that came, how the device is (None: as before)."""

    first: int
    answers: tuple[Answer, ...]
    ack: int
    status: Status | None
