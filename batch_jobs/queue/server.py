"""The server that keeps the queue: the embedded one or another, and what has to be true of it."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from redis import Redis
from redis.exceptions import RedisError

from batch_jobs.queue.clients import SOCKET_TIMEOUT, clone, patient
from batch_jobs.queue.embedded import Embedded, QueueUnavailable
from batch_jobs.settings import BatchSettings

_OLDEST = (6, 2)


class Server:
    """A connection to the queue's server. `url` names it without its password."""

    def __init__(self, redis: Redis, url: str, embedded: Embedded | None = None) -> None:
        self.redis = redis
        self.url = url
        self._embedded = embedded

    def close(self) -> None:
        """Close the connections and leave the embedded server. Idempotent."""
        self.redis.close()
        if self._embedded is not None:
            self._embedded.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def connect(settings: BatchSettings) -> Server:
    """The server of the settings, checked: `redis_url`, or the embedded one of `directory`.

    Raises `QueueUnavailable` when it cannot be reached, is too old, or could lose what is queued.
    """
    if settings.redis_url is None:
        embedded = Embedded(settings.directory)
        url = f"unix://{embedded.socket}"
        server = Server(Redis(unix_socket_path=embedded.socket, **_options()), url, embedded)
    else:
        try:
            url = _without_password(settings.redis_url)
            server = Server(Redis.from_url(settings.redis_url, **_options()), url)
            server.redis.connection_pool.make_connection()  # looks at the rest of the address
        except (ValueError, TypeError) as error:
            # What is wrong may be a part of the password.
            raise QueueUnavailable(
                "redis_url is no address of a Redis server: it looks like redis://:PASSWORD@HOST:6379/0, rediss:// for "
                "TLS, or unix:///PATH; what is special in a password is written as %XX."
            ) from error
    impatient = clone(server.redis)  # a wrong address is told at once
    try:
        check(impatient, url)
    except BaseException:
        server.close()
        raise
    finally:
        impatient.close()
    return server


def check(redis: Redis, url: str) -> None:
    """Raise `QueueUnavailable`, with the command that mends it, when the server at `url` is not safe for a queue."""
    try:
        facts: dict[str, Any] = redis.info()
    except RedisError as error:
        raise QueueUnavailable(f"The Redis server {url} cannot be used: {error}") from error
    version = tuple(int(part) for part in str(facts["redis_version"]).split(".")[:2])
    if version < _OLDEST:
        raise QueueUnavailable(f"The Redis server {url} is version {facts['redis_version']}: 6.2 is the oldest to do.")
    if facts.get("role") == "slave":
        raise QueueUnavailable(f"{url} is a replica, which takes no jobs: name its primary.")
    if facts.get("cluster_enabled"):
        raise QueueUnavailable(f"{url} is a node of a Redis Cluster: name a single server (replicas are welcome).")
    if not facts.get("aof_enabled"):
        raise QueueUnavailable(
            f"The Redis server {url} forgets its last minutes when it stops. Let it write a log: "
            f"redis-cli -u {url} CONFIG SET appendonly yes (and CONFIG REWRITE, so that it stays)."
        )
    if facts.get("maxmemory_policy") != "noeviction":
        raise QueueUnavailable(
            f"The Redis server {url} drops data when memory is short ({facts.get('maxmemory_policy')}). Forbid it: "
            f"redis-cli -u {url} CONFIG SET maxmemory-policy noeviction (and CONFIG REWRITE, so that it stays)."
        )


def _options() -> dict[str, Any]:
    return {
        "decode_responses": True,
        "retry": patient(),
        "socket_timeout": SOCKET_TIMEOUT,
        "socket_connect_timeout": SOCKET_TIMEOUT,
        "health_check_interval": 30,
    }


def _without_password(url: str) -> str:
    """Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme != "unix" and not re.fullmatch(r"/?\d*", parts.path):
        raise ValueError("a password with a slash ends the host, and the rest of it is no database")
    place = parts.netloc if parts.password is None else parts.netloc.replace(f":{parts.password}@", ":***@")
    return parts._replace(netloc=place, query="", fragment="").geturl()
