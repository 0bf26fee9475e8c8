"""News of jobs, for those who watch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType

from redis import Redis

from batch_jobs.queue.scripts import PREFIX

_CHANNEL = f"{PREFIX}changed:"


class Changes:
    """The ids of jobs that change from now on. Subscribed when it is made: read the job after that, and miss nothing.

    Iterating ends after `timeout` seconds without news; the subscription stays, so iterate again or `close`. News sent
    while the connection was lost are lost: look at the job itself from time to time. For one thread.
    """

    def __init__(self, redis: Redis, id: str | None, timeout: float) -> None:
        self._timeout = timeout
        self._pubsub = redis.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        if id is None:
            self._pubsub.psubscribe(f"{_CHANNEL}*")
        else:
            self._pubsub.subscribe(f"{_CHANNEL}{id}")
        self._pubsub.get_message(ignore_subscribe_messages=False, timeout=5.0)  # the server has heard it

    def get(self, timeout: float) -> str | None:
        """The next id; None after `timeout` seconds without one."""
        deadline = time.monotonic() + timeout
        while True:
            message = self._pubsub.get_message(timeout=max(0.0, deadline - time.monotonic()))
            if message is not None:
                return str(message["data"])
            if time.monotonic() >= deadline:
                return None

    def __iter__(self) -> Iterator[str]:
        while (id := self.get(self._timeout)) is not None:
            yield id

    def close(self) -> None:
        self._pubsub.close()

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
