"""What the scheduler chooses, and the heaps that it chooses from."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop

from workers.home import Home
from workers.task import Lane, Task

LANES = len(Lane)

Entry = tuple[float, int, Task]
"""(due in seconds, number, task): the order of tasks within a lane."""


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
    """Tasks that may share a batch, a heap by (due, number) for each lane. Entries a task has left are skipped."""

    __slots__ = ("key", "home", "bucket", "heaps", "counts", "costs", "size")

    def __init__(self, key: Hashable, home: Home, bucket: Hashable) -> None:
        self.key = key
        self.home = home
        self.bucket = bucket
        self.heaps: tuple[list[Entry], ...] = tuple([] for _ in range(LANES))
        self.counts = [0] * LANES
        self.costs = [0.0] * LANES
        self.size = 0

    def first(self, rank: int) -> Task | None:
        """The most urgent task of one lane."""
        heap = self.heaps[rank]
        while heap:
            if heap[0][2].entry is heap[0]:
                return heap[0][2]
            heappop(heap)
        return None

    def head(self) -> Task | None:
        for rank in range(LANES):
            if self.counts[rank]:
                return self.first(rank)
        return None
