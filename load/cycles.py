"""Ten thousand clients of every protocol come and are cut off: is anything of them left?

Each cycle opens a connection in one of the protocols (realtime, also resumable and in conversation, deepgram, vosk,
speak, elevenlabs, Wyoming; and what is no request at all, or half of one), says some of a sentence, and leaves in one
of the ways of load/comings.py: with a close, an end of the stream, a TCP reset, or half closed. --silent more say part
of it and then nothing, answer no ping and leave the socket open, as after a cut cable; the service has to find out by
itself (not in Wyoming, which has no pings and waits for minutes). Resumable sessions wait for their clients for
--resume-seconds.

The models are those of tests/load/fixed_service.py, which cost nothing, so that ten thousand cycles are about the
service and over soon. With --tls all of it but Wyoming goes over TLS, and what is no request is half a handshake.

Afterwards the service must hold no session, stream or speech, wait for nobody, and have as many tasks, threads and
files as before; its resident memory, looked at whenever it holds nothing, must not have grown by more than --growth
MiB from the second quarter of the cycles to the last. Exit status 1 otherwise.

    python -m load.cycles
    python -m load.cycles --cycles 1000 --silent 20
    python -m load.cycles --tls
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import resource
import shlex
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from load import corpora, report
from load.comings import WAYS, Full, Guest, Visit, come, visits
from load.listeners import free_port
from load.script import compose
from load.service import Running, arguments, machine, service
from load.sockets import PROGRAM

MIB = 1 << 20
WARM = 200
"""Cycles before the first look: what a process allocates once does not count as growth."""
ROUNDS = 40
POOL = 4 + (os.cpu_count() or 1)
"""Threads of Python's own pool, which come one by one as they are needed, and stay."""
GONE_SECONDS = 75.0
"""In which the service finds out that a client is silent for good."""
_METRIC = re.compile(r"^(speechlane_(?:event_loop_tasks|sessions_parked|speakers)) (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Picture:
    """What the service holds at a moment."""

    sessions: int
    streams: int
    speeches: int
    parked: int
    tasks: int
    threads: int
    files: int
    memory: int

    @property
    def empty(self) -> bool:
        return not (self.sessions or self.streams or self.speeches or self.parked)


@dataclass(slots=True)
class Course:
    """Of all cycles: how many there were of each protocol and way, and the memory (bytes) of the empty service."""

    came: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    full: int = 0
    memory: list[int] = field(default_factory=list)
    before: Picture | None = None
    after: Picture | None = None

    def growth(self) -> float:
        """Bytes between the medians of the second and the last quarter."""
        quarter = len(self.memory) // 4
        if not quarter:
            return 0.0
        return float(np.median(self.memory[-quarter:]) - np.median(self.memory[quarter : 2 * quarter]))


def look(running: Running) -> Picture:
    with urllib.request.urlopen(f"{running.url}/metrics", timeout=30, context=running.tls) as answer:
        found = {name: int(float(value)) for name, value in _METRIC.findall(answer.read().decode())}
    sessions, streams = running.held()
    process = running.process
    assert process is not None
    return Picture(
        sessions,
        streams,
        found["speechlane_speakers"],
        found["speechlane_sessions_parked"],
        found["speechlane_event_loop_tasks"],
        process.num_threads(),
        process.num_fds(),
        process.memory_info().rss,
    )


async def settled(running: Running, seconds: float, before: Picture | None = None) -> Picture:
    """The service once it holds nothing, and no more tasks and files than `before`; or after `seconds`."""
    until = time.monotonic() + seconds
    while True:
        picture = await asyncio.to_thread(look, running)
        done = picture.empty and (before is None or (picture.tasks <= before.tasks and picture.files <= before.files))
        if done or time.monotonic() > until:
            return picture
        await asyncio.sleep(0.2)


async def run(running: Running, found: list[Visit], options: Any, progress: Callable[[str], None]) -> Course:
    """All of it. The silent ones come first and stay until the service has let go of them."""
    course, chance = Course(), random.Random(options.seed)
    parts = urlsplit(running.url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80

    async def guest(number: int, found: list[Visit] = found) -> Guest:
        visit = found[number % len(found)]
        while True:
            try:
                guest = await come(visit, host, port, running.tls, chance)
                course.came[visit.name] += 1
                return guest
            except Full:
                course.full += 1
                await asyncio.sleep(0.2)

    async def cycles(numbers: Iterator[int]) -> None:
        for number in numbers:
            way = chance.choice(WAYS[:-1])
            await (await guest(number)).leave(way)
            course.left[way] += 1

    async def together(first: int, last: int) -> None:
        numbers = iter(range(first, last))
        await asyncio.gather(*(cycles(numbers) for _ in range(options.at_once)))

    progress("warming up")
    await together(0, WARM)
    course.before = await settled(running, GONE_SECONDS)
    asked = [visit for visit in found if visit.port is None]
    silent = [await guest(number, asked) for number in range(options.silent)]
    began = time.monotonic()
    size = max(options.at_once, options.cycles // ROUNDS)
    for first in range(0, options.cycles, size):
        await together(first, min(first + size, options.cycles))
        progress(f"{min(first + size, options.cycles)} of {options.cycles} cycles")
        if not silent or time.monotonic() - began > GONE_SECONDS:
            await settled(running, 5.0)
        course.memory.append(running.memory())
    progress("waiting until it has let go")
    course.after = await settled(running, GONE_SECONDS + 15, course.before)
    for one in silent:
        one.abort()
    course.left["silent"] += len(silent)
    return course


def missed_bars(course: Course, growth: float) -> list[str]:
    before, after = course.before, course.after
    assert before is not None and after is not None
    missed = [
        f"{getattr(after, name)} {name} are still held"
        for name in ("sessions", "streams", "speeches", "parked")
        if getattr(after, name)
    ]
    missed += [
        f"{getattr(after, name) - getattr(before, name)} {name} more than before"
        for name, more in (("tasks", 0), ("threads", POOL), ("files", 0))
        if getattr(after, name) > getattr(before, name) + more
    ]
    if course.growth() > growth * MIB:
        missed.append(f"memory grew by {course.growth() / MIB:.1f} MiB; the bar is {growth:g}")
    return missed


@contextmanager
def plain() -> Iterator[tuple[list[str], None]]:
    """Without TLS."""
    yield [], None


@contextmanager
def certificate() -> Iterator[tuple[list[str], ssl.SSLContext]]:
    """Flags for a service with TLS on 127.0.0.1, and what trusts it."""
    with tempfile.TemporaryDirectory() as folder:
        cert, key = Path(folder, "cert.pem"), Path(folder, "key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
            check=True, capture_output=True,
        )  # fmt: skip
        trusting = ssl.create_default_context(cafile=str(cert))
        yield ["--tls-cert", str(cert), "--tls-key", str(key)], trusting


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--cycles", type=int, default=10_000, help="connections (default %(default)s)")
    parser.add_argument("--at-once", type=int, default=8, help="of them side by side (default %(default)s)")
    parser.add_argument("--silent", type=int, default=60, help="that fall silent for good (default %(default)s)")
    parser.add_argument("--resume-seconds", type=float, default=5.0, help="(default %(default)g)")
    parser.add_argument("--growth", type=float, default=16.0, help="MiB it may grow by (default %(default)g)")
    parser.add_argument("--seed", type=int, default=0, help="other words and ways (default %(default)s)")
    parser.add_argument("--tls", action="store_true", help="over TLS")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    out, note = report.console(), machine()
    clip = next(iter(corpora.bundled()))
    pcm = compose([clip], rate=16_000).samples[: 2 * 16_000].astype("<i2").tobytes()
    wyoming = free_port()
    flags = ["--step", "0.005", "--vad", "level", "--wyoming-port", str(wyoming), "--max-sessions", "2000"]
    flags += ["--max-parked", "1000", "--resume-seconds", str(options.resume_seconds), *shlex.split(options.flags)]
    out.print(note, highlight=False, style="dim")
    begun = time.monotonic()
    with (
        certificate() if options.tls else plain() as (secure, trusting),
        service(None, [*flags, *secure], program=PROGRAM, tls=trusting) as running,
        out.status("starting") as status,
    ):
        course = asyncio.run(run(running, visits(pcm, wyoming), options, lambda what: status.update(what)))
    assert course.before is not None and course.after is not None
    rows = [
        (name, f"{getattr(course.before, name):,}", f"{getattr(course.after, name):,}")
        for name in asdict(course.before)
    ]
    out.print(report.table(f"{options.cycles} cycles in {time.monotonic() - begun:.0f} s, {course.full} times full",
                           ("", "before", "after"), rows))  # fmt: skip
    out.print(f"memory from the second to the last quarter: {course.growth() / MIB:+.1f} MiB", highlight=False)
    for title, counted in (("came", course.came), ("left", course.left)):
        out.print(f"{title}: " + ", ".join(f"{count} {name}" for name, count in counted.items()), highlight=False)
    missed = missed_bars(course, options.growth)
    if options.json:
        told = {"machine": note, "tls": options.tls, **asdict(course), "growth": course.growth(), "missed": missed}
        options.json.write_text(json.dumps(told, indent=1))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
