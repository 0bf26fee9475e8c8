"""Whose work it is, and whose turn it is among several tenants of one lane.

Start-time fair queueing, as small as it comes: a tenant stands at the seconds of step time that it has had, divided by
its weight, and the one that stands lowest goes first; within a tenant the earliest deadline does. Who had less than its
share keeps a credit, so that what it says now and then goes through as if nobody else were there, but a small one, so
that it cannot save up for a flood. A tenant that floods a lane so waits for itself alone.

Batches blur that, because mates lengthen a step for whoever it is made for. Who has had much more than that tenant
lengthens its steps by a twentieth at most. And a step cannot be interrupted: who comes meanwhile waits for its end. So
the steps of who has had much more than somebody else who is live are short.
"""

from __future__ import annotations

from collections.abc import Collection
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.batch import Entry
    from workers.task import Task

CREDIT = 1.0
"""Seconds of step time, for a weight of 1, that a tenant may stand behind the lane."""
STRETCH = 1.05
"""By what a tenant may lengthen a step that is made for one who has had much less."""
SHORT = 1 / 3
"""Of the step budget, for steps that somebody who has had much less may have to wait for."""
KEPT = 256
"""Tenants of a lane that are remembered; beyond, the half that has had least is forgotten."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """Somebody whose work is weighed against that of others. `weight`: of two tenants with work, 2.0 gets twice the
    time that 1.0 gets. `room`: the part of what live sessions may reserve that its sessions may hold together."""

    name: str
    weight: float = 1.0
    room: float = 1.0


_IN_GAPS = 3
"""The lane of bulk, whose steps are shorter still while anybody is live."""
NOBODY = Tenant("")
TENANT: ContextVar[Tenant] = ContextVar("tenant", default=NOBODY)
"""Whose work is being done: tasks and leases take it from here, so that nothing in between has to know of tenants."""


class Fairness:
    """The tenants of one device, lane by lane. The caller says what time it is."""

    def __init__(self, lanes: int) -> None:
        self._lane = [0.0] * lanes  # where a lane stands: as far as any tenant that led a step of it
        self._stands: list[dict[Tenant, float]] = [{} for _ in range(lanes)]

    def order(self, task: Task) -> tuple[int, float, Entry]:
        """What waiting tasks are sorted by: lane, where the tenant stands in it, deadline."""
        assert task.entry is not None
        return task.rank, self._stand(task.tenant, task.rank), task.entry

    def leads(self, task: Task, live: Collection[Tenant] = ()) -> float:
        """A step is made for this task; before it is charged. The part of the step budget that it may take while these
        have `live` streams on the device."""
        rank, stand = task.rank, self._stand(task.tenant, task.rank)
        self._lane[rank] = max(self._lane[rank], stand)
        if rank >= _IN_GAPS or len(live) < 2:
            return 1.0
        return SHORT if any(stand - self._stand(other, rank) > CREDIT / 2 for other in live) else 1.0

    def charge(self, task: Task, rank: int, seconds: float) -> None:
        """A task takes part in a step, which is so much longer for it. Who leads pays what a step costs in any case."""
        stands, tenant = self._stands[rank], task.tenant
        if len(stands) >= KEPT and tenant not in stands:
            furthest = sorted(stands.items(), key=lambda one: one[1])[KEPT // 2 :]  # the others have their credit back
            stands = self._stands[rank] = dict(furthest)
        stands[tenant] = self._stand(tenant, rank) + seconds / tenant.weight

    def yields(self, task: Task, head: Task) -> bool:
        """Whether the tenant of `task` has had so much more than the one a step is made for that it may not lengthen it
        as it likes."""
        return self._stand(task.tenant, task.rank) - self._stand(head.tenant, task.rank) > CREDIT / 2

    def _stand(self, tenant: Tenant, rank: int) -> float:
        return max(self._lane[rank] - CREDIT, self._stands[rank].get(tenant, -CREDIT))
