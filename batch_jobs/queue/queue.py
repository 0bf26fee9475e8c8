"""The queue: jobs, the tasks they consist of, and the leases under which workers run these."""

from __future__ import annotations

import json
import logging
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from batch_jobs.job import Job, State
from batch_jobs.queue.clients import clone, passes, patient
from batch_jobs.queue.record import clean, encode, encode_increments, encode_job
from batch_jobs.queue.records import Records
from batch_jobs.queue.renewal import Renewal
from batch_jobs.queue.scripts import PREFIX, Scripts
from batch_jobs.queue.task import Lease, Task
from batch_jobs.settings import BatchSettings
from workers.errors import Overloaded

MAX_RESULT = 16 * 1024 * 1024
"""Bytes of a task's result."""
_POLL = 0.5
"""Seconds after which an idle worker looks for tasks of dead ones."""
_BACKOFF, _LONGEST_BACKOFF = 1.0, 60.0
"""Seconds before the second attempt of a task, doubled with each further one, and the most it comes to."""
_ENDED_JOBS = 10
"""Records of ended jobs that are kept, as a multiple of the jobs that may be open. The oldest go first."""
_UNUSED = 1000
"""Files told at once."""
_INDEXES = "1"
"""Goes up when jobs have another index."""
_REASON = 2000
"""Characters that are kept of a reason."""
_log = logging.getLogger(__name__)


class Queue(Records):
    """Jobs and tasks on one server. Synchronous and thread-safe; every change is one atomic script.

    A task runs under a lease. A worker that is silent for `settings.lease` loses it to another one, and whatever it
    does afterwards counts for nothing. Each task has exactly one result, and when the last task of a stage has got its
    result the next stage starts, once.

    Calls try again for about ten seconds while the server is away, then raise the errors of redis-py.
    """

    def __init__(self, redis: Redis, settings: BatchSettings, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clone(redis, retry=patient()))
        self._settings = settings
        self._clock = clock
        self._scripts = Scripts(self._redis)
        self._index()
        self._consumer = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._taking = clone(redis)
        self._take_scripts = Scripts(self._taking)
        self._renewing = clone(redis, timeout=max(1.0, settings.lease / 3))
        self._renewal = Renewal(self._renewing, self._consumer, settings.lease, clock)
        self._reclaim_after = 0.0
        self._closed = False

    # Jobs

    def create(self, job: Job, first: Task, then: Task) -> None:
        """Store a job and queue its first task; `then` starts when that and all it adds have their results.

        Doing it again changes nothing. Raises `Overloaded` while `settings.max_jobs` jobs are open.
        """
        most = self._settings.max_jobs
        record = {**encode_job(job), "_stream": str(job.options.priority)}
        following = f"{then.id} {then.text}"
        created = self._run(
            "create", job.id, job.created, json.dumps(record), first.id, first.text, following, most, most * _ENDED_JOBS
        )
        if not created:
            raise _full(most)

    def update(self, id: str, **fields: Any) -> None:
        """Set fields of a job that goes on; None empties one. Raises ValueError for an end state."""
        if State(fields.get("state", State.RUNNING)).ended:
            raise ValueError("A job is ended by the commit of its last task")
        self._run("update", id, json.dumps(encode(fields)), "{}")

    def add(self, id: str, **increments: float) -> None:
        """Increase numbers of a job that goes on ("timings.asr" is one too)."""
        self._run("update", id, "{}", json.dumps(encode_increments(increments)))

    def agree(self, id: str, model: str, kind: str, precision: str) -> str:
        """The precision in which a model transcribes a job on a kind of device: that of whoever asked first in this
        queue, for as long as it has other jobs, and of a job for its whole life.
        """
        return str(self._run("agree", id, f"{model} {kind}", precision))

    def cancel(self, id: str) -> bool:
        """End a job now; its tasks are dropped. False when there is none, or it had ended."""
        return bool(self._run("cancel", id))

    def retry(self, id: str) -> bool:
        """Run an ended job again from what is missing: dead and never finished tasks, then its second stage and on.

        False when it has not ended, or nothing is missing. Raises `Overloaded` as `create` does.
        """
        answer = self._run("retry", id, self._settings.max_jobs)
        if answer < 0:
            raise _full(self._settings.max_jobs)
        return bool(answer)

    def delete(self, id: str) -> None:
        """Remove everything of a job, ended or not."""
        self._run("delete", id)

    def discard(self, files: Iterable[tuple[str, str]], after: float) -> None:
        """Note files of deleted jobs as (kind, name); `unused` gives them back after so many seconds. Of kind "source"
        are those that came in, the others are what was made of them."""
        due = self._clock() + after
        if noted := {f"{kind} {name}": due for kind, name in files}:
            self._redis.zadd(f"{PREFIX}unused", noted)

    def unused(self) -> list[tuple[str, str]]:
        """Of these files, those whose time has come and that no job needs, at most `_UNUSED`. Each is told once."""
        found = (member.partition(" ") for member in self._run("unused", _UNUSED))
        return [(kind, name) for kind, _, name in found]

    def sweep(self, older_than: float) -> list[str]:
        """Delete the jobs that ended more than `older_than` seconds ago; their ids."""
        deleted: list[str] = []
        while True:
            ids = self._run("sweep", self._clock() - older_than, 100)
            deleted += ids
            if len(ids) < 100:
                return deleted

    # Tasks

    def take(self, block: float, *, begin: bool = True, stop: threading.Event | None = None) -> Lease | None:
        """The next task, or None when there was none for `block` seconds. `begin`: a job's first task may be it.
        Ends early when `stop` is set, at once with `wake` and else within half a second.

        Tasks of dead workers first, then high before normal before low; so that nothing starves, of every eight tasks
        two are looked for in normal first and one in low. In each, jobs that have begun go before those that have not,
        so that the decoded audio of many waiting files need not be kept. Wakes at once when work comes. A task that
        was delivered `settings.deliveries` times in vain is buried on the way. While the server is away it keeps
        trying.
        """
        deadline = time.monotonic() + block
        while not self._closed and not (stop is not None and stop.is_set()):
            pause, bell = _POLL, "0-0"
            try:
                found = self._try_take(begin)
                if isinstance(found, Lease):
                    return found
                bell, due = found
                pause = min(pause, max(0.001, due - self._clock()))
                pause = min(pause, deadline - time.monotonic())
                if pause <= 0:
                    return None
                self._taking.xread({f"{PREFIX}bell": bell}, count=1, block=max(1, int(pause * 1000)))
            except RedisError as error:
                if not passes(error):
                    raise
                _log.warning("The queue's server does not answer, trying again: %s", error)
                # After a break the others' leases look abandoned: they get the time to renew them.
                self._reclaim_after = time.monotonic() + self._settings.lease / 2
                if deadline - time.monotonic() <= 0:
                    return None
                time.sleep(min(_POLL * random.uniform(0.5, 1.0), max(0.0, deadline - time.monotonic())))
        return None

    def wake(self) -> None:
        """Have all who wait in `take` look around, whether there is work or they are to stop."""
        try:
            self._taking.xadd(f"{PREFIX}bell", {"work": "0"}, maxlen=1, approximate=False)
        except RedisError as error:
            _log.info("The queue's server is away, so nobody is waiting there: %s", error)

    def fan_out(self, lease: Lease, tasks: Sequence[Task], **increments: float) -> bool:
        """Add tasks to the running stage from a task of it. A task that exists already stays as it is.

        `increments` belong to these tasks: they count when at least one of them is new, so call it with the same tasks
        when the work is done again. False: not ours any more, stop.
        """
        call = (_rows(tasks), encode_increments(increments))
        added = bool(self._run_leased("fan_out", lease, json.dumps(call[0]), json.dumps(call[1])))
        if added:
            lease.fanned_out.append(call)
        return added

    def commit(
        self,
        lease: Lease,
        result: str,
        *,
        tasks: Sequence[Task] = (),
        then: Task | None = None,
        fields: Mapping[str, Any] | None = None,
        increments: Mapping[str, float] | None = None,
    ) -> bool:
        """End a task with its result. In one step: is it still ours, remove it, store the result, add `tasks`, set the
        stage that follows, and when the stage is over start that, or end the job when there is none.

        A job ends with the state in `fields`, else as DONE; an end state ends it at once. False: the lease was lost,
        the result exists or the job has ended; nothing was changed. Raises ValueError for a result over `MAX_RESULT`.
        """
        if len(result.encode()) > MAX_RESULT:
            raise ValueError(f"The result of task {lease.task.id} is longer than {MAX_RESULT} bytes")
        stored = json.dumps(encode(fields or {}))
        amounts = json.dumps(encode_increments(increments or {}))
        following = "" if then is None else f"{then.id} {then.text}"
        new, before = json.dumps(_rows(tasks)), json.dumps(lease.fanned_out)
        return bool(self._end("commit", lease, result, stored, amounts, new, before, following))

    def fail(self, lease: Lease, reason: str, *, again: bool) -> None:
        """End an attempt in vain. With `again` it is tried later, `settings.attempts` times in all; else it is dead.

        A dead CHUNK or REPAIR leaves a hole and the job goes on; a dead SPLIT, STITCH or WRITE fails the job with
        `reason` as its error.
        """
        due: float | str = ""
        if again and lease.attempt < self._settings.attempts:
            wait = min(_LONGEST_BACKOFF, _BACKOFF * 2.0 ** (lease.attempt - 1))
            due = self._clock() + wait * random.uniform(0.5, 1.0)
        self._end("fail", lease, clean(reason[:_REASON]), lease.attempt, due)

    def postpone(self, lease: Lease, reason: str) -> None:
        """Try a task again later because something is short that others may free; no attempt is counted, and the job
        says as `waiting` what for. After `settings.patience` of waiting it is dead."""
        limits = (self._settings.patience, _LONGEST_BACKOFF)
        self._end("postpone", lease, clean(reason[:_REASON]), lease.attempt, *limits)

    def drop(self, lease: Lease, reason: str) -> None:
        """Give a task up whose job's records cannot be worked with, also when a script failed in its middle: a dead
        letter at least, and the job fails if what is dead cannot be noted otherwise."""
        self._end("drop", lease, clean(reason[:_REASON]))

    def give_back(self, lease: Lease) -> None:
        """Leave a task to others at once, in its old place in the queue; this delivery is not counted."""
        self._end("give_back", lease)

    def close(self) -> None:
        """Give back what is held, wake whoever waits in `take`, and close the connections. Idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            for lease in self._renewal.held():
                self.give_back(lease)
            self._run("tidy", self._consumer)
            self.wake()
        except RedisError as error:
            _log.warning("The queue's server was gone when this worker left; its tasks go to others later: %s", error)
        self._renewal.close()
        for redis in (self._redis, self._taking, self._renewing):
            redis.close()

    def _index(self) -> None:
        """Make the indexes of jobs that an earlier version has stored. What changes meanwhile indexes itself."""
        if self._redis.get(f"{PREFIX}indexes") == _INDEXES:
            return
        cursor = 0
        while True:
            cursor, found = self._redis.zscan(f"{PREFIX}jobs", cursor, count=500)
            self._run("index", *(id for id, _ in found))
            if not cursor:
                break
        self._redis.set(f"{PREFIX}indexes", _INDEXES)

    def _try_take(self, begin: bool) -> Lease | tuple[str, float]:
        """A lease, or the last entry of the bell and the time (Unix) at which a delayed task is due."""
        reclaim = "1" if time.monotonic() >= self._reclaim_after else "0"
        milliseconds = int(self._settings.lease * 1000)
        answer = self._take_scripts.run(
            "take",
            self._clock(),
            self._consumer,
            milliseconds,
            self._settings.deliveries,
            reclaim,
            "1" if begin else "0",
        )
        if len(answer) == 2:
            return answer[0], float(answer[1] or "inf")
        stream, message, job, task, run, attempt, deliveries, text = answer
        for lease in self._renewal.held():
            if (lease.stream, lease.message) == (stream, message):  # our own, and renewed by this
                lease.deliveries = int(deliveries)
                return self._try_take(begin)
        lease = Lease(Task.parse(job, task, text), int(attempt), int(deliveries), stream, message, run)
        self._renewal.hold(lease)
        return lease

    def _run(self, name: str, *arguments: str | float) -> Any:
        return self._scripts.run(name, self._clock(), *arguments)

    def _run_leased(self, name: str, lease: Lease, *arguments: str | float) -> Any:
        """A script that does nothing unless the lease is ours."""
        if lease.over:
            return 0
        task, deliveries = lease.task, lease.deliveries
        position = (lease.stream, lease.message, self._consumer, task.job, task.id, lease.run, deliveries)
        return self._run(name, *position, *arguments)

    def _end(self, name: str, lease: Lease, *arguments: str | float) -> Any:
        """The same, and the last of the lease; when the server is gone the lease runs out, but may be ended again."""
        try:
            answer = self._run_leased(name, lease, *arguments)
            lease.over = True
            return answer
        finally:
            self._renewal.release(lease)


def _rows(tasks: Sequence[Task]) -> list[tuple[str, str, float]]:
    return [(task.id, task.text, task.covers) for task in tasks]


def _full(most: int) -> Overloaded:
    return Overloaded(f"{most} jobs are open, which is the most: try again when some have ended.", retry_after=60.0)
