"""How much memory a very long recording takes: every process of the lane, looked at each second.

A file of --hours (load/long_file.py) is handed in by `speechlane jobs submit --watch`, worked on by one
`speechlane worker`, and read by `speechlane jobs show --format json`. With --split-only the worker has a stand-in for
the speech model, which hears words at once: everything else, from the decoder to the transcript, is the real thing, and
ten hours take minutes. What the model needs is the same for every chunk, so it shows in an hour.

Bars: no process is over 1.5 GiB at any time; while the file is cut and transcribed, no process has in the second half
over a twentieth more than in the first (and over 16 MiB, which is what the queue's server holds of a long job).

    python -m load.batch_memory --hours 1
    python -m load.batch_memory --hours 10 --split-only
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from batch_jobs.job import Job, State
from batch_jobs.jobs import Jobs
from batch_jobs.queue.server import connect
from batch_jobs.settings import BatchSettings
from batch_jobs.worker import Worker
from load import report
from load.long_file import build
from load.service import machine
from speech.asr import SAMPLE_RATE, FinalRequest, Transcript
from speech.engine import Engine, EngineSettings, ModelInfo, _return_large_blocks
from speech.events import Word
from speech.loading import Model
from speech.vad import SileroVad
from workers.backend import Limits, Spec
from workers.device import Device
from workers.onestep import OneStep
from workers.pool import Pool

MOST = 1.5 * (1 << 30)
GROWTH, SLACK = 0.05, 16 << 20
"""Part of the first half, and bytes, by which the second may be larger."""
_READY = 120.0
_MIB = 1 << 20
_WORD = 0.35
"""Seconds of a word of the stand-in."""


class StandIn(OneStep):
    """Hears words from the first sample to the last, other ones in every piece of sound, and takes no time for it."""

    spec = Spec(task="asr", model="tiny.en")
    limits = Limits(items=8)

    def run(self, payloads: Sequence[Any]) -> Sequence[Any]:
        return [_heard(payload) for payload in payloads]


def _heard(request: FinalRequest) -> Transcript:
    seconds = len(request.samples) / SAMPLE_RATE
    chance = random.Random(request.samples[:SAMPLE_RATE].tobytes())
    said = [
        " " + "".join(chance.choices("abcdeilmnorstu", k=chance.randint(2, 9))) for _ in range(int(seconds / _WORD))
    ]
    words = tuple(Word(text, n * _WORD, (n + 1) * _WORD, 0.9) for n, text in enumerate(said))
    return Transcript("".join(said).strip(), words, (), "en", 1.0, -0.3, 0.01, 1.5, 0.0, seconds)


class Ears(Engine):
    """An engine with the real voice activity and the stand-in."""

    def __init__(self) -> None:
        _return_large_blocks()
        hearing, standing_in = Device("vad", "cpu", step_budget=0.020), Device("cpu")
        hearing.add(SileroVad())
        standing_in.add(StandIn())
        super().__init__(EngineSettings(), [standing_in], hearing)
        for device in (hearing, standing_in):
            device.start()
        name = StandIn.spec.model
        info = ModelInfo(name, StandIn.spec.task, ("en",), ())
        self._models[name] = Model(info, Pool(name, [standing_in]), lambda interval, partials, language: 1.0)


async def _work(directory: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    jobs = await asyncio.to_thread(Jobs.open, BatchSettings(directory=directory))
    engine = await asyncio.to_thread(Ears)
    print("Ready", flush=True)
    await Worker(jobs, engine, 16).run(stop)
    jobs.close()
    os._exit(0)  # the engine has nothing to keep


@dataclass(slots=True)
class Process:
    """Resident bytes of a process: (seconds since the job began, its state then, bytes)."""

    name: str
    of: psutil.Process
    sizes: list[tuple[float, str, int]] = field(default_factory=list)

    def look(self, at: float, state: str) -> None:
        try:
            size = self.of.memory_info().rss
        except psutil.NoSuchProcess:
            return
        if size:
            self.sizes.append((at, state, size))

    @property
    def peak(self) -> int:
        return max((size for _, _, size in self.sizes), default=0)

    def halves(self) -> tuple[float, float] | None:
        """Medians of both halves of the time in which the file was cut and transcribed; None when that was short."""
        running = [size for _, state, size in self.sizes if state == State.RUNNING]
        half = len(running) // 2
        return (statistics.median(running[:half]), statistics.median(running[half:])) if half >= 5 else None


def measure(path: Path, directory: Path, longest: float, split_only: bool, tell: Any) -> tuple[Job, list[Process], int]:
    """The job, its processes, and the bytes of its transcript as JSON. Raises SystemExit after `longest` seconds."""
    settings = BatchSettings(directory=directory)
    lane = ("--batch-dir", str(directory))
    cli = [sys.executable, "-m", "gateway.cli"]
    stand_in = [sys.executable, "-m", "load.batch_memory", "--work-in", str(directory)]
    log = directory / "worker.log"
    jobs = Jobs.open(settings)
    began = time.monotonic()
    started: list[subprocess.Popen[bytes]] = []
    found: list[Process] = []

    def start(name: str, command: list[str], output: Path) -> subprocess.Popen[bytes]:
        with output.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file)
        started.append(process)
        found.append(Process(name, psutil.Process(process.pid)))
        return process

    def watch(process: subprocess.Popen[bytes]) -> None:
        """Look each second until a process ends."""
        while process.poll() is None:
            if worker.poll() is not None or time.monotonic() - began > longest:
                raise SystemExit(f"the worker has ended, or is slower than speech:\n{log.read_text()}")
            latest = next(iter(jobs.list(limit=1)), None)
            for one in found:
                one.look(time.monotonic() - began, latest.state if latest else "")
            if latest is not None:
                size = found[1].sizes[-1][2] / _MIB
                tell(f"{latest.state}: {latest.settled / 60:.0f} minutes, the worker has {size:.0f} MiB")
            time.sleep(1.0)

    try:
        with connect(settings) as server:
            pid: int = server.redis.info("server")["process_id"]
            found.append(Process("queue's server", psutil.Process(pid)))
        worker = start("worker", stand_in if split_only else [*cli, "worker", "--threads", "1", *lane], log)
        while "Ready" not in log.read_text():
            if worker.poll() is not None or time.monotonic() - began > _READY:
                raise SystemExit(f"the worker did not get ready:\n{log.read_text()}")
            time.sleep(0.1)
        submit = [*cli, "jobs", "submit", "--watch", "--language", "en", str(path), *lane]
        watch(start("submitter", submit, directory / "submit.log"))
        job = jobs.list(limit=1)[0]
        out = directory / "transcript.json"
        watch(start("reader", [*cli, "jobs", "show", job.id, "--out", str(out), *lane], directory / "show.log"))
        return job, found, out.stat().st_size if out.exists() else 0
    finally:
        for process in started:
            process.terminate()
            process.wait(30)
        jobs.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=10.0, help="length of the file (default %(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="order of its recordings (default %(default)s)")
    parser.add_argument("--split-only", action="store_true", help="a stand-in for the speech model")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--work-in", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work_in is not None:
        asyncio.run(_work(options.work_in))
    out, note = report.console(), machine()
    with out.status("making the file") as status, tempfile.TemporaryDirectory(prefix="speechlane-") as name:
        path, _ = build(60 * options.hours, options.seed)
        job, found, size = measure(
            path, Path(name), max(600.0, 3600 * options.hours), options.split_only, status.update
        )
    rows, missed = [], []
    if job.state is not State.DONE:
        missed.append(f"the job is {job.state}: {job.error or '; '.join(job.warnings)}")
    if not size:
        missed.append("the transcript could not be read")
    for one in found:
        halves = one.halves()
        growth = "-"
        if halves is not None:
            first, second = halves
            growth = f"{first / _MIB:.0f} → {second / _MIB:.0f} MiB, {100 * (second / first - 1):+.1f} %"
            if second > (1 + GROWTH) * first and second > first + SLACK:
                missed.append(f"{one.name} grows: {growth}")
        if one.peak > MOST:
            missed.append(f"{one.name} takes {one.peak / _MIB:.0f} MiB")
        last = max((s for _, state, s in one.sizes if state not in (State.RUNNING, State.QUEUED, "")), default=0)
        rows.append((one.name, f"{one.peak / _MIB:.0f} MiB", growth, f"{last / _MIB:.0f} MiB" if last else "-"))
    model = "a stand-in for the model" if options.split_only else "tiny.en"
    title = f"{options.hours:g} hours, {path.stat().st_size / _MIB:.0f} MiB, {model}"
    out.print(note, highlight=False, style="dim")
    head = ("", "most resident", "median while transcribing, 1st → 2nd half", "most from the stitch on")
    out.print(report.table(title, head, rows))
    taken = (job.ended or 0.0) - (job.started or 0.0)
    work = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sorted(job.timings.items()))
    out.print(
        f"{taken:.0f} s; {job.chunks} chunks, {job.repairs} repairs, {size / _MIB:.1f} MiB of JSON; work: {work}",
        highlight=False,
    )
    if options.json:
        figures = {one.name: one.sizes for one in found}
        options.json.write_text(json.dumps({"machine": note, "sizes": figures, "missed": missed}))
    return report.verdict(out, missed)


if __name__ == "__main__":
    sys.exit(main())
