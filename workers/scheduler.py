"""Chooses the next step of a device. Pure: no thread, no clock, no model; the caller says what time it is.

The whole policy, in the order in which `pick` applies it:

1. The most urgent waiting task heads the batch: lane first, then who has had least (`fairness`), then earliest
   deadline. A lane that is passed over gets a step out of turn now and then, so that a busy device still serves bulk:
   five in each `patience` seconds as long as nobody more urgent becomes late by it, one in any case, and never more
   than a fifth of the device's time.
2. Tasks of the same backend and bucket join in order of urgency until one does not fit: the backend's items and cost;
   the step budget, while anybody is live, a sixth of it for bulk that only fills gaps, a third for who has had much
   more than somebody else who is live; or a deadline: the joining task's own, or that of any more urgent task on the
   device, which the longer batch would break and the shorter one would keep. A deadline that is lost either way limits
   nothing, else one late task would shrink every batch and make all others late as well. Bulk joins no batch that a
   live task leads: it would lengthen each of its many steps.
3. In bulk, where time is not pressing, and in a live lane whose head is late whatever is done, a step that opens a task
   goes before those of what is under way, as long as their batch has room: only full batches catch up.
4. Of the tasks of one stream only the oldest is in the race, and it is as urgent as the most urgent behind it.

A task that has run a step and goes on is queued again under its new bucket and cost, so new tasks join at any step.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Hashable
from heapq import heapify, heappop, heappush
from itertools import islice

from workers.batch import LANES, Batch, Entry, Group
from workers.fairness import STRETCH, Fairness, Tenant
from workers.home import Home
from workers.latency import NOTHING_KNOWN, Curve, LatencyModel
from workers.task import Lane, Task

HORIZON = 60.0
"""Seconds: a deadline further off is ordered as if it were this far, so that newcomers cannot pass it for ever."""
BULK_SHARE = 1 / 6
"""Of the step budget that bulk may take in a gap between live steps: whoever speaks next has to wait for it."""
LINGER = 1.0
"""Seconds for which the step budget outlasts the last live task: its stream is about to send more."""


class Scheduler:
    """The queue of one device. `step_budget` and `patience` in seconds."""

    def __init__(self, latency: LatencyModel, *, step_budget: float = 0.060, patience: float = 1.0) -> None:
        self.latency = latency
        self.step_budget = step_budget
        self.patience = patience
        self.waiting = [0] * LANES
        self._ready = 0
        self._fairness = Fairness(LANES)
        self._groups: dict[Hashable, Group] = {}
        self._streams: dict[Hashable, deque[Task]] = {}
        self._newest: dict[Hashable, Task] = {}
        self._hard: list[Entry] = []
        self._turn_at = [-math.inf] * LANES  # when a lane last headed a batch
        self._live_until = -math.inf

    def __len__(self) -> int:
        """Tasks waiting, those behind another of their stream included; not the ones in a step."""
        return sum(self.waiting)

    @property
    def ready(self) -> bool:
        """Whether `pick` would find a batch."""
        return self._ready > 0

    def holds(self, home: Home, stream: Hashable) -> bool:
        """Whether a task of this stream waits or runs here."""
        return (home, stream) in self._streams

    # -- in and out

    def add(self, task: Task, now: float) -> Task | None:
        """Queue a task whose home, state and demand are set. Returns the waiting one it replaces, if any."""
        replaced = None
        task.due = min(task.deadline, now + HORIZON)
        if task.coalesce is not None:
            key = (task.home, task.stream, task.coalesce)
            replaced = self._newest.get(key)
            if replaced is not None:
                self.remove(replaced, now)
                task.due = min(task.due, replaced.due)  # a stream that keeps replacing its task must not lose its turn
            self._newest[key] = task
        self.waiting[task.lane] += 1
        if task.lane <= Lane.PARTIAL:
            self._live_until = now + LINGER
        task.rank = int(task.lane)
        if task.hard:
            self._may_expire(task)
        if task.stream is not None:
            queue = self._streams.setdefault((task.home, task.stream), deque())
            queue.append(task)
            if len(queue) > 1:
                self._rerank(queue[0], now)
                return replaced
        self._push(task, now)
        return replaced

    def requeue(self, task: Task, now: float) -> None:
        """A task that was in a step goes on, by its new demand."""
        task.running = False
        task.due = min(task.deadline, now + HORIZON)
        self.waiting[task.lane] += 1
        self._push(task, now)

    def finish(self, task: Task, now: float) -> None:
        """A task that was in a step has ended: the next of its stream enters the race."""
        task.running = False
        self._leave_stream(task, now)

    def remove(self, task: Task, now: float) -> bool:
        """Take out a waiting task. False when it does not wait here (it is in a step, or has left)."""
        if task.running or task.rank < 0:
            return False
        self.waiting[task.lane] -= 1
        if task.entry is not None:
            self._pull(task)
        self._forget_newest(task)
        self._leave_stream(task, now)
        return True

    def move(self, task: Task, deadline: float, lane: Lane | None, now: float) -> None:
        """Order a task by a new deadline, in another lane if one is given."""
        task.deadline = deadline
        if task.rank < 0:
            return
        if lane is not None and lane is not task.lane:
            if not task.running:
                self.waiting[task.lane] -= 1
                self.waiting[lane] += 1
            task.lane = lane
            if lane <= Lane.PARTIAL:
                self._live_until = now + LINGER
        task.due = min(deadline, now + HORIZON)
        if task.hard:
            self._may_expire(task)
        if task.stream is not None:
            task = self._streams[task.home, task.stream][0]
        self._rerank(task, now)

    def expire(self, now: float) -> list[Task]:
        """Take out the waiting tasks whose hard deadline has passed before their first step."""
        late = []
        while self._hard and self._hard[0][0] < now:
            entry = heappop(self._hard)
            if _expires(entry) and self.remove(entry[2], now):
                late.append(entry[2])
        return late

    def tasks(self) -> list[Task]:
        """Everything that waits, in order of submission."""
        tasks = [task for queue in self._streams.values() for task in queue if not task.running]
        for group in self._groups.values():
            for heap in (heap for heaps in group.heaps for heap in heaps.values()):
                tasks += [task for entry in heap if (task := entry[2]).entry is entry and task.stream is None]
        return sorted(tasks, key=lambda task: task.number)

    def clear(self) -> list[Task]:
        """Take out everything that waits, in order of submission, and forget the tasks in a step."""
        for task in (tasks := self.tasks()):
            task.entry, task.group, task.rank = None, None, -1
        self._groups.clear()
        self._streams.clear()
        self._newest.clear()
        self._hard.clear()
        self.waiting = [0] * LANES
        self._ready = 0
        return tasks

    # -- the choice

    def pick(self, now: float, *, live: Collection[Tenant] = ()) -> Batch | None:
        """Take out the next batch, or None when nothing is ready. `live`: whose live streams are on the device now."""
        heads = [head for group in self._groups.values() if (head := group.head()) is not None]
        if not heads:
            return None
        heads.sort(key=self._fairness.order)
        overdue = self._overdue(now)
        head = overdue or heads[0]
        budget = self.step_budget if live or now < self._live_until or heads[0].rank <= Lane.PARTIAL else math.inf
        if head.rank == Lane.BULK:
            budget *= 1.0 if overdue else BULK_SHARE
        head = self._widening(head, heads, now, budget) or head
        self._turn_at[head.rank] = now
        return self._fill(head, heads, now, budget * self._fairness.leads(head, live))

    def _widening(self, head: Task, heads: list[Task], now: float, budget: float) -> Task | None:
        """The task of the same lane whose opening step would bring one more into the batch of `head`: see rule 3."""
        group, home = head.group, head.home
        waiting = (one for one in heads if one.rank == head.rank and one.demand.opening and one.home is home)
        task = None if head.demand.opening or group.size >= home.cap_at(now) else next(waiting, None)
        ends = now + self._alone(head, now)
        if task is not None and head.rank == Lane.BULK:
            return task if ends + self._alone(task, now) <= head.deadline else None
        full = self.latency.predict(home.name, group.bucket, sum(group.costs), now) >= budget
        return None if full or ends <= head.deadline else task

    def _overdue(self, now: float) -> Task | None:
        """The head of a lane that has been passed over for long enough."""
        for rank in range(1, LANES):
            if now - self._turn_at[rank] < self.patience / 5:
                continue
            groups = [group for group in self._groups.values() if group.counts[rank]]
            firsts = [task for group in groups if (task := group.first(rank)) is not None]
            if firsts:
                first = min(firsts, key=self._fairness.order)
                waited = now - max(first.since, self._turn_at[rank])
                pause = min(HORIZON, max(self.patience / 5, 4 * self._alone(first, now)))
                if waited >= pause and (waited >= self.patience or self._can_wait_for(first, now)):
                    return first
        return None

    def _can_wait_for(self, first: Task, now: float) -> bool:
        """Whether everything in more urgent lanes is still in time when `first` runs before it."""
        heads = [head for group in self._groups.values() if (head := group.head()) and head.rank < first.rank]
        ends = now + self._alone(first, now) + self.backlog(now, first.rank - 1)
        return all(ends <= head.deadline for head in heads)

    def _fill(self, head: Task, heads: list[Task], now: float, budget: float) -> Batch:
        home, group, bucket = head.home, head.group, head.demand.bucket
        known = self.latency.curve(home.name, bucket, now)
        curve = known or NOTHING_KNOWN
        # A model's very first step runs alone: it shows what one costs. Where the fixed cost alone eats the budget, a
        # batch may take as long again, else a slow device would work mostly for nothing.
        items = home.cap_at(now) if known is not None else 1
        cost = head.demand.cost
        took = curve.at(cost)
        latest = now + max(budget, 2 * curve.a)
        if now + took <= head.deadline:
            latest = min(latest, head.deadline)
        tasks, longest = [head], now + STRETCH * took
        self._take(head, took)
        rivals = deque(rival for rival in heads if rival is not head and rival.group is not group)
        for rank in range(LANES if head.lane > Lane.PARTIAL else Lane.BULK):
            for task in islice(group.in_order(rank), items - len(tasks)):
                more = cost + task.demand.cost
                ends = now + curve.at(more)
                while rivals and self._fairness.order(rivals[0]) < self._fairness.order(task):
                    rival = rivals.popleft()
                    start = rival.deadline - self._alone(rival, now)
                    if now + took <= start:
                        latest = min(latest, start)
                if more > home.cost or ends > latest or (ends > longest and self._fairness.yields(task, head)):
                    return Batch(home, bucket, tasks, took)
                self._take(task, ends - now - took)
                cost, took = more, ends - now
                if ends <= task.deadline:
                    latest = min(latest, task.deadline)
                tasks.append(task)
        return Batch(home, bucket, tasks, took)

    def _alone(self, task: Task, now: float) -> float:
        return self.latency.predict(task.home.name, task.demand.bucket, task.demand.cost, now)

    def backlog(self, now: float, lane: int = Lane.BULK) -> float:
        """Predicted seconds until the steps now waiting in `lane` and more urgent ones have run."""
        seconds = 0.0
        for group in self._groups.values():
            count = sum(group.counts[: lane + 1])
            if count:
                curve: Curve = self.latency.curve(group.home.name, group.bucket, now) or NOTHING_KNOWN
                seconds += curve.a * math.ceil(count / group.home.cap_at(now)) + curve.k * sum(group.costs[: lane + 1])
        return seconds

    # -- places

    def _push(self, task: Task, now: float) -> None:
        task.since = now
        self._place(task, now)

    def _place(self, task: Task, now: float) -> None:
        """Enter the race, as urgent as the most urgent task behind this one in its stream."""
        rank, due = int(task.lane), task.due
        if task.stream is not None:
            for other in self._streams[task.home, task.stream]:
                if (other.lane, other.due) < (rank, due):
                    rank, due = int(other.lane), other.due
        key = (task.home, task.demand.bucket, task.party)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key, task.home, task.demand.bucket, self._fairness)
        entry = (due, task.number, task)
        task.entry, task.group, task.rank = entry, group, rank
        heap = group.heaps[rank].setdefault(task.tenant, [])
        heappush(heap, entry)
        group.counts[rank] += 1
        group.costs[rank] += task.demand.cost
        group.size += 1
        self._ready += 1
        if len(heap) > 64 and len(heap) > 2 * group.counts[rank]:  # moves leave entries behind: bound them
            heap[:] = [entry for entry in heap if entry[2].entry is entry]
            heapify(heap)

    def _pull(self, task: Task) -> None:
        """Leave the race; the heap entry stays behind, void."""
        group = task.group
        group.counts[task.rank] -= 1
        group.costs[task.rank] -= task.demand.cost
        group.size -= 1
        self._ready -= 1
        task.entry, task.group = None, None
        if not group.size:
            del self._groups[group.key]

    def _take(self, task: Task, seconds: float) -> None:
        """Into a step, which is so much longer for it."""
        self._fairness.charge(task, task.rank, seconds)
        self._pull(task)
        self.waiting[task.lane] -= 1
        self._forget_newest(task)
        task.running = True

    def _rerank(self, task: Task, now: float) -> None:
        if task.entry is not None:
            self._pull(task)
            self._place(task, now)

    def _leave_stream(self, task: Task, now: float) -> None:
        task.rank = -1
        if task.stream is None:
            return
        queue = self._streams[task.home, task.stream]
        was_first = queue[0] is task
        queue.remove(task)
        if not queue:
            del self._streams[task.home, task.stream]
        else:
            (self._push if was_first else self._rerank)(queue[0], now)

    def _forget_newest(self, task: Task) -> None:
        if task.coalesce is not None:
            key = (task.home, task.stream, task.coalesce)
            if self._newest.get(key) is task:
                del self._newest[key]

    def _may_expire(self, task: Task) -> None:
        heappush(self._hard, (task.deadline, task.number, task))
        if len(self._hard) > 64 and len(self._hard) > 2 * len(self):
            self._hard = [entry for entry in self._hard if _expires(entry)]
            heapify(self._hard)


def _expires(entry: Entry) -> bool:
    """Whether this is still the entry of a task that has not begun."""
    due, _, task = entry
    return due == task.deadline and not task.running and task.rank >= 0 and not task.timing.steps
