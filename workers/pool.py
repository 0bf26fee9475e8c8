"""The replicas of one model, and which of them a task goes to."""

from __future__ import annotations

import random
import threading
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from workers.clock import Clock
from workers.handle import Handle
from workers.task import Host, Lane, Sink, Task

FEW = 8
"""Replicas that are all compared for each task. Among more, the better one of two drawn by chance is nearly as good:
the longest queue grows with the logarithm of the logarithm of their number, and nobody asks a thousand devices."""
REMEMBERED = 4096
"""Streams whose place is remembered before those that have no task left are forgotten."""


class Replica(Host, Protocol):
    """A place where tasks run; `Device` is the one in this process.

    This is the seam where Ray comes in: a replica on another machine keeps these methods, carries many tasks in each
    call, and answers with `Task.deliver` and `Task.end`. Ray then places, supervises and restarts the process behind
    it; batching stays with the scheduler of the device over there.
    """

    name: str
    clock: Clock

    @property
    def ready(self) -> bool:
        """Loaded, alive and not draining."""

    @property
    def draining(self) -> bool:
        """Shutting down."""

    def serves(self, model: str) -> bool: ...

    def holds(self, model: str, stream: Hashable) -> bool:
        """Whether a task of this stream waits or runs there."""

    def finish_in(self, lane: Lane) -> float:
        """Predicted seconds until a task that comes now in this lane could begin."""

    def submit(self, task: Task, model: str) -> None:
        """Check the payload and queue the task; raises a `ServingError` when it is not taken."""


class Placed(Protocol):
    """Something that has its place on a device, as a lease does: its tasks find their states there."""

    @property
    def device(self) -> Replica: ...


class Pool:
    """Replicas of `model` over `devices`. All of them must keep the same clock.

    A task goes to its lease's device, else to where its stream is being worked on, else to the replica predicted to be
    free first.
    """

    def __init__(self, model: str, devices: Sequence[Replica]) -> None:
        self.model = model
        self.replicas = tuple(device for device in devices if device.serves(model))
        if not self.replicas:
            raise ValueError(f"no device has the model {model!r}: add its backend to one first")
        self._clock = self.replicas[0].clock
        self._members = frozenset(self.replicas)
        self._dice = random.Random(model)
        self._where: dict[Hashable, Replica] = {}  # where a stream without a lease was last sent
        self._most = REMEMBERED
        self._lock = threading.Lock()

    @property
    def members(self) -> frozenset[Replica]:
        """The replicas, as a set."""
        return self._members

    def join(self, device: Replica) -> None:
        """Another replica, from now on."""
        with self._lock:
            if device not in self._members:
                self.replicas = (*self.replicas, device)
                self._members = frozenset(self.replicas)

    def submit(
        self,
        payload: Any,
        *,
        lane: Lane,
        deadline: float,
        stream: Hashable = None,
        coalesce: Hashable = None,
        lease: Placed | None = None,
        hard: bool = False,
    ) -> Handle:
        """Queue a payload from a running event loop. `deadline` in seconds on the devices' clock.

        Tasks of one `stream` run one after another, in order; give None to let them run side by side. A waiting task
        is replaced by a newer one with the same (`stream`, `coalesce`), which ends it with `Cancelled`. `hard` lets it
        end with `Expired`; never for a final (ValueError). Raises `InputInvalid`, `InputTooLarge`, `Overloaded`,
        `Draining`, `BackendDead`, `BackendFailed`.
        """
        handle = Handle()
        handle.task = Task(
            payload,
            lane=lane,
            deadline=deadline,
            sink=handle.sink,
            stream=stream,
            coalesce=coalesce,
            hard=hard,
            wake=handle.wake,
            router=self,
            clock=self._clock,
        )
        self._route(handle.task, lease).submit(handle.task, self.model)
        return handle

    def submit_task(
        self,
        payload: Any,
        *,
        lane: Lane,
        deadline: float,
        sink: Sink,
        stream: Hashable = None,
        coalesce: Hashable = None,
        lease: Placed | None = None,
        hard: bool = False,
    ) -> Task:
        """The same from any thread: `sink` gets the outputs and the end, on the device's thread."""
        task = Task(
            payload,
            lane=lane,
            deadline=deadline,
            sink=sink,
            stream=stream,
            coalesce=coalesce,
            hard=hard,
            router=self,
            clock=self._clock,
        )
        self._route(task, lease).submit(task, self.model)
        return task

    def refuge(self, task: Task, away_from: Host) -> Replica | None:
        """A ready replica other than the one that died; the one that has the task's stream already, if any."""
        return self._choose(task, away_from)

    def _route(self, task: Task, lease: Placed | None) -> Replica:
        if len(self.replicas) == 1:
            return self.replicas[0]
        if lease is not None and lease.device.ready and lease.device in self._members:
            return lease.device
        # One that restarts takes work; one that does not says why.
        return self._choose(task) or min(self.replicas, key=lambda replica: replica.draining)

    def _choose(self, task: Task, away_from: Host | None = None) -> Replica | None:
        """None when no replica is ready."""
        stream = task.stream
        if stream is not None:
            replica = self._where.get(stream)
            if replica is not None and replica is not away_from and replica.ready and replica.holds(self.model, stream):
                return replica
        ready = self._candidates(away_from)
        if not ready:
            return None
        chosen = min(ready, key=lambda replica: replica.finish_in(task.lane)) if len(ready) > 1 else ready[0]
        if stream is not None:
            self._remember(stream, chosen)
        return chosen

    def _candidates(self, away_from: Host | None) -> list[Replica]:
        """Those to compare: all that are ready when there are few of them, else two by chance."""
        if len(self.replicas) > FEW:
            drawn = self._dice.sample(self.replicas, FEW)
            two = [replica for replica in drawn if replica is not away_from and replica.ready][:2]
            if two:
                return two
        return [replica for replica in self.replicas if replica is not away_from and replica.ready]

    def _remember(self, stream: Hashable, replica: Replica) -> None:
        with self._lock:
            if len(self._where) >= self._most:
                here = list(self._where.items())
                self._where = {stream: replica for stream, replica in here if replica.holds(self.model, stream)}
                self._most = max(REMEMBERED, 2 * len(self._where))
            self._where[stream] = replica
