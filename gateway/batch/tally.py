"""What the jobs come to, for whoever measures the service: how many are in which state, how much audio was done."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from batch_jobs.job import Job, State
from gateway.batch.hub import Gone, Hub
from gateway.metrics import Metrics

OPEN = tuple(state for state in State if not state.ended)


@dataclass(slots=True)
class _Seen:
    state: State
    covered: float


class Tally:
    """Counts what it is told of jobs. Jobs of all services on the queue count, not only those that came in here."""

    def __init__(self, hub: Hub, metrics: Metrics, started: float) -> None:
        """`started` is Unix time: what was done of a job before that was not done under these eyes."""
        self._hub, self._metrics, self._started = hub, metrics, started
        self._open: dict[str, _Seen] = {}

    async def run(self) -> None:
        """Until cancelled."""
        with self._hub.surveying() as watcher:
            while True:
                for id, job in (await watcher.news()).items():
                    if isinstance(job, Gone):
                        self._open.pop(id, None)
                    else:
                        self._count(job)
                states = Counter(seen.state for seen in self._open.values())
                for state in OPEN:
                    self._metrics.jobs(state, states[state])

    def _count(self, job: Job) -> None:
        seen = self._open.pop(job.id, None)
        if job.state.ended:
            # An old job that is looked through again has been counted when it ended.
            if seen is not None:
                if self._metrics.traces is not None:
                    self._metrics.traces.job_ended(job)
                self._metrics.job_ended(job.state)
                self._metrics.job_audio(max(0.0, job.settled - seen.covered))
                if job.started is not None and job.ended is not None:
                    wait, work = job.started - job.created, job.ended - job.started
                    self._metrics.job_spent(max(0.0, wait), max(0.0, work), job.timings)
            return
        if seen is None:
            seen = _Seen(job.state, 0.0 if job.created >= self._started else job.settled)
        self._metrics.job_audio(max(0.0, job.settled - seen.covered))
        self._open[job.id] = _Seen(job.state, job.settled)
