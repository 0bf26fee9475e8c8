"""The connection of a gateway to the Redis that gateways share. It never waits long, and says once when it is away."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from gateway.shared.metrics import SharedMetrics

log = logging.getLogger("speechlane.shared")

ANSWER_SECONDS = 1.0
"""A server that takes longer to answer is away: nobody's words wait for it."""
PROBE_SECONDS = 1.0
"""So often it is asked whether it is there again."""

Argument = str | bytes | int | float


class Away(Exception):
    """The server does not answer, or not in time, or refuses; it has been said."""


@dataclass(frozen=True, slots=True)
class Call:
    """One script with its keys and arguments. Every script is one atomic step."""

    script: str
    keys: Sequence[str]
    arguments: Sequence[Argument]


class Link:
    """`what` is kept there, for the log and for metrics."""

    def __init__(self, url: str, what: str, metrics: SharedMetrics, answer_seconds: float = ANSWER_SECONDS) -> None:
        self.up = True
        """Whether it answered when it was last asked; it is taken for granted before it is."""
        self._what, self._metrics, self._patience = what, metrics, answer_seconds
        self._away_since = 0.0
        self._redis = Redis.from_url(
            url,
            socket_timeout=answer_seconds,
            socket_connect_timeout=answer_seconds,
            retry=Retry(NoBackoff(), 0),
        )
        metrics.up(what, True)

    @property
    def away_seconds(self) -> float:
        """For which it has not answered; 0.0: it does."""
        return 0.0 if self.up else time.monotonic() - self._away_since

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        """The answers of scripts that are sent together. Raises `Away`."""
        try:
            async with asyncio.timeout(self._patience):
                answers = await self._send(calls)
                # Only these once more: what was carried out would be taken twice.
                unknown = [n for n, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
                if unknown:
                    for name in {calls[n].script for n in unknown}:
                        await self._redis.script_load(_source(name))
                    for n, answer in zip(unknown, await self._send([calls[n] for n in unknown]), strict=True):
                        answers[n] = answer
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
        except (RedisError, OSError, TimeoutError) as error:
            await self._lost(error)
            raise Away from error
        self._found()
        return answers

    async def back(self) -> None:
        """Wait until it answers."""
        while not self.up:
            await asyncio.sleep(PROBE_SECONDS)
            try:
                async with asyncio.timeout(self._patience):
                    await self._redis.ping()
            except (RedisError, OSError, TimeoutError):
                continue
            self._found()

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def _send(self, calls: Sequence[Call]) -> list[Any]:
        pipe = self._redis.pipeline(transaction=False)
        for call in calls:
            pipe.evalsha(_sha(call.script), len(call.keys), *call.keys, *call.arguments)
        answers: list[Any] = await pipe.execute(raise_on_error=False)
        return answers

    async def _lost(self, error: BaseException) -> None:
        if self.up:
            self.up, self._away_since = False, time.monotonic()
            self._metrics.up(self._what, False)
            # The message of an error may name the address, never the password.
            log.error(
                "Redis is away (%s): %s are kept by each gateway for itself until it is back",
                type(error).__name__,
                self._what,
            )
        # An answer that comes late must not be taken for that of another question.
        await self._redis.connection_pool.disconnect()

    def _found(self) -> None:
        if not self.up:
            self.up = True
            self._metrics.up(self._what, True)
            log.warning("Redis is back: %s are shared again", self._what)


@cache
def _source(name: str) -> str:
    return (files(__package__) / "lua" / f"{name}.lua").read_text("utf-8")


@cache
def _sha(name: str) -> str:
    return hashlib.sha1(_source(name).encode(), usedforsecurity=False).hexdigest()
