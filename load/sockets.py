"""What thousands of open sockets cost, and whether the event loop still answers at once among them.

A service is started whose model does nothing but take a step of 50 ms (tests/load/fixed_service.py), so that what is
measured is all that is around a model: sockets, sessions, voice activity (Silero, unless --vad level), the step loop.
--idle sessions are open and say nothing, --streaming ones send recordings at the speed of speech in frames of --frame
seconds, for --seconds. Meanwhile

  loop lag    how late the service's event loop runs its timers: its own metric, speechlane_event_loop_lag_seconds
  ping        WebSocket pings to one session after another -> their pongs, seen from this process
  healthz     GET /healthz on a connection of its own, one after another, from a third process that does nothing else
  client      how late this process's own timers are; when that is much, the machine is too full to tell

Bars: loop lag p99 under 20 ms, ping p99 under 100 ms, no session lost, every session given back at the end. Memory per
idle session and CPU per stream are told. Exit status 1 when a bar is missed.

    python -m load.sockets --idle 2000 --streaming 200 --seconds 60
"""

from __future__ import annotations

import asyncio
import http.client
import json
import multiprocessing
import resource
import shlex
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from load import corpora, report
from load.crowd import Crowd, speak, speech
from load.metrics import bucketed, exposition, grown, lag, watch_own
from load.script import conversation
from load.service import Running, arguments, machine, service

RATE = 16_000
LAG_BAR, PING_BAR = 0.020, 0.100
PROGRAM = ("tests.load.fixed_service",)
PINGS = 100.0
"""A second."""


@dataclass(slots=True)
class Phase:
    """What was seen while so many sessions were open. Seconds; `cpu` and `loop_cpu` a second, of the whole service and
    of the thread of its event loop.
    """

    name: str
    seconds: float
    lag: list[tuple[float, float]]
    pongs: list[float]
    health: list[float]
    cpu: float
    loop_cpu: float
    client_cpu: float
    client_late: list[float]
    events: dict[str, int] = field(default_factory=dict)

    def row(self) -> tuple[str, ...]:
        return (
            self.name,
            " / ".join(f"{1000 * bucketed(self.lag, share):.1f}" for share in (0.5, 0.99)),
            *(_three(times) for times in (self.pongs, self.health, self.client_late)),
            f"{100 * self.cpu:.0f} %",
            f"{100 * self.loop_cpu:.0f} %",
            f"{100 * self.client_cpu:.0f} %",
        )


HEAD = ("sessions", "loop lag", "ping", "healthz", "client", "cpu", "of it loop", "cpu of client")


def _three(times: list[float]) -> str:
    if not times:
        return "-"
    p50, p99, most = (1000 * float(np.quantile(times, share)) for share in (0.5, 0.99, 1.0))
    return f"{p50:.1f} / {p99:.1f} / {most:.0f}"


def spent(running: Running) -> tuple[float, float]:
    """Seconds of CPU of the service, and of the thread that its event loop runs on."""
    process = running.process
    if process is None:
        return 0.0, 0.0
    used = process.cpu_times()
    loop = next((one for one in process.threads() if one.id == process.pid), None)
    return used.user + used.system, loop.user_time + loop.system_time if loop else 0.0


def watch_health(url: str, stop: Any, found: Any) -> None:
    """In a process of its own: seconds that each answer took."""
    parts, times = urlsplit(url), []
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    while not stop.is_set():
        begun = time.monotonic()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        times.append(time.monotonic() - begun)
        time.sleep(0.02)
    found.put(times)


async def phase(running: Running, crowd: Crowd, name: str, seconds: float) -> Phase:
    """Look for `seconds`."""
    spawn = multiprocessing.get_context("spawn")
    stop, found = spawn.Event(), spawn.Queue()
    watcher = spawn.Process(target=watch_health, args=(running.url, stop, found), daemon=True)
    watcher.start()
    await asyncio.sleep(1.5)  # its start is none of the service's load
    heard = crowd.listen()
    late: list[float] = []
    before, cpu, own, begun = (
        await asyncio.to_thread(exposition, running),
        spent(running),
        time.process_time(),
        time.time(),
    )
    pinging = asyncio.create_task(crowd.ping(PINGS))
    own_late = asyncio.create_task(watch_own(late))
    await asyncio.sleep(seconds)
    for task in (pinging, own_late):
        task.cancel()
    took = time.time() - begun
    used = [after - at for after, at in zip(spent(running), cpu, strict=True)]
    mine = time.process_time() - own
    after = await asyncio.to_thread(exposition, running)
    stop.set()
    health = await asyncio.to_thread(found.get, True, 30)
    watcher.join()
    return Phase(
        name,
        took,
        grown(lag(after), lag(before)),
        [time for time, _ in heard.pongs],
        health,
        used[0] / took,
        used[1] / took,
        mine / took,
        late,
        {kind.decode(): count for kind, count in heard.events.items()},
    )


@dataclass(slots=True)
class Result:
    """Bytes are resident ones."""

    phases: list[Phase]
    memory_before: int = 0
    memory_idle: int = 0
    memory_streaming: int = 0
    memory_after: int = 0
    left: tuple[int, int] = (0, 0)
    lost: dict[str, int] = field(default_factory=dict)


async def run(running: Running, options: Any, tell: Callable[[str], None]) -> Result:
    """All of it."""
    parts = urlsplit(running.url)
    crowd = Crowd(parts.hostname or "127.0.0.1", parts.port or 80, options.key)
    clips = list(corpora.bundled())
    scripts = [conversation(clips, 40.0, seed, rate=RATE) for seed in range(4)]
    sounds = [speech(script.samples.astype("<i2").tobytes(), RATE, options.frame) for script in scripts]
    # What a process takes once for its first sessions is none of a session's.
    await crowd.come(20, options.rate, RATE)
    await crowd.leave()
    await _settled(running)
    result = Result([], memory_before=running.memory())
    tell(f"{options.idle} sessions come, {options.rate:g} a second")
    await crowd.come(options.idle, options.rate, RATE)
    await asyncio.sleep(2.0)
    result.memory_idle = running.memory()
    tell("they say nothing")
    result.phases.append(await phase(running, crowd, f"{options.idle} idle", options.quiet))
    tell(f"{options.streaming} more come and speak")
    quiet = len(crowd.callers)
    await crowd.come(options.streaming, options.rate, RATE)
    talking = asyncio.create_task(speak(crowd.callers[quiet:], sounds, options.frame))
    await asyncio.sleep(5.0)
    name = f"{options.idle} idle, {options.streaming} streaming"
    result.phases.append(await phase(running, crowd, name, options.seconds))
    result.memory_streaming = running.memory()
    talking.cancel()
    await asyncio.gather(talking, return_exceptions=True)
    tell("everybody leaves")
    await crowd.leave()
    await _settled(running)
    result.memory_after, result.left = running.memory(), running.held()
    result.lost = dict(crowd.heard.lost)
    return result


async def _settled(running: Running) -> None:
    until = time.monotonic() + 30
    while any(await asyncio.to_thread(running.held)) and time.monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.2)


def missed_bars(result: Result) -> list[str]:
    missed = []
    for one in result.phases:
        late = bucketed(one.lag, 0.99)
        if not late < LAG_BAR:
            missed.append(f"{one.name}: loop lag p99 {1000 * late:.1f} ms; the bar is {1000 * LAG_BAR:.0f}")
        ping = float(np.quantile(one.pongs, 0.99)) if one.pongs else float("inf")
        if not ping < PING_BAR:
            missed.append(f"{one.name}: ping p99 {1000 * ping:.1f} ms; the bar is {1000 * PING_BAR:.0f}")
    if any(result.left):
        missed.append(f"{result.left[0]} sessions and {result.left[1]} streams are still held")
    missed += [f"{count} sessions: {how}" for how, count in result.lost.items()]
    if not any(kind.endswith("completed") for kind in result.phases[-1].events):
        missed.append("nothing was transcribed")
    if result.phases[-1].events.get("error"):
        missed.append(f"{result.phases[-1].events['error']} errors")
    return missed


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--idle", type=int, default=2000, help="sessions that say nothing (default %(default)s)")
    parser.add_argument("--streaming", type=int, default=200, help="sessions that speak (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="for which they do (default %(default)g)")
    parser.add_argument("--quiet", type=float, default=20.0, help="seconds with idle ones alone (default %(default)g)")
    parser.add_argument("--frame", type=float, default=0.1, help="seconds of sound in a frame (default %(default)g)")
    parser.add_argument(
        "--rate", type=float, default=100.0, help="sessions that come in a second (default %(default)g)"
    )
    parser.add_argument("--step", type=float, default=0.05, help="seconds of a step of the model (default %(default)g)")
    parser.add_argument("--vad", choices=("silero", "level"), default="silero", help="(default %(default)s)")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the service inherits it
    out, note = report.console(), machine()
    out.print(note, highlight=False, style="dim")
    flags = ["--step", str(options.step), "--vad", options.vad]
    flags += ["--max-sessions", str(options.idle + options.streaming + 100), *shlex.split(options.flags)]
    with service(options.url, flags, key=options.key, program=PROGRAM) as running, out.status("measuring"):
        result = asyncio.run(run(running, options, out.print))
    out.print(report.table("milliseconds, p50 / p99 / most", HEAD, [one.row() for one in result.phases]))
    idle, busy = result.phases
    each = (result.memory_idle - result.memory_before) / max(options.idle, 1)
    cpu, loop = (1000 * (getattr(busy, name) - getattr(idle, name)) / max(options.streaming, 1)
                 for name in ("cpu", "loop_cpu"))  # fmt: skip
    out.print(
        f"memory: {result.memory_before / 2**20:.0f} MiB before, {each / 1024:.1f} KiB an idle session, "
        f"{result.memory_streaming / 2**20:.0f} MiB with all, {result.memory_after / 2**20:.0f} MiB after they left\n"
        f"cpu: {cpu:.2f} ms a second for each stream, {loop:.2f} of them on the event loop, the rest in voice activity "
        f"and the step loop; an idle session {1e6 * idle.cpu / max(options.idle, 1):.0f} µs a second",
        highlight=False,
    )
    out.print(", ".join(f"{count} {kind}" for kind, count in sorted(busy.events.items())), highlight=False)
    missed = missed_bars(result)
    if options.json:
        told = {"machine": note, **asdict(result), "bytes_each": each, "cpu_ms_each": cpu, "missed": missed}
        options.json.write_text(json.dumps(told, indent=1))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
