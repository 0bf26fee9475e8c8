"""Keeps leases alive from a thread with a connection of its own, whatever the worker's other threads are busy with."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from redis import Redis
from redis.exceptions import RedisError

from batch_jobs.queue.scripts import Scripts
from batch_jobs.queue.task import Lease

_LOST, _ENDED = 0, 2
_TIDY = 60.0
"""Seconds between two looks for consumers that are gone, and the least that one of them has to be idle."""
_log = logging.getLogger(__name__)


class Renewal:
    """Renews every held lease each third of its length. The thread starts with the first lease."""

    def __init__(self, redis: Redis, consumer: str, lease: float, clock: Callable[[], float]) -> None:
        self._redis = redis
        self._consumer = consumer
        self._lease = lease
        self._clock = clock
        self._held: set[Lease] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, lease: Lease) -> None:
        with self._lock:
            self._held.add(lease)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lease-renewal", daemon=True)
                self._thread.start()

    def release(self, lease: Lease) -> None:
        with self._lock:
            self._held.discard(lease)

    def held(self) -> list[Lease]:
        with self._lock:
            return list(self._held)

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        scripts: Scripts | None = None
        tidied = 0.0
        while not self._closed.wait(self._lease / 3):
            try:
                scripts = scripts or Scripts(self._redis)
                self._renew(scripts)
                if self._clock() - tidied > _TIDY:
                    tidied = self._clock()
                    scripts.run("tidy", tidied, int(max(10 * self._lease, _TIDY) * 1000))
            except (RedisError, OSError) as error:
                _log.warning("Could not renew the leases of this worker, trying again: %s", error)
            except Exception:  # without this thread every long task would be run twice
                _log.exception("Could not renew the leases of this worker, trying again")

    def _renew(self, scripts: Scripts) -> None:
        leases = self.held()
        if not leases:
            return
        rows: list[str | int] = []
        for lease in leases:
            rows += lease.stream, lease.message, lease.task.job, lease.run, lease.deliveries
        for lease, answer in zip(leases, scripts.run("renew", self._clock(), self._consumer, *rows), strict=True):
            lease.cancelled = answer == _ENDED
            lease.lost = answer in (_LOST, _ENDED)
            if answer == _LOST:
                self.release(lease)
