"""The tasks that a gateway has at one remote device, and what is to be sent for them. Thread-safe."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Hashable

from workers.cluster.messages import Cancel
from workers.task import Host, Task


class Moved:
    """A task whose deadline or lane has changed."""

    __slots__ = ("task",)

    def __init__(self, task: Task) -> None:
        self.task = task


ToSend = Task | Moved | Cancel


class Held:
    """Bounded by whoever takes tasks in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._quiet = threading.Condition(self._lock)
        self._tasks: dict[int, Task] = {}
        self._streams: Counter[tuple[str, Hashable]] = Counter()
        self._outbox: deque[ToSend] = deque()

    def __len__(self) -> int:
        return len(self._tasks)

    def take(self, task: Task, model: str, host: Host) -> None:
        with self._lock:
            task.host, task.model = host, model
            self._tasks[task.number] = task
            self._outbox.append(task)
            if task.stream is not None:
                self._streams[model, task.stream] += 1

    def drop(self, task: Task, *, tell: bool = False) -> None:
        """It has ended, or goes elsewhere. `tell` the device, which does not know."""
        with self._lock:
            if self._tasks.get(task.number) is not task:
                return
            del self._tasks[task.number]
            if tell:
                self._outbox.append(Cancel(task.number))
            if task.stream is not None:
                key = task.model, task.stream
                self._streams[key] -= 1
                if not self._streams[key]:
                    del self._streams[key]
            if not self._tasks:
                self._quiet.notify_all()

    def moved(self, task: Task) -> None:
        with self._lock:
            if self._tasks.get(task.number) is task:
                self._outbox.append(Moved(task))

    def again(self, task: Task) -> None:
        """Send it once more."""
        with self._lock:
            if self._tasks.get(task.number) is task:
                self._outbox.append(task)

    def get(self, number: int) -> Task | None:
        return self._tasks.get(number)

    def holds(self, model: str, stream: Hashable) -> bool:
        return (model, stream) in self._streams

    def all(self) -> list[Task]:
        """In the order of submission."""
        with self._lock:
            return sorted(self._tasks.values(), key=lambda task: task.number)

    def outgoing(self) -> deque[ToSend]:
        """Take out what is to be sent."""
        with self._lock:
            outbox, self._outbox = self._outbox, deque()
            return outbox

    def evacuate(self) -> list[Task]:
        """Take out everything, in the order of submission."""
        tasks = self.all()
        with self._lock:
            tasks = [task for task in tasks if self._tasks.pop(task.number, None) is task]
            tasks += sorted(self._tasks.values(), key=lambda task: task.number)  # came in between
            self._tasks.clear()
            self._streams.clear()
            self._outbox.clear()
            self._quiet.notify_all()
            return tasks

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until there is none. False when there still is one."""
        with self._lock:
            return self._quiet.wait_for(lambda: not self._tasks, timeout)
