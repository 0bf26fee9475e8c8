"""What is stored of jobs, for reading."""

from __future__ import annotations

import logging
from typing import Any

from redis import Redis

from batch_jobs.job import Job, State
from batch_jobs.queue.changes import Changes
from batch_jobs.queue.notices import Notices
from batch_jobs.queue.record import decode_job
from batch_jobs.queue.scripts import PREFIX
from batch_jobs.queue.task import Dead, Kind, Task
from workers.errors import InputInvalid

_log = logging.getLogger(__name__)
_PAGE = 100
"""Jobs read in one round trip."""


class Records:
    """Jobs, their tasks, results and dead letters, as they are at the moment. Thread-safe."""

    def __init__(self, redis: Redis) -> None:
        self._redis: Any = redis  # redis-py types every answer as "this or a promise of it"

    def job(self, id: str) -> Job | None:
        stored = self._redis.hgetall(f"{PREFIX}job:{id}")
        return decode_job(id, stored) if stored else None

    def jobs(
        self, state: State | None = None, owner: str | None = None, limit: int = 100, before: str | None = None
    ) -> list[Job]:
        """The newest jobs first, at most `limit`; with `before` (a job's id) those after it in that order.

        Raises `InputInvalid` when there is no job `before` (of that owner).
        """
        index = f"{PREFIX}jobs" if owner is None else f"{PREFIX}jobs_of:{owner}"
        first = 0
        if before is not None:
            rank = self._redis.zrevrank(index, before)
            if rank is None:
                raise InputInvalid(f"There is no job {before} to go on from: start again without it.", param="before")
            first = rank + 1
        found: list[Job] = []
        while len(found) < limit:
            ids = self._redis.zrevrange(index, first, first + _PAGE - 1)
            pipeline = self._redis.pipeline(transaction=False)
            for id in ids:
                pipeline.hgetall(f"{PREFIX}job:{id}")
            for id, stored in zip(ids, pipeline.execute(), strict=True):
                if stored and state in (None, stored.get("state")):
                    try:
                        found.append(decode_job(id, stored))
                    except ValueError as error:  # the others can be listed all the same
                        _log.warning("%s", error)
            if len(ids) < _PAGE:
                break
            first += _PAGE
        return found[:limit]

    def tasks(self, id: str) -> dict[str, Task]:
        """The tasks of a job that were ever queued, by id."""
        stored = self._redis.hgetall(f"{PREFIX}tasks_of:{id}")
        return {task: Task.parse(id, task, text) for task, text in stored.items()}

    def results(self, id: str) -> dict[str, str]:
        """The results of a job's tasks, by task id. A task that was given up has {"dead": reason}."""
        stored: dict[str, str] = self._redis.hgetall(f"{PREFIX}results_of:{id}")
        return stored

    def result(self, id: str, task: str) -> str | None:
        """The result of one task, as in `results`."""
        stored: str | None = self._redis.hget(f"{PREFIX}results_of:{id}", task)
        return stored

    def dead(self, id: str | None = None, limit: int = 100) -> list[Dead]:
        """The dead letters of a job, or of all; the newest first."""
        stream = f"{PREFIX}dead"
        if id is None:
            return [_dead(fields) for _, fields in self._redis.xrevrange(stream, count=limit)]
        pipeline = self._redis.pipeline(transaction=False)
        for entry in self._redis.hvals(f"{PREFIX}dead_of:{id}"):
            pipeline.xrange(stream, entry, entry)
        letters = [_dead(fields) for found in pipeline.execute() for _, fields in found]
        return sorted(letters, key=lambda letter: letter.at, reverse=True)[:limit]

    def precisions(self, kind: str) -> dict[str, str]:
        """What workers on a kind of device transcribe with here, by model; see `Queue.agree`."""
        stored: dict[str, str] = self._redis.hgetall(f"{PREFIX}precisions")
        found = {what.rpartition(" "): precision for what, precision in stored.items()}
        return {model: precision for (model, _, of), precision in found.items() if of == kind}

    def changes(self, id: str | None = None, timeout: float = 1.0) -> Changes:
        """A subscription to the changes of a job, or of all."""
        return Changes(self._redis, id, timeout)

    def notices(self) -> Notices:
        """Which ends of jobs somebody outside was told of."""
        return Notices(self._redis)


def _dead(fields: dict[str, str]) -> Dead:
    return Dead(
        job=fields["job"],
        task=fields["task"],
        kind=Kind(fields["kind"]),
        reason=fields["reason"],
        deliveries=int(fields["deliveries"]),
        at=float(fields["at"]),
    )
