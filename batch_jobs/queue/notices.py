"""Who tells somebody outside that a job has ended: of several services one, and each end once."""

from __future__ import annotations

import secrets
from typing import Any

from redis import Redis

from batch_jobs.queue.scripts import PREFIX


class Notices:
    """Claims and outcomes of notices, kept beside the jobs. `name` is a notice's name, the same in every service.

    Thread-safe; raises the errors of redis-py.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis: Any = redis  # redis-py types every answer as "this or a promise of it"
        self._me = secrets.token_hex(8)

    def claim(self, name: str, seconds: int) -> bool:
        """Take the notice over for so long, or keep it longer. False when another has it, or it has its outcome."""
        key = _claim(name)
        # The claim comes first: who gets it after another let go of it sees the other's outcome.
        if not self._redis.set(key, self._me, nx=True, ex=seconds) and self._redis.get(key) != self._me:
            return False
        if self._redis.exists(_outcome(name)):
            self._redis.delete(key)
            return False
        return bool(self._redis.expire(key, seconds))

    def outcome(self, name: str) -> str | None:
        """What became of it; None while nothing has."""
        found: str | None = self._redis.get(_outcome(name))
        return found

    def settle(self, name: str, outcome: str, keep: int) -> None:
        """Note what became of it for `keep` seconds, and let go of it."""
        self._redis.set(_outcome(name), outcome, ex=keep)
        self._redis.delete(_claim(name))


def _claim(name: str) -> str:
    return f"{PREFIX}notice_claim:{name}"


def _outcome(name: str) -> str:
    return f"{PREFIX}notice:{name}"
