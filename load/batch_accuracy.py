"""Is a long file transcribed as well as its utterances one by one, and are its times right to the end?

Builds a file of --minutes (load/long_file.py: the repository's recordings and Debian's English prompts, fetched once,
with pauses of 0.3 to 3 s), puts it through the batch lane (its own queue and spool in a temporary directory, inspection
and repair on), and has the same engine transcribe every utterance of it by itself. Word errors after Whisper's English
normaliser; times against the level of the recordings, drift by what is said in both halves of the file.

Bars: the file's word error rate at most 0.3 points over the utterances'; word times drift by at most 50 ms from the
first half to the second; segments in order, apart and in the file; the account names every hole. Exit status 1 when
one is missed.

    python -m load.batch_accuracy
    python -m load.batch_accuracy --minutes 10 --json accuracy.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import soundfile

from batch_jobs.job import JobOptions
from batch_jobs.jobs import Jobs
from batch_jobs.queue.task import Kind
from batch_jobs.settings import BatchSettings
from batch_jobs.transcript import Chunk, Transcript
from batch_jobs.wire import load
from batch_jobs.worker import Worker
from load import report
from load.batch_scoring import Errors, Regions, Timed, by_utterance, drift, edges, errors, repeated, text
from load.long_file import RATE, Said, build
from load.service import machine
from speech.asr import DecodeOptions, Samples
from speech.engine import Engine, EngineSettings

_AROUND = 0.15
"""Seconds of pause that an utterance brings along on either side when it is transcribed by itself."""
_AT_CUT = 2.0
_TOGETHER = 4
_DRIFT = 0.05


async def through_the_lane(
    engine: Engine, path: Path, directory: Path, options: JobOptions, concurrency: int
) -> tuple[Transcript, list[Chunk], float]:
    """The file's transcript, its chunks, and the seconds it took."""
    jobs = await asyncio.to_thread(Jobs.open, BatchSettings(directory=directory))
    stop, began = asyncio.Event(), time.monotonic()
    work = asyncio.create_task(Worker(jobs, engine, concurrency).run(stop))
    try:
        job = await asyncio.to_thread(jobs.submit, _bytes(path), path.name, options)
        while not job.state.ended:
            if work.done():
                await work
            await asyncio.sleep(0.2)
            job = await asyncio.to_thread(jobs.get, job.id)
        took = time.monotonic() - began
        if job.error:
            raise SystemExit(f"the job {job.state}: {job.error}")
        tasks = jobs.queue.tasks(job.id).values()
        chunks = [load(Chunk, task.payload) for task in tasks if task.kind is Kind.CHUNK]
        return jobs.transcript(job.id), chunks, took
    finally:
        stop.set()
        await work
        await asyncio.to_thread(jobs.close)


async def one_by_one(engine: Engine, path: Path, said: Sequence[Said], model: str) -> list[str]:
    """The text of each utterance of the file, transcribed by itself; the same audio once."""
    known: dict[bytes, asyncio.Task[str]] = {}
    room = asyncio.Semaphore(_TOGETHER)

    async def transcribe(samples: Samples) -> str:
        async with room:
            return "".join([f" {one.text}" async for one in engine.transcribe(samples, DecodeOptions(), model)]).strip()

    keys = []
    with soundfile.SoundFile(path) as file:
        for one in said:
            first = max(round((one.start - _AROUND) * RATE), 0)
            file.seek(first)
            samples = file.read(round((one.end + _AROUND) * RATE) - first, dtype="float32")
            keys.append(samples.tobytes())
            if keys[-1] not in known:
                known[keys[-1]] = asyncio.create_task(transcribe(samples))
    await asyncio.gather(*known.values())
    return [known[key].result() for key in keys]


def words_of(transcript: Transcript) -> list[Timed]:
    return [(word.text, word.start, word.end) for segment in transcript.segments for word in segment.words]


def broken(transcript: Transcript) -> list[str]:
    """What does not hold of the transcript's order."""
    missed, end = [], transcript.account.decoded
    words = words_of(transcript)
    for name, spans in (("segment", [(s.start, s.end) for s in transcript.segments]), ("word", [w[1:] for w in words])):
        back = sum(before[1] > after[0] for before, after in pairwise(spans))
        outside = sum(not 0 <= first <= last <= end for first, last in spans)
        missed += [f"{back} {name}s begin before the one before them ends"] if back else []
        missed += [f"{outside} {name}s are not in the file"] if outside else []
    if end and transcript.account.container and abs(end - transcript.account.container) > 0.1:
        missed.append(f"{end:.1f} s decoded of {transcript.account.container:.1f} s")
    return missed


def rows(
    lane: Errors, alone: Errors, regions: Regions, alone_regions: Regions, late: Sequence[float], drifted: float
) -> Iterator[tuple[str, str, str, str]]:
    yield "word error rate", f"{lane.rate:.2f} %", f"{alone.rate:.2f} %", f"{lane.rate - alone.rate:+.2f} points"
    yield "inserted words", f"{lane.inserted:.2f} %", f"{alone.inserted:.2f} %", ""
    yield "missing words", f"{lane.deleted:.2f} %", f"{alone.deleted:.2f} %", ""
    for at_cut, name in ((True, f"within {_AT_CUT:g} s of a cut"), (False, "elsewhere")):
        mine, theirs = regions.rate(at_cut), alone_regions.rate(at_cut)
        yield f"word error rate {name} ({regions.words[at_cut]} words)", f"{mine:.2f} %", f"{theirs:.2f} %", ""
    off = np.abs(np.array(late)) if late else np.zeros(1)
    yield "edges of utterances, median off by", f"{1000 * float(np.median(off)):.0f} ms", "", f"{len(late)} edges"
    yield "95 % within", f"{1000 * float(np.quantile(off, 0.95)):.0f} ms", "", ""
    yield "later in the second half than in the first", f"{1000 * drifted:+.0f} ms", "", ""


def _bytes(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            yield piece


async def measure(
    options: argparse.Namespace, path: Path, said: Sequence[Said]
) -> tuple[Transcript, list[Chunk], float, list[str]]:
    engine = await Engine.start(EngineSettings(models=(options.model,), device=options.device, threads=options.threads))
    try:
        with tempfile.TemporaryDirectory(prefix="speechlane-") as directory:
            lane = JobOptions(model=options.model, repair=not options.no_repair)
            found = await through_the_lane(engine, path, Path(directory), lane, options.concurrency)
        return *found, await one_by_one(engine, path, said, options.model)
    finally:
        await engine.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="length of the file (default %(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="order of its recordings (default %(default)s)")
    parser.add_argument("--model", default="tiny.en", help="an English model (default %(default)s)")
    parser.add_argument("--device", default="cpu", help="where it runs (default %(default)s)")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--concurrency", type=int, default=4, help="chunks at a time (default %(default)s)")
    parser.add_argument("--no-repair", action="store_true", help="without repair of suspicious spans")
    parser.add_argument("--points", type=float, default=0.3, help="bar of the difference (default %(default)g)")
    parser.add_argument("--json", type=Path, help="write texts and figures here")
    options = parser.parse_args()
    out, note = report.console(), machine()
    path, said = build(options.minutes, options.seed)
    with out.status(f"{path.name} through the lane, then {len(said)} utterances one by one"):
        transcript, chunks, took, alone = asyncio.run(measure(options, path, said))
    heard = by_utterance(words_of(transcript), said)
    references = [one.text for one in said]
    lane_errors = errors(references, [segment.text for segment in transcript.segments])
    alone_errors = errors(references, alone)
    cuts = sorted({edge / RATE for chunk in chunks for edge in (chunk.start, chunk.end)})
    regions, alone_regions = Regions(_AT_CUT, cuts), Regions(_AT_CUT, cuts)
    for one, words, single in zip(said, heard, alone, strict=True):
        regions.add(one, text(words))
        alone_regions.add(one, single)
    found = edges(said, heard)
    late, drifted = [edge.late for edge in found], drift(found)
    account = transcript.account
    out.print(note, highlight=False, style="dim")
    table = list(rows(lane_errors, alone_errors, regions, alone_regions, late, drifted))
    loops = repeated([segment.text for segment in transcript.segments]), repeated(alone)
    table.append(
        ("rows of five words said again at once", str(loops[0]), str(loops[1]), f"{repeated(references)} true")
    )
    title = f"{account.decoded / 60:.1f} min, {len(said)} utterances, {len(chunks)} chunks, {took:.0f} s"
    out.print(report.table(title, ("what", "the file", "one by one", ""), table))
    out.print(
        f"speech {account.speech:.0f} s, of it under words {account.words:.0f} s; {len(account.missing)} holes;"
        f" {len(transcript.repairs)} repairs, {sum(one.kept for one in transcript.repairs)} kept;"
        f" {len(transcript.suspicions)} suspicions left",
        highlight=False,
    )
    if options.json:
        told = {
            "machine": note, "seconds": took, "lane": lane_errors.rate, "one_by_one": alone_errors.rate,
            "cuts": cuts, "warnings": transcript.warnings,
            "utterances": [
                {"start": one.start, "end": one.end, "said": one.text, "lane": text(words), "alone": single}
                for one, words, single in zip(said, heard, alone, strict=True)
            ],
        }  # fmt: skip
        options.json.write_text(json.dumps(told, indent=1, ensure_ascii=False))
    missed = broken(transcript)
    if lane_errors.rate - alone_errors.rate > options.points:
        missed.append(f"the file is {lane_errors.rate - alone_errors.rate:.2f} points behind its utterances")
    if abs(drifted) > _DRIFT:
        missed.append(f"times drift by {1000 * drifted:.0f} ms")
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
