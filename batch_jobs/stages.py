"""What is done in each kind of task: split, hear a chunk, stitch and inspect, repair a span, write."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from batch_jobs import account as accounts
from batch_jobs import wire
from batch_jobs.hear import Ear, audio, hear, heard_before, result_name
from batch_jobs.inspect.inspection import inspect
from batch_jobs.job import Job, JobOptions, State
from batch_jobs.queue.queue import Queue
from batch_jobs.queue.task import MAX_PAYLOAD, Kind, Lease, Task
from batch_jobs.repair.plan import RepairTask, apply, plan
from batch_jobs.repair.repairing import repair
from batch_jobs.settings import BatchSettings
from batch_jobs.split import Progress, SplitReport, split
from batch_jobs.spool import BlobMissing, Spool
from batch_jobs.steps import SPLIT, WRITE, dead_reason, transcript_name
from batch_jobs.stitch import dead, stitch
from batch_jobs.transcript import Chunk, ChunkResult, Hole, Repair, Segment, Suspicion, Transcript
from speech.asr import SAMPLE_RATE, DecodeOptions, Samples
from speech.engine import Engine
from speech.languages import check_language
from workers.clock import monotonic

_AT_ONCE = 16
"""Chunks that are queued in one go."""
_TOLD = 1.0
"""Seconds between two reports of a split's progress."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Draft:
    """A stitched transcript before its repairs."""

    segments: tuple[Segment, ...]
    suspicions: tuple[Suspicion, ...]
    holes: tuple[Hole, ...]
    language: str


class Stages:
    """The work behind every kind of task. Each method ends with the commit of its lease."""

    def __init__(self, queue: Queue, spool: Spool, engine: Engine, settings: BatchSettings) -> None:
        self._queue, self._spool, self._engine, self._settings = queue, spool, engine, settings
        self._loading = asyncio.Lock()

    async def run(self, lease: Lease, job: Job) -> None:
        """Raises ServingError, OSError, RedisError and whatever a bug raises."""
        stage = {
            Kind.SPLIT: self._split,
            Kind.CHUNK: self._chunk,
            Kind.STITCH: self._stitch,
            Kind.REPAIR: self._repair,
            Kind.WRITE: self._write,
        }[lease.task.kind]
        await stage(lease, job)

    async def _split(self, lease: Lease, job: Job) -> None:
        self._check(job.options)
        told, waiting, report, last = 0.0, list[Chunk](), None, None
        pieces = split(job.source, job.options, self._spool, self._engine.vad, monotonic, self._settings)
        async with aclosing(pieces):
            async for found in pieces:
                match found:
                    case Chunk():
                        waiting.append(found)
                    case Progress() as now:
                        if monotonic() - told > _TOLD and not lease.lost:
                            told = monotonic()
                            await asyncio.to_thread(self._queue.update, job.id, **_progress(now))
                    case SplitReport():
                        report = found
                # The first chunks go at once: workers wait for them.
                if waiting and (report is not None or len(waiting) >= _AT_ONCE or isinstance(found, Progress)):
                    if not await self._fan_out(lease, waiting):
                        return
                    waiting = []
                last = found if isinstance(found, Progress) else last
        assert report is not None and last is not None
        fields = {**_progress(last), "split": True, "decoded": report.decoded}
        increments = {"timings.decode": last.work}
        text = await asyncio.to_thread(wire.dump, report)
        await asyncio.to_thread(self._queue.commit, lease, text, fields=fields, increments=increments)

    def _check(self, options: JobOptions) -> None:
        """Refuse at once what each chunk would fail of. Raises InputInvalid."""
        name = self._engine.resolve(options.model)
        if options.repair_model is not None:
            self._engine.resolve(options.repair_model)
        check_language(self._engine.models(), name, options.language)

    async def _fan_out(self, lease: Lease, chunks: Sequence[Chunk]) -> bool:
        """False when the lease was lost."""
        tasks = [
            Task(lease.task.job, chunk.id, Kind.CHUNK, wire.dump(chunk), covers=chunk.length / SAMPLE_RATE)
            for chunk in chunks
        ]
        return await asyncio.to_thread(self._queue.fan_out, lease, tasks, chunks=len(tasks))

    async def _chunk(self, lease: Lease, job: Job) -> None:
        chunk = wire.load(Chunk, lease.task.payload)
        options, model = _decode_options(job.options), self._engine.resolve(job.options.model)
        ear, precision = await self._ear(job, model)
        name = result_name(chunk, options, model, precision)
        result = await asyncio.to_thread(heard_before, self._spool, name)
        if result is None:
            result = await hear(chunk, self._spool, options, ear)
        # An old one as well: so it is young enough for no cleaning to take it before the job counts it as its own.
        await asyncio.to_thread(self._spool.save, name, wire.dump(result).encode())
        increments = {"chunks_done": 1, "covered": chunk.length / SAMPLE_RATE, "timings.asr": ear.seconds}
        await asyncio.to_thread(self._queue.commit, lease, name, increments=increments)

    async def _ear(self, job: Job, model: str) -> tuple[Ear, str]:
        """A model in the precision that the job has everywhere; that, with the kind of device. Raises InputInvalid."""
        engine, name = self._engine, self._engine.resolve(model)
        precision = job.precisions.get(f"{name} {engine.kind}")
        if precision is None:
            own = engine.precision(name)
            precision = await asyncio.to_thread(self._queue.agree, job.id, name, engine.kind, own)
        async with self._loading:  # one thread waits for it, not all there are
            asr = await asyncio.to_thread(engine.asr, name, precision)
        return Ear(asr, monotonic), f"{engine.kind} {precision}"

    async def _stitch(self, lease: Lease, job: Job) -> None:
        await asyncio.to_thread(self._stitch_now, lease, job)

    def _stitch_now(self, lease: Lease, job: Job) -> None:
        began = time.perf_counter()
        tasks, results = self._queue.tasks(job.id), self._queue.results(job.id)
        report = wire.load(SplitReport, results[SPLIT])
        chunks = [wire.load(Chunk, task.payload) for task in tasks.values() if task.kind is Kind.CHUNK]
        heard: dict[str, ChunkResult] = {}
        lost: dict[str, str] = {}
        for chunk in chunks:
            reason = dead_reason(results[chunk.id])
            found = None if reason else heard_before(self._spool, results[chunk.id])
            if found is None:
                lost[chunk.id] = reason or "its result was deleted from the spool; transcribe the file again"
            else:
                heard[chunk.id] = found
        segments = stitch(chunks, heard)
        holes = dead(chunks, lost)
        voice = _voice(report, holes)
        suspicions = tuple(inspect(segments, voice, self._evidence(report)))
        draft = Draft(segments, suspicions, holes, _language(heard.values(), job.options))
        wanted = plan(suspicions, segments, voice, report.decoded) if job.options.repair else []
        repairs = [self._repair_task(job.id, f"r{n:05d}", one) for n, one in enumerate(wanted)]
        self._spool.save(_draft_name(job.id), wire.dump(draft).encode())
        self._queue.commit(
            lease,
            "",
            tasks=repairs,
            then=Task(job.id, WRITE, Kind.WRITE),
            fields={"state": State.REPAIRING if repairs else State.WRITING, "repairs": len(repairs)},
            increments={"timings.stitch": time.perf_counter() - began},
        )

    def _repair_task(self, job: str, id: str, wanted: RepairTask) -> Task:
        """What stands in a span may be long; then it goes by reference."""
        payload = wire.dump(wanted)
        if len(payload.encode()) > MAX_PAYLOAD:
            self._spool.save(f"jobs/{job}/{id}", payload.encode())
            payload = ""
        return Task(job, id, Kind.REPAIR, payload)

    def _repair_input(self, task: Task) -> tuple[RepairTask, Samples]:
        payload: str | bytes | None = task.payload or self._spool.load(f"jobs/{task.job}/{task.id}")
        report = self._queue.result(task.job, SPLIT)
        if payload is None or report is None:
            raise OSError("what was to be repaired was deleted")
        wanted = wire.load(RepairTask, payload)
        return wanted, self._samples(wire.load(SplitReport, report), wanted.channel, wanted.start, wanted.end)

    async def _repair(self, lease: Lease, job: Job) -> None:
        wanted, samples = await asyncio.to_thread(self._repair_input, lease.task)
        ear, _ = await self._ear(job, job.options.model)
        other = (await self._ear(job, job.options.repair_model))[0] if job.options.repair_model else None
        found = await repair(
            wanted, samples, ear.decode, _decode_options(job.options), other.decode if other is not None else None
        )
        seconds = ear.seconds + (other.seconds if other is not None else 0.0)
        increments = {"repairs_done": 1, "timings.repair": seconds}
        await asyncio.to_thread(self._queue.commit, lease, wire.dump(found), increments=increments)

    async def _write(self, lease: Lease, job: Job) -> None:
        await asyncio.to_thread(self._write_now, lease, job)

    def _write_now(self, lease: Lease, job: Job) -> None:
        began = time.perf_counter()
        results = self._queue.results(job.id)
        report = wire.load(SplitReport, results[SPLIT])
        data = self._spool.load(_draft_name(job.id))
        if data is None:
            raise OSError("the stitched transcript is gone from the spool; retry the job")
        draft = wire.load(Draft, data)
        repairs = tuple(
            wire.load(Repair, results[id])
            for id, task in sorted(self._queue.tasks(job.id).items())
            if task.kind is Kind.REPAIR and id in results and not dead_reason(results[id])
        )
        kept = [one for one in repairs if one.kept]
        segments, suspicions = draft.segments, draft.suspicions
        if kept:
            segments = apply(segments, [(one.start, one.end, one.channel, one.after) for one in kept])
            suspicions = tuple(inspect(segments, _voice(report, draft.holes), self._evidence(report)))
        told = accounts.account(report, segments, draft.holes)
        transcript = Transcript(
            segments=segments,
            account=told,
            language=draft.language,
            repairs=repairs,
            suspicions=suspicions,
            warnings=accounts.warnings(report, told),
            settings=_settings(job.options) | {"precisions": job.precisions},
        )
        self._spool.save(transcript_name(job.id), wire.dump(transcript).encode())
        broken = bool(draft.holes or report.holes)
        self._queue.commit(
            lease,
            "",
            fields={
                "state": State.PARTIAL if broken else State.DONE,
                "warnings": transcript.warnings,
                "repairs": len(repairs),
            },
            increments={"timings.write": time.perf_counter() - began},
        )

    def _samples(self, report: SplitReport, channel: int, start: float, end: float) -> Samples:
        """Raises BlobMissing."""
        return audio(self._spool, report.audio(channel, round(start * SAMPLE_RATE), round(end * SAMPLE_RATE)))

    def _evidence(self, report: SplitReport) -> Callable[[int, float, float], Samples]:
        """Audio for an inspection, which does without where there is none: the words were heard before it was lost."""

        def samples(channel: int, start: float, end: float) -> Samples:
            try:
                return self._samples(report, channel, start, end)
            except BlobMissing as error:
                _log.warning("inspected without its sound: %s", error)
                return np.zeros(0, np.float32)

        return samples


def _progress(now: Progress) -> dict[str, Any]:
    return {
        "decoded": now.decoded,
        "expected": now.expected,
        "speech": now.speech,
        "silent": now.silent,
        "channels": now.channels,
    }


def _decode_options(options: JobOptions) -> DecodeOptions:
    return DecodeOptions(language=options.language, prompt=options.prompt, keywords=options.keywords)


def _voice(report: SplitReport, holes: Sequence[Hole]) -> dict[int, list[tuple[float, float]]]:
    """Where words are to be expected. Not in a hole: what killed its chunk would kill a repair as well."""
    return {
        channel: accounts.without(
            [(start / SAMPLE_RATE, end / SAMPLE_RATE) for start, end in spans],
            [(hole.start, hole.end) for hole in holes if hole.channel == channel],
        )
        for channel, spans in enumerate(report.speech)
    }


def _language(heard: Any, options: JobOptions) -> str:
    """The one asked for, else the one that most seconds of speech were heard in, by the model's own certainty."""
    if options.language is not None:
        return options.language
    votes: dict[str, float] = {}
    for result in heard:
        seconds = sum(segment.end - segment.start for segment in result.segments)
        votes[result.language] = votes.get(result.language, 0.0) + seconds * result.language_probability
    return max(sorted(votes), key=lambda language: votes[language]) if votes else ""


def _settings(options: JobOptions) -> dict[str, object]:
    """What the transcript depends on."""
    asked: dict[str, object] = json.loads(json.dumps(asdict(options)))
    return {name: value for name, value in asked.items() if name not in ("webhook", "priority", "subtitles")}


def _draft_name(job: str) -> str:
    return f"jobs/{job}/draft"
