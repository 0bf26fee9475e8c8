"""How fast is a long file transcribed, beside faster-whisper on the same model and threads, and where does time go?

One file (load/long_file.py), one run: faster-whisper's sequential transcribe, its BatchedInferencePipeline with voice
activity, both greedy, and the batch lane with inspection and repair on, with each number of worker processes. Everybody
has --threads threads per process and its model loaded and warm; each starts from the file and ends with the text.

Bars: the lane is at least as fast as the faster of the two, at an equal or lower word error rate; with one worker,
what is not model time is at most 10 %. Exit status 1 when one is missed.

    python -m load.batch_speed
    python -m load.batch_speed --minutes 10 --workers 1
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from faster_whisper import BatchedInferencePipeline, WhisperModel

from batch_jobs.job import JobOptions, State
from batch_jobs.jobs import Jobs
from batch_jobs.settings import BatchSettings
from load import report
from load.batch_scoring import errors
from load.long_file import Said, build
from load.service import machine
from speech.models import resolve

_READY = 120.0
"""Seconds in which a worker has to be ready."""
_GAP = 0.10


@dataclass(slots=True)
class Result:
    """One way of transcribing the file. `parts` are seconds of work by stage, `model` those of model time."""

    name: str
    seconds: float
    texts: list[str]
    parts: dict[str, float] = field(default_factory=dict)


def peers(model: str, path: Path, threads: int, batch: int) -> Iterator[Result]:
    """faster-whisper, both ways."""
    whisper = WhisperModel(str(resolve(model).directory), device="cpu", compute_type="int8", cpu_threads=threads)
    ways: dict[str, Callable[[], list[str]]] = {
        "faster-whisper, sequential": lambda: [
            s.text for s in whisper.transcribe(str(path), language="en", beam_size=1)[0]
        ],
        f"faster-whisper, batched ({batch})": lambda: [
            s.text
            for s in BatchedInferencePipeline(whisper).transcribe(
                str(path), language="en", beam_size=1, batch_size=batch
            )[0]
        ],
    }
    for name, way in ways.items():
        began = time.monotonic()
        texts = way()
        yield Result(name, time.monotonic() - began, texts)


@contextmanager
def workers(directory: Path, model: str, count: int, threads: int, concurrency: int) -> Iterator[None]:
    """Worker processes that are ready, ended at the end."""
    command = [sys.executable, "-m", "gateway.cli", "worker", "--model", model, "--threads", str(threads),
               "--concurrency", str(concurrency), "--batch-dir", str(directory)]  # fmt: skip
    logs = [directory / f"worker-{n}.log" for n in range(count)]
    running = []
    try:
        for log in logs:
            with log.open("wb") as file:
                running.append(subprocess.Popen(command, stdout=file, stderr=file))
        deadline = time.monotonic() + _READY
        while not all("Ready" in log.read_text() for log in logs):
            if time.monotonic() > deadline or any(process.poll() is not None for process in running):
                raise SystemExit("a worker did not get ready:\n" + "\n".join(log.read_text() for log in logs))
            time.sleep(0.1)
        yield
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(30)


def lane(path: Path, model: str, count: int, threads: int, concurrency: int) -> Result:
    """The batch lane with `count` worker processes."""
    with tempfile.TemporaryDirectory(prefix="speechlane-") as name:
        jobs = Jobs.open(BatchSettings(directory=Path(name)))
        try:
            with workers(Path(name), model, count, threads, concurrency):
                began = time.monotonic()
                job = jobs.submit(iter([path.read_bytes()]), path.name, JobOptions(model=model, language="en"))
                while not (job := jobs.get(job.id)).state.ended:
                    time.sleep(0.1)
                seconds = time.monotonic() - began
            if job.state is not State.DONE:
                raise SystemExit(f"the job is {job.state}: {job.error} {job.warnings}")
            texts = [segment.text for segment in jobs.transcript(job.id).segments]
            return Result(f"batch lane, {count} worker{'s' * (count > 1)}", seconds, texts, dict(job.timings))
        finally:
            jobs.close()


def rows(results: list[Result], said: list[Said], length: float) -> Iterator[tuple[str, ...]]:
    references = [one.text for one in said]
    for result in results:
        error = errors(references, result.texts)
        yield result.name, f"{result.seconds:.1f} s", f"{length / result.seconds:.1f} ×", f"{error.rate:.2f} %"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="length of the file (default %(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="order of its recordings (default %(default)s)")
    parser.add_argument("--model", default="tiny.en", help="a bundled model (default %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each process (default %(default)s)")
    parser.add_argument("--workers", default="1,2", help="numbers of worker processes (default %(default)s)")
    parser.add_argument("--concurrency", type=int, default=24, help="chunks at once per worker (default %(default)s)")
    parser.add_argument("--batch", type=int, default=8, help="faster-whisper's batch (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    out, note = report.console(), machine()
    path, said = build(options.minutes, options.seed)
    length = said[-1].end
    results: list[Result] = []
    with out.status("faster-whisper"):
        results += peers(options.model, path, options.threads, options.batch)
    for count in [int(n) for n in options.workers.split(",")]:
        with out.status(f"the lane, {count} workers"):
            results.append(lane(path, options.model, count, options.threads, options.concurrency))
    out.print(note, highlight=False, style="dim")
    table = list(rows(results, said, length))
    out.print(report.table(f"{length / 60:.0f} minutes, {options.model}", ("", "time", "× real time", "WER"), table))
    missed = []
    theirs = [one for one in results if not one.parts]
    best = min(one.seconds for one in theirs)
    references = [one.text for one in said]
    lowest = min(errors(references, one.texts).rate for one in theirs)
    for one in results:
        if not one.parts:
            continue
        work = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sorted(one.parts.items()))
        out.print(f"{one.name}: {best / one.seconds:.2f} × the faster of the others; seconds of work: {work}")
        if one.seconds > best:
            missed.append(f"{one.name} is slower than faster-whisper")
        if errors(references, one.texts).rate > lowest:
            missed.append(f"{one.name} has a higher word error rate than faster-whisper")
    single = next((one for one in results if one.name.endswith("1 worker")), None)
    if single is not None:
        idle = 1 - (single.parts["asr"] + single.parts.get("repair", 0.0)) / single.seconds
        out.print(f"not model time, 1 worker: {100 * idle:.1f} %")
        if idle > _GAP:
            missed.append(f"{100 * idle:.1f} % of the time is not model time")
    if options.json:
        figures = {one.name: {"seconds": one.seconds, "parts": one.parts} for one in results}
        options.json.write_text(json.dumps({"machine": note, "length": length, "results": figures}, indent=2))
    for line in missed:
        out.print(f"[red]missed:[/red] {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
