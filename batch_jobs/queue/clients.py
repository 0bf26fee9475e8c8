"""Connections to the server: which of them try again by themselves, and which leave that to the loop that uses them."""

from __future__ import annotations

import re

from redis import ConnectionPool, Redis
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, OutOfMemoryError, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

SOCKET_TIMEOUT = 10.0
"""Seconds without an answer after which a connection is given up."""
_RETRIES = 15
"""With a wait of up to a second between them: a restart of the server passes unnoticed."""
_PASSING = re.compile(r"(?:^|: -?)(?:MISCONF|LOADING|MASTERDOWN|OOM|READONLY|BUSY|NOREPLICAS|CLUSTERDOWN|TRYAGAIN)\b")
"""Begins the answer, or in a script's that of one of its commands."""


def patient() -> Retry:
    """Tries again for about ten seconds."""
    return Retry(ExponentialWithJitterBackoff(cap=1.0, base=0.05), _RETRIES)


def clone(redis: Redis, *, retry: Retry | None = None, timeout: float = SOCKET_TIMEOUT) -> Redis:
    """Another client of the same server with connections of its own, that answers in text. Without `retry`: none."""
    pool = redis.connection_pool
    settings = {
        **pool.connection_kwargs,
        "decode_responses": True,
        "retry": retry or Retry(NoBackoff(), 0),
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
    }
    return Redis(connection_pool=ConnectionPool(connection_class=pool.connection_class, **settings))


def passes(error: RedisError) -> bool:
    """Whether the server may be well again by itself: away, starting, its disk or memory full, being replaced."""
    if isinstance(error, RedisConnectionError | RedisTimeoutError | OutOfMemoryError | ReadOnlyError):
        return True
    return isinstance(error, ResponseError) and _PASSING.search(str(error)) is not None


def blames(error: RedisError) -> bool:
    """Whether the request itself cannot be done, so that trying it again gives the same: what is stored has a wrong
    type, or a script fails of it."""
    return isinstance(error, ResponseError) and not isinstance(error, NoPermissionError) and not passes(error)
