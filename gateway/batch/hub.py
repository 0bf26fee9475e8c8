"""News of jobs for everybody who watches: one subscription to the queue and one reading of a job for all of them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from batch_jobs.job import Job
from gateway.batch.errors import BatchUnavailable
from gateway.batch.places import Places, share
from workers.errors import Overloaded, ServingError

if TYPE_CHECKING:
    from gateway.batch.lane import Lane

log = logging.getLogger("speechlane.batch")

PERIOD = 0.2
"""Seconds between two readings of a job that changes all the time."""
AT_ONCE = 4
"""Jobs read at the same time, so that requests find a free thread beside them."""
POLL = 1.0
RECONNECT = 2.0
SURVEY_SECONDS = 300.0
"""All jobs are looked through again after this long, for news may have been lost."""
SURVEY_JOBS = 10_000
"""Of these the newest."""
PAGE = 100
MAX_WATCHERS = 512
MAX_OWNERS = 20_000


@dataclass(frozen=True, slots=True)
class Gone:
    """A job that was deleted; `owner` is None when nobody here remembers whose it was."""

    owner: str | None


class Watcher:
    """What one watcher has not yet seen: the newest state of each job that changed, or that it is gone.

    Bounded by the number of jobs, since a newer state replaces an older one.
    """

    def __init__(self, job: str | None, survey: bool) -> None:
        self.job, self.survey = job, survey
        self._news: dict[str, Job | Gone] = {}
        self._some = asyncio.Event()

    def tell(self, job: str, now: Job | Gone) -> None:
        """The job is like this now."""
        if self.job is None or self.job == job:
            self._news[job] = now
            self._some.set()

    async def news(self) -> dict[str, Job | Gone]:
        """What changed since the last call; waits until something does."""
        await self._some.wait()
        self._some.clear()
        news, self._news = self._news, {}
        return news


class Hub:
    """Reads what the queue says has changed, at most five times a second for each job, and tells the watchers."""

    def __init__(self, lane: Lane, keys: int) -> None:
        """`keys` are those that the service has."""
        self._lane = lane
        self._places = Places(MAX_WATCHERS, share(MAX_WATCHERS, keys), "clients are watching jobs", 10.0)
        self._watchers: set[Watcher] = set()
        self._changed: set[str] = set()
        self._some = asyncio.Event()
        self._survey_now = asyncio.Event()
        self._owners: OrderedDict[str, str] = OrderedDict()

    @contextmanager
    def watching(self, owner: str, job: str | None = None) -> Iterator[Watcher]:
        """Watch one job, or all, for a client; raises `Overloaded` when too many watch, or too many of this owner.
        Read the job after this, and miss nothing."""
        with self._places.hold(owner), self._watch(Watcher(job, survey=False)) as watcher:
            yield watcher

    def surveying(self) -> AbstractContextManager[Watcher]:
        """Watch all jobs for the service itself: they are all told at first, and now and then, whether they changed or
        not. Takes no client's place."""
        return self._watch(Watcher(None, survey=True))

    @contextmanager
    def _watch(self, watcher: Watcher) -> Iterator[Watcher]:
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    def changed(self, job: str) -> None:
        """Something of the job is different now."""
        self._changed.add(job)
        self._some.set()

    def remember(self, jobs: Iterable[Job]) -> None:
        """Whose the jobs are that somebody was shown, for the day when they are deleted."""
        for job in jobs:
            self._owners[job.id] = job.owner
            self._owners.move_to_end(job.id)
        while len(self._owners) > MAX_OWNERS:
            self._owners.popitem(last=False)

    async def run(self) -> None:
        """Until cancelled."""
        stopped = threading.Event()
        loop = asyncio.get_running_loop()
        listener = threading.Thread(target=self._listen, args=(loop, stopped), name="batch-changes", daemon=True)
        listener.start()
        survey = asyncio.create_task(self._survey())
        try:
            while not survey.done():
                await self._some.wait()
                self._some.clear()
                changed, self._changed = self._changed, set()
                watched = [job for job in changed if self._watched(job)]
                for first in range(0, len(watched), AT_ONCE):
                    await asyncio.gather(*map(self._tell, watched[first : first + AT_ONCE]))
                await asyncio.sleep(PERIOD)
            survey.result()
        finally:
            stopped.set()
            survey.cancel()
            await asyncio.to_thread(listener.join, 2 * POLL)

    async def _survey(self) -> None:
        while True:
            self._survey_now.clear()
            try:
                await self._look_through()
            except ServingError as error:
                log.warning("jobs could not be looked through: %s", error.message)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._survey_now.wait(), SURVEY_SECONDS)

    async def _look_through(self) -> None:
        before: str | None = None
        for _ in range(SURVEY_JOBS // PAGE):
            page = await self._lane.call(self._lane.jobs.list, limit=PAGE, before=before)
            for job in page:
                for watcher in self._watchers:
                    if watcher.survey:
                        watcher.tell(job.id, job)
            if len(page) < PAGE:
                return
            before = page[-1].id
            await asyncio.sleep(PERIOD)  # so that those who are told come to read it

    def _watched(self, job: str) -> bool:
        return any(watcher.job in (None, job) for watcher in self._watchers)

    async def _tell(self, id: str) -> None:
        try:
            job = await self._lane.call(self._lane.jobs.queue.job, id)
        except (BatchUnavailable, Overloaded):
            await asyncio.sleep(RECONNECT)
            self.changed(id)  # it has changed all the same
            return
        except ServingError as error:
            log.warning("job %s cannot be read: %s", id, error)
            return
        if job is not None:
            self.remember([job])
        for watcher in list(self._watchers):
            watcher.tell(id, job if job is not None else Gone(self._owners.get(id)))

    def _listen(self, loop: asyncio.AbstractEventLoop, stopped: threading.Event) -> None:
        """In a thread of its own, because the subscription blocks."""
        jobs = self._lane.jobs
        while not stopped.is_set():
            try:
                with jobs.queue.changes(timeout=POLL) as changes:
                    # What happened while nobody listened: the jobs that somebody watches are read again.
                    _soon(loop, self._recheck)
                    while not stopped.is_set():
                        id = changes.get(POLL)
                        if id is not None:
                            _soon(loop, self.changed, id)
            except (RedisError, OSError) as error:
                log.warning("no news of jobs: %s", type(error).__name__)
                stopped.wait(RECONNECT)

    def _recheck(self) -> None:
        self._survey_now.set()
        for watcher in self._watchers:
            if watcher.job is not None:
                self.changed(watcher.job)


def _soon(loop: asyncio.AbstractEventLoop, work: object, *args: object) -> None:
    try:
        loop.call_soon_threadsafe(work, *args)  # type: ignore[arg-type]
    except RuntimeError:
        return  # the loop is closed: nobody is left to tell
