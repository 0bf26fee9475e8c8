"""What the scheduler chooses, and the heaps that it chooses from."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heapreplace

from workers.fairness import Fairness, Tenant
from workers.home import Home
from workers.task import Lane, Task

LANES = len(Lane)

Entry = tuple[float, int, Task]
"""(due in seconds, number, task): the order of a tenant's tasks within a lane."""


class Batch:
    """Tasks that run one step together. The fraction `live` of the step is for live lanes."""

    __slots__ = ("home", "bucket", "tasks", "states", "cost", "live", "predicted")

    def __init__(self, home: Home, bucket: Hashable, tasks: list[Task], predicted: float) -> None:
        self.home = home
        self.bucket = bucket
        self.tasks = tasks
        self.states = [task.state for task in tasks]
        self.cost = sum(task.demand.cost for task in tasks)
        live = [task.demand.cost for task in tasks if task.lane <= Lane.PARTIAL]
        self.live = sum(live) / self.cost if self.cost > 0 else len(live) / len(tasks)
        self.predicted = predicted


class Group:
    """Tasks that may share a batch: for each lane and tenant a heap by (due, number). Entries a task has left are
    skipped."""

    __slots__ = ("key", "home", "bucket", "fairness", "heaps", "counts", "costs", "size")

    def __init__(self, key: Hashable, home: Home, bucket: Hashable, fairness: Fairness) -> None:
        self.key = key
        self.home = home
        self.bucket = bucket
        self.fairness = fairness
        self.heaps: tuple[dict[Tenant, list[Entry]], ...] = tuple({} for _ in range(LANES))
        self.counts = [0] * LANES
        self.costs = [0.0] * LANES
        self.size = 0

    def first(self, rank: int) -> Task | None:
        """The most urgent task of one lane."""
        firsts = self._firsts(rank)
        return min(firsts, key=self.fairness.order) if len(firsts) > 1 else firsts[0] if firsts else None

    def in_order(self, rank: int) -> Iterator[Task]:
        """Those of one lane, the most urgent first. Each is taken out before the next is asked for, which moves nobody
        back but its tenant: so the next costs little, however many tenants there are."""
        order, heaps, firsts = self.fairness.order, self.heaps[rank], self._firsts(rank)
        if len(firsts) == 1:  # as it mostly is: nobody to compare with
            heap = heaps[firsts[0].tenant]
            while (only := _top(heap)) is not None:
                yield only
            return
        waiting = [(order(task), task) for task in firsts]
        heapify(waiting)
        while waiting:
            task = waiting[0][1]
            yield task
            after = _top(heaps[task.tenant])
            if after is None:
                heappop(waiting)
            else:
                heapreplace(waiting, (order(after), after))

    def _firsts(self, rank: int) -> list[Task]:
        """The first of each tenant; who has none any more is forgotten."""
        heaps = self.heaps[rank]
        firsts = {tenant: _top(heap) for tenant, heap in heaps.items()}
        for tenant, task in firsts.items():
            if task is None:
                del heaps[tenant]
        return [task for task in firsts.values() if task is not None]

    def head(self) -> Task | None:
        for rank in range(LANES):
            if self.counts[rank]:
                return self.first(rank)
        return None


def _top(heap: list[Entry]) -> Task | None:
    while heap and heap[0][2].entry is not heap[0]:
        heappop(heap)
    return heap[0][2] if heap else None
