"""The replicas of one model, and which of them a task goes to."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from workers.clock import Clock
from workers.handle import Handle
from workers.task import Host, Lane, Sink, Task


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
        others = [replica for replica in self.replicas if replica is not away_from and replica.ready]
        return self._choose(task, others) if others else None

    def _route(self, task: Task, lease: Placed | None) -> Replica:
        if len(self.replicas) == 1:
            return self.replicas[0]
        ready = [replica for replica in self.replicas if replica.ready]
        if not ready:  # one that restarts takes work; one that does not says why
            return min(self.replicas, key=lambda replica: replica.draining)
        if lease is not None:
            for replica in ready:
                if replica is lease.device:
                    return replica
        return self._choose(task, ready)

    def _choose(self, task: Task, ready: list[Replica]) -> Replica:
        if len(ready) == 1:
            return ready[0]
        if task.stream is not None:
            for replica in ready:
                if replica.holds(self.model, task.stream):
                    return replica
        return min(ready, key=lambda replica: replica.finish_in(task.lane))
