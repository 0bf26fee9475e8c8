"""Clients of the batch lane: each hands in a recording, watches the job to its end, and reads the transcript."""

from __future__ import annotations

import asyncio
import io
import json
import random
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import numpy as np
import soundfile

from load import corpora
from load.corpora import Clip
from load.embedding_wire import connections
from load.harness.arrivals import Arrivals, come
from load.harness.judging import compare
from load.harness.trial import Begun, Objective, Outcome, Unit, unseen
from load.harness.watch import watching
from load.script import Script, conversation
from load.service import Running

TURNAROUND, TAKEN, PER_SECOND = "turnaround", "handed in", "turnaround of a second of audio"
ENDS = ("done", "partial", "failed", "cancelled")
RATE = 16_000
BUSY = (429, 503, 507)
EXACT = 0.1
"""Seconds by which the length that the service found may differ from that of the recording."""
USUAL, COMING = Objective(TURNAROUND, 60.0), Arrivals()


class Refused(Exception):
    """The service takes no job now."""


@dataclass(slots=True)
class JobsTrial:
    """A client hands in recordings of about `length` seconds, each of them different from all before.

    A unit is a job; it is late when its end comes more than the objective after it was due to be handed in. In a closed
    loop a client hands in the next when the one before has ended, as long as the run lasts. `patience`: seconds in
    which a job must end.
    """

    objective: Objective = USUAL
    arrivals: Arrivals = COMING
    recordings: Sequence[Clip] = ()
    length: float = 60.0
    patience: float = 600.0
    most_errors: float | None = None
    begun: Begun = field(default=unseen)

    kind = "jobs"
    own = TURNAROUND

    async def run(self, running: Running, clients: int, seconds: float, seed: int) -> Outcome:
        """As `Trial.run` says."""
        moments = self.arrivals.moments(clients, seconds, self.objective.seconds, seed)
        out, said = Outcome(len(moments)), self.recordings or corpora.recordings(None)
        self.begun(out)
        async with connections(running.key) as http, watching(running, seconds) as out.watched:
            begun = time.monotonic()

            async def client(number: int, due: float) -> None:
                pairs: list[tuple[str, str]] = []
                turn = 0
                while True:
                    script = await asyncio.to_thread(self._script, said, f"{seed} {number} {turn}")
                    due = due if turn == 0 else time.monotonic()
                    try:
                        async with asyncio.timeout(self.patience):
                            pairs += await self._one(out, Work(running.url, http, number, script, due, begun))
                    except Refused:
                        out.refused += 1
                        return
                    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
                        out.wrong(f"client {number}: {error!r}")
                        out.end(Unit(number, due - begun, None, True))
                        return
                    turn += 1
                    if self.arrivals.open or time.monotonic() >= begun + seconds:
                        break
                out.admitted += 1
                compare(out, number, pairs, self.most_errors)

            await come(moments, client)
        out.limits += out.watched.limits()
        return out

    def _script(self, said: Sequence[Clip], seed: str) -> Script:
        return conversation(said, self.length, random.Random(seed).randrange(2**31), rate=RATE)

    async def _one(self, out: Outcome, work: Work) -> list[tuple[str, str]]:
        """One job, checked and removed again; what was said and what was understood."""
        job = await work.submit(await asyncio.to_thread(_sound, work.script))
        out.took(TAKEN, time.monotonic() - work.due)
        try:
            ends = [found async for found in work.states(job) if found["state"] in ENDS]
            ended = time.monotonic()
            if len(ends) != 1 or ends[0]["state"] != "done":
                out.wrong(f"client {work.client}: the job ended as {[one['state'] for one in ends] or 'nothing'}")
                out.end(Unit(work.client, work.due - work.begun, None, True, job))
                return []
            took = ended - work.due
            out.took(TURNAROUND, took)
            out.took(PER_SECOND, took / work.script.seconds)
            out.count("seconds of audio", round(work.script.seconds))
            late = took > self.objective.seconds
            out.end(Unit(work.client, work.due - work.begun, ended - work.begun, late, f"{work.script.seconds:.0f} s"))
            for problem in _lost(ends[0], work.script):
                out.wrong(f"client {work.client}: {problem}")
            text = await work.text(job)
        finally:
            await work.remove(job)
        return [(" ".join(line.clip.text for line in work.script.lines), text)]


@dataclass(slots=True)
class Work:
    """One recording that a client hands in; `due` and `begun` on the monotonic clock."""

    url: str
    http: aiohttp.ClientSession
    client: int
    script: Script
    due: float
    begun: float

    async def submit(self, sound: bytes) -> str:
        """The id of the new job. Raises `Refused`, ClientError."""
        form = aiohttp.FormData(default_to_multipart=True)
        form.add_field("language", "en")
        form.add_field("file", sound, filename=f"client-{self.client}.wav")
        async with self.http.post(f"{self.url}/v1/batch/jobs", data=form) as answer:
            if answer.status in BUSY:
                raise Refused
            answer.raise_for_status()
            job: str = (await answer.json())["id"]
            return job

    async def states(self, job: str) -> AsyncIterator[dict[str, Any]]:
        """The job at each of its changes, until the service ends the stream."""
        async with self.http.get(f"{self.url}/v1/batch/jobs/{job}/events") as answer:
            answer.raise_for_status()
            async for line in answer.content:
                if line.startswith(b"data: "):
                    yield json.loads(line[len(b"data: ") :])

    async def text(self, job: str) -> str:
        """The transcript."""
        async with self.http.get(f"{self.url}/v1/batch/jobs/{job}/results/txt") as answer:
            answer.raise_for_status()
            return await answer.text()

    async def remove(self, job: str) -> None:
        """What was handed in to measure is not left behind."""
        async with self.http.delete(f"{self.url}/v1/batch/jobs/{job}"):
            pass


def _lost(job: dict[str, Any], script: Script) -> list[str]:
    """Which part of the recording the job does not account for."""
    found = []
    if abs(job["decoded"] - script.seconds) > EXACT:
        found.append(f"{job['decoded']:.2f} s were decoded of {script.seconds:.2f}")
    settled = job["silent"] + job["covered"]
    if abs(settled - job["decoded"]) > EXACT:
        found.append(f"{settled:.2f} s are accounted for of {job['decoded']:.2f}")
    if job["chunks_failed"] or job["chunks_done"] != job["chunks"]:
        found.append(f"{job['chunks_done']} pieces of {job['chunks']} were done, {job['chunks_failed']} failed")
    return found


def _sound(script: Script) -> bytes:
    """As a WAV that nobody has ever handed in: the service knows what it has transcribed before, and keeps it. One
    sample in 0.1 s is one step louder or softer than it was, by chance.
    """
    samples = script.samples.copy()
    samples[:: RATE // 10] ^= np.random.default_rng().integers(0, 2, len(samples[:: RATE // 10]), dtype=np.int16)
    out = io.BytesIO()
    soundfile.write(out, samples, script.rate, format="WAV", subtype="PCM_16")
    return out.getvalue()
