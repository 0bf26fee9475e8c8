"""Does a service that a thousand clients came to and left in every way end up as it was before?

Each cycle opens a session and leaves it: with a close ("clean"), with a TCP reset ("reset"), or after having stopped
reading while still sending ("deaf"), at once or in the middle of an utterance. A few more ("vanished") say half a
sentence and then neither send, read nor answer pings, with the socket left open, as after a cut cable; the service has
to find out by itself, which takes about a minute.

Afterwards the service must say in /readyz that it holds no session and no stream, with as many threads and open files
as before, and its resident memory, looked at whenever it holds nothing, must not have grown by more than --growth MiB
from the second quarter of the cycles to the last. Exit status 1 otherwise. A service is started for the measurement
unless --url names one on this machine.

    python -m load.soak
    python -m load.soak --cycles 100 --vanished 0
"""

from __future__ import annotations

import asyncio
import json
import random
import shlex
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from load import corpora, report
from load.client import Refused, append, dial, settings
from load.script import compose
from load.service import Running, arguments, machine, service

WAYS = ("clean", "reset", "deaf")
MIB = 1 << 20
WARM = 20
"""Cycles before the first look: what a process allocates once does not count as growth."""
ROUNDS = 40
"""Looks at the memory."""
RATE = 16_000
FRAME = RATE // 10


@dataclass(slots=True)
class Picture:
    """What the service holds at a moment; -1 where the process cannot be seen."""

    sessions: int
    streams: int
    threads: int
    files: int
    memory: int


@dataclass(slots=True)
class Soak:
    """The course of it. `memory` holds (cycle, resident bytes)."""

    ways: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    memory: list[tuple[int, int]] = field(default_factory=list)
    before: Picture | None = None
    after: Picture | None = None

    def growth(self) -> float:
        """Bytes between the medians of the second and the last quarter: single looks jump by what is freed late."""
        quarter = len(self.memory) // 4
        if not quarter:
            return 0.0
        sizes = [size for _, size in self.memory]
        return float(np.median(sizes[-quarter:]) - np.median(sizes[quarter : 2 * quarter]))

    def slope(self) -> float:
        """Bytes a cycle by which memory grew over the second half."""
        half = [point for point in self.memory if point[0] >= self.memory[-1][0] / 2]
        if len(half) < 3:
            return 0.0
        cycles, sizes = np.array(half, float).T
        return float(np.polyfit(cycles, sizes, 1)[0])


def look(running: Running) -> Picture:
    sessions, streams = running.held()
    process = running.process
    if process is None:
        return Picture(sessions, streams, -1, -1, -1)
    return Picture(sessions, streams, process.num_threads(), process.num_fds(), process.memory_info().rss)


async def settled(running: Running, patience: float) -> Picture:
    """The service once it holds nothing, or after `patience` seconds."""
    until = time.monotonic() + patience
    while True:
        picture = await asyncio.to_thread(look, running)
        if not (picture.sessions or picture.streams) or time.monotonic() > until:
            return picture
        await asyncio.sleep(0.2)


async def call(running: Running, key: str | None, soak: Soak) -> ClientConnection:
    """A session; asks again while the service is full of those that have just left."""
    while True:
        try:
            return await dial(running.url, key, ping_interval=None, close_timeout=5)
        except Refused as refusal:
            if refusal.status != 503:
                raise
            soak.refused += 1
            await asyncio.sleep(0.25)


async def say(ws: ClientConnection, frames: list[str]) -> None:
    await ws.send(settings(RATE))
    for frame in frames:
        await ws.send(frame)


async def cycle(running: Running, key: str | None, soak: Soak, frames: list[str], chance: random.Random) -> None:
    """Come and go once."""
    way, speaking = chance.choice(WAYS), chance.random() < 0.5
    ws = await call(running, key, soak)
    # The service may find out first that something is wrong; that is its right.
    with suppress(ConnectionClosed, OSError):
        if speaking:
            await say(ws, frames)
            await asyncio.sleep(chance.uniform(0.0, 0.4))
        if way == "deaf":
            ws.transport.pause_reading()
            await say(ws, frames)
            ws.transport.abort()
        elif way == "reset":
            reset(ws)
        else:
            await ws.close()
    if way != "clean":
        with suppress(ConnectionClosed):
            await ws.wait_closed()
    soak.ways[f"{way} {'in mid-word' if speaking else 'at once'}"] += 1


def reset(ws: ClientConnection) -> None:
    """Break the connection by a TCP reset: nothing that is under way arrives any more."""
    ws.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ws.transport.abort()


async def run(running: Running, cycles: int, at_once: int, vanished: int, key: str | None, progress: Any) -> Soak:
    """All of it. The vanished come first and stay until the service has let go of them."""
    soak, chance = Soak(), random.Random(0)
    clip = next(iter(corpora.bundled()))
    pcm = compose([clip], rate=RATE).samples[: 2 * RATE].astype("<i2")
    frames = [append(pcm[start : start + FRAME].tobytes()) for start in range(0, len(pcm), FRAME)]
    await asyncio.gather(*(cycle(running, key, soak, frames, chance) for _ in range(min(WARM, at_once))))
    for _ in range(WARM):
        await cycle(running, key, soak, frames, chance)
    soak.before = await settled(running, 20.0)
    gone = [await call(running, key, soak) for _ in range(min(vanished, max(1, await free(running) - 1)))]
    for ws in gone:
        await say(ws, frames)
        ws.transport.pause_reading()
    for start in range(0, cycles, size := max(at_once, cycles // ROUNDS)):
        turns = iter(range(start, min(start + size, cycles)))

        async def worker(turns: Iterator[int] = turns) -> None:
            for _ in turns:
                await cycle(running, key, soak, frames, chance)

        await asyncio.gather(*(worker() for _ in range(at_once)))
        done = min(start + size, cycles)
        if not gone:  # those hold their sessions for a minute
            await settled(running, 5.0)
        soak.memory.append((done, running.memory()))
        progress(done)
    soak.after = await settled(running, 90.0 if gone else 20.0)
    for ws in gone:
        reset(ws)
    soak.ways["vanished"] += len(gone)
    return soak


async def free(running: Running) -> int:
    return await asyncio.to_thread(running.capacity)


def missed_bars(soak: Soak, growth: float) -> list[str]:
    assert soak.before is not None and soak.after is not None
    before, after, missed = soak.before, soak.after, []
    if after.sessions or after.streams:
        missed.append(f"{after.sessions} sessions and {after.streams} streams are still held")
    if after.threads > before.threads:
        missed.append(f"{after.threads - before.threads} threads more than before")
    if after.files > before.files:
        missed.append(f"{after.files - before.files} open files more than before")
    if soak.growth() > growth * MIB:
        missed.append(f"memory grew by {soak.growth() / MIB:.1f} MiB; the bar is {growth:g}")
    return missed


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--cycles", type=int, default=1000, help="sessions opened and left (default %(default)s)")
    parser.add_argument("--at-once", type=int, default=2, help="of them side by side (default %(default)s)")
    parser.add_argument(
        "--vanished", type=int, default=2, help="clients that fall silent for good (default %(default)s)"
    )
    parser.add_argument("--growth", type=float, default=16.0, help="MiB it may grow by (default %(default)g)")
    options = parser.parse_args()
    out, note = report.console(), machine()
    with service(options.url, shlex.split(options.flags)) as running, out.status("warming up") as status:
        soak = asyncio.run(
            run(running, options.cycles, options.at_once, options.vanished, options.key,
                lambda done: status.update(f"{done} of {options.cycles} cycles"))
        )  # fmt: skip
    assert soak.before is not None and soak.after is not None
    out.print(note, highlight=False, style="dim")
    rows = [
        (name, f"{getattr(soak.before, name):,}", f"{getattr(soak.after, name):,}")
        for name in ("sessions", "streams", "threads", "files", "memory")
    ]
    out.print(report.table(f"{options.cycles} cycles, {soak.refused} times full", ("", "before", "after"), rows))
    out.print(f"memory from the second to the last quarter: {soak.growth() / MIB:+.1f} MiB; over the second half "
              f"{soak.slope():+,.0f} bytes a cycle", highlight=False)  # fmt: skip
    out.print(", ".join(f"{count} {way}" for way, count in sorted(soak.ways.items())), highlight=False)
    missed = missed_bars(soak, options.growth)
    if options.json:
        told = {
            "machine": note,
            "before": asdict(soak.before),
            "after": asdict(soak.after),
            "refused": soak.refused,
            "growth": soak.growth(),
            "slope": soak.slope(),
            "ways": soak.ways,
            "memory": soak.memory,
            "missed": missed,
        }
        options.json.write_text(json.dumps(told, indent=1))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
