"""What becomes of a transcript when things die: it must be, byte for byte, the one of a quiet run.

A file (load/long_file.py) is transcribed by two workers in peace, and then again and again while

- workers are killed (kill -9) at random moments, and each stage's worker in the middle of that stage;
- the queue's server is killed (kill -9) in mid-job;
- the spool's disk is full, for a while and for good (a disk of its own is mounted, which needs root:
  `unshare --map-root-user --mount python -m load.batch_faults` will do);
- tasks are delivered twice, because a worker was halted for longer than its lease and then went on;
- two submitters hand in the same file at the same instant.

What is kept of chunks that were heard before is removed before each job, so that every job really works. A worker that
is killed may hold nothing up for longer than its lease and a second: its tasks have to be in other hands by then.

Exit status 1 when a transcript differs, a job does not end, or a task waited longer.

    python -m load.batch_faults
    python -m load.batch_faults --minutes 2 --kills 10
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import soundfile
from redis.exceptions import ConnectionError as Away

from batch_jobs.job import JobOptions, State
from batch_jobs.jobs import Jobs
from batch_jobs.queue.scripts import PREFIX
from batch_jobs.queue.task import Kind
from batch_jobs.settings import BatchSettings
from load import corpora, report
from load.batch_lane import Lane, Row, lane
from load.batch_workers import One
from load.long_file import audio, build
from load.service import machine

LEASE = 2.0
WITHIN = LEASE + 1.0
"""Seconds in which the tasks of a dead worker have to be in other hands."""
_LOOPS, _SCRAPS = ((4.0, 4.9), (8.2, 9.0)), 14.0
"""Scraps of a speech (seconds in it) that small models loop over, and for how long each is said."""
_SERVERS = 2
"""Times that the server is killed in a job."""
_PATIENCE = 5.0
"""Seconds that a task waits for room before it is given up; an hour else."""
_MIB = 1 << 20


def recording(minutes: float, seed: int, folder: Path) -> Path:
    """A file of that length, at its end scraps of speech over and over, so that there is something to repair."""
    path, _ = build(minutes, seed)
    sound, rate = soundfile.read(path, dtype="int16")
    speech = audio(next(clip.path for clip in corpora.bundled() if clip.path.name == "jfk.flac"))
    scraps = [np.tile(speech[int(a * rate) : int(b * rate)], round(_SCRAPS / (b - a))) for a, b in _LOOPS]
    out = folder / "recording.flac"
    soundfile.write(out, np.concatenate([sound, *scraps])[-round(minutes * 60 * rate) :], rate)
    return out


def quiet(on: Lane, row: Row, times: int) -> None:
    for _ in range(times):
        job = on.submit()
        on.judge(job, row)
    row.notes.append(f"{on.jobs.get(job.id).repairs} spans are repaired")


def kills(on: Lane, row: Row, count: int, mean: float) -> None:
    """Kill a worker that has work in hand, at random moments, until it was done so often; replace it at once."""
    kinds: Counter[Kind] = Counter()
    while row.faults < count:
        job = on.submit()
        at = time.monotonic() + on.chance.expovariate(1 / mean)
        while not on.jobs.get(job.id).state.ended and row.faults < count:
            time.sleep(0.01)
            if time.monotonic() < at or (victim := on.busy()) is None:
                continue
            kinds.update(kind for _, kind in on.held(victim))
            _kill(on, victim, row)
            at = time.monotonic() + on.chance.expovariate(1 / mean)
        on.judge(job, row)
    row.notes.append("held when killed: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))


def kills_in(on: Lane, row: Row, kind: Kind) -> None:
    """Kill the worker that does the job's one task of a kind, as soon as it has it."""
    job = on.submit()
    while (victim := on.busy(kind)) is None and not on.jobs.get(job.id).state.ended:
        pass
    if victim is None:
        row.notes.append(f"the {kind} was over too soon to be hit")
    else:
        _kill(on, victim, row)
    on.judge(job, row)


def _kill(on: Lane, victim: One, row: Row) -> None:
    victim.kill()
    on.crew.replace(victim)
    row.faults += 1
    on.taken_over(victim, row)
    on.crew.wait()


def restarts(on: Lane, row: Row, count: int) -> None:
    """Kill the queue's server at random moments; its guard starts it again."""
    away = []
    for _ in range(count):
        job = on.submit()
        for _ in range(_SERVERS):
            time.sleep(on.chance.uniform(0.3, 3.0))
            os.kill(on.redis.info("server")["process_id"], signal.SIGKILL)
            began = time.monotonic()
            row.faults += 1
            while not _answers(on):
                time.sleep(0.005)
            away.append(time.monotonic() - began)
        on.judge(job, row)
    row.notes.append(f"away for {max(away):.2f} s at most")


def _answers(on: Lane) -> bool:
    try:
        return bool(on.redis.ping())
    except Away:
        return False


def full(on: Lane, row: Row, spool: Path) -> None:
    """Leave no room while the file is cut, and give it in time; then take it all when a chunk was heard, for good."""
    job = on.submit()
    _fill(spool, 1 * _MIB)
    while not on.redis.zcard(f"{PREFIX}delayed") and not on.jobs.get(job.id).state.ended:
        time.sleep(0.01)
    row.faults += 1
    _room(spool)
    on.judge(job, row)

    job = on.submit()
    while not (now := on.jobs.get(job.id)).state.ended and not (now.split and now.chunks_done):
        time.sleep(0.005)
    _fill(spool, 0)
    row.faults += 1
    now = on.ended(job)
    reason = now.error or "; ".join(now.warnings)
    row.notes.append(f"the job ended as {now.state}: {reason}")
    if now.state not in (State.FAILED, State.PARTIAL) or "space" not in reason:
        row.missed.append(f"{row.name}: without room the job is {now.state}: {reason}")
    _room(spool)
    if not on.jobs.retry(job.id):
        row.missed.append(f"{row.name}: the job cannot be retried")
    on.judge(job, row)


def _fill(spool: Path, left: int) -> None:
    found = os.statvfs(spool)
    with (spool / "ballast").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(found.f_bavail * found.f_frsize - left, 1))


def _room(spool: Path) -> None:
    (spool / "ballast").unlink()


@contextmanager
def disk(size: int) -> Iterator[Path | None]:
    """A disk of `size` bytes; None where none can be mounted."""
    with tempfile.TemporaryDirectory(prefix="speechlane-") as name:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "speechlane-faults", name]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            yield None
            return
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)


def halts(on: Lane, row: Row, count: int) -> None:
    """Halt a worker until others have its tasks and work on them, then let it go on with the same ones."""
    twice = 0
    for _ in range(count):
        job = on.submit()
        for kind in (Kind.SPLIT, Kind.CHUNK):
            while (one := on.busy(kind)) is None and not on.jobs.get(job.id).state.ended:
                time.sleep(0.002)
            if one is None:
                continue
            time.sleep(on.chance.uniform(0.0, 1.0))
            one.halt()
            row.faults += 1
            twice += len(on.held(one))
            on.taken_over(one, row)
            time.sleep(on.chance.uniform(0.0, LEASE))
            one.go_on()
        on.judge(job, row)
    row.notes.append(f"{twice} tasks in two hands")


def twins(on: Lane, row: Row, count: int) -> None:
    """Two processes hand in the same file at the same instant."""
    for _ in range(count):
        on.clear()
        gate = multiprocessing.get_context("spawn").Barrier(2)
        both = [
            multiprocessing.get_context("spawn").Process(
                target=_hand_in, args=(gate, on.jobs.settings, on.path, on.options)
            )
            for _ in range(2)
        ]
        for one in both:
            one.start()
        for one in both:
            one.join()
        row.faults += 1
        handed_in = on.jobs.list()
        if len(handed_in) != 2:
            row.missed.append(f"{row.name}: {len(handed_in)} of 2 jobs are there")
        for job in handed_in:
            on.judge(job, row)


def _hand_in(gate: threading.Barrier, settings: BatchSettings, path: Path, options: JobOptions) -> None:
    jobs = Jobs.open(settings)
    data = path.read_bytes()
    gate.wait(60)
    jobs.submit(iter([data]), path.name, options)
    jobs.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=4.0, help="length of the file (default %(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="of the file and all chances (default %(default)s)")
    parser.add_argument("--model", default="tiny.en", help="a bundled model (default %(default)s)")
    parser.add_argument("--kills", type=int, default=50, help="kills at random moments (default %(default)s)")
    parser.add_argument("--pause", type=float, default=1.5, help="mean seconds before the next (default %(default)g)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    out, note = report.console(), machine()
    rows: list[Row] = []

    def do(name: str, on: Lane, fault: Callable[[Lane, Row], None]) -> None:
        row = Row(name)
        rows.append(row)
        began = time.monotonic()
        with out.status(name):
            fault(on, row)
        row.seconds = time.monotonic() - began
        out.print(f"{name}: {row.equal} of {row.jobs} equal after {row.seconds:.0f} s", highlight=False, style="dim")

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="speechlane-")))
        path = recording(options.minutes, options.seed, folder)
        size = path.stat().st_size + round(soundfile.info(path).duration * 32_000) + 8 * _MIB
        spool = stack.enter_context(disk(size))
        settings = BatchSettings(directory=folder / "lane", lease=LEASE, deliveries=options.kills + 10)
        start = partial(lane, path=path, model=options.model, seed=options.seed, profiles=folder / "profiles")
        with out.status("starting two workers"):
            on = stack.enter_context(start(settings))
        do("quiet", on, partial(quiet, times=2))
        do("worker killed", on, partial(kills, count=options.kills, mean=options.pause))
        for kind in (Kind.SPLIT, Kind.STITCH, Kind.REPAIR, Kind.WRITE):
            do(f"worker killed in its {kind}", on, partial(kills_in, kind=kind))
        do("server killed", on, partial(restarts, count=3))
        do("delivered twice", on, partial(halts, count=3))
        do("two submitters", on, partial(twins, count=3))
        on.crew.close()
        if spool is None:
            rows.append(Row("disk full", notes=["not done: mounting a small disk needs root"]))
        else:
            reference = on.reference
            small = replace(settings, directory=folder / "small", spool_url=str(spool), patience=_PATIENCE)
            on = stack.enter_context(start(small))
            on.reference = reference
            do("disk full", on, partial(full, spool=spool))
    return told(rows, note, options.json, f"{options.minutes:g} minutes, {options.model}, 2 workers, lease {LEASE:g} s")


def told(rows: list[Row], note: str, to: Path | None, title: str) -> int:
    out = report.console()
    missed = [one for row in rows for one in row.missed]
    cells = []
    for row in rows:
        late = [wait for wait in row.waits if wait > WITHIN]
        if late:
            missed.append(f"{row.name}: {len(late)} of {len(row.waits)} times tasks waited up to {max(late):.2f} s")
        waits = f"{statistics.median(row.waits):.2f} / {max(row.waits):.2f} s" if row.waits else "-"
        cells.append((row.name, str(row.faults), f"{row.equal} of {row.jobs}", waits, f"{row.seconds:.0f} s"))
    out.print(note, highlight=False, style="dim")
    head = ("", "faults", "transcripts equal", "taken over: median / worst", "time")
    out.print(report.table(title, head, cells))
    for row in rows:
        for one in row.notes:
            out.print(f"{row.name}: {one}", highlight=False)
    if to:
        to.write_text(json.dumps({"machine": note, "rows": [asdict(row) for row in rows], "missed": missed}, indent=1))
    return report.verdict(out, missed)


if __name__ == "__main__":
    sys.exit(main())
