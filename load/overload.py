"""What happens when four times as many streams come as the service can carry.

First the service is filled to the capacity it names in /readyz, and the latencies of those streams are taken. Then,
once empty again, it is asked for four times as many at once, and whoever is refused asks again as soon as Retry-After
allows, until the run ends. Bars: admitted streams keep their round trip and end-of-speech latency at p95 (within
--margin); every refusal is 503 with Retry-After and comes within 100 ms; as many are admitted as the capacity said; the
resident memory of the service does not grow by more than --memory MiB from the middle of the second run to its end.
Exit status 1 when one is missed.

A service is started for the measurement unless --url names one on this machine.

    python -m load.overload
    python -m load.overload --seconds 30 --times 4
"""

from __future__ import annotations

import asyncio
import json
import random
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from load import corpora, report
from load.client import Heard, Refused, stream
from load.scoring import Latencies, quantiles, utterances
from load.script import Script, conversation
from load.service import Running, arguments, machine, service

MIB = 1 << 20


@dataclass(slots=True)
class Crowd:
    """Streams that came at once. `memory` is the resident bytes of the service at the start, middle and end."""

    asked: int
    admitted: int = 0
    latencies: Latencies = field(default_factory=Latencies)
    refusals: list[Refused] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    def row(self) -> tuple[str, ...]:
        figures = self.latencies.summary()
        refused = quantiles([one.seconds for one in self.refusals])
        memory = " → ".join(f"{size / MIB:.0f}" for size in self.memory)
        return (
            str(self.asked), str(self.admitted), report.pair(figures["round_trip"]), report.pair(figures["final"]),
            report.pair(figures["overhead"]), str(refused["count"]), report.pair(refused),
            "-" if refused["max"] is None else f"{refused['max']:.0f}", memory,
        )  # fmt: skip


HEAD = (
    "asked", "admitted", "round trip", "end → final", "not model", "refusals", "refused in", "slowest", "memory MiB",
)  # fmt: skip


async def crowd(running: Running, scripts: Sequence[Script], seconds: float, key: str | None, *, again: bool) -> Crowd:
    """All `scripts` come at once; `again`: who is refused asks anew after Retry-After while `seconds` last."""
    out = Crowd(len(scripts))
    until = time.monotonic() + seconds

    async def one(script: Script) -> None:
        while True:
            try:
                heard: Heard = await stream(running.url, script, key=key)
            except Refused as refusal:
                out.refusals.append(refusal)
                wait = float(refusal.retry_after or 1) * random.uniform(1.0, 1.2)
                if not again or time.monotonic() + wait > until:
                    return
                await asyncio.sleep(wait)
                # From now on only as long as the others go on, so that all end together.
            else:
                said, broken = utterances(heard)
                out.admitted += 1
                out.broken += broken
                out.latencies.add(heard, said)
                return

    async def watch() -> None:
        out.memory.append(running.memory())
        await asyncio.sleep(seconds / 2)
        out.memory.append(running.memory())

    await asyncio.gather(watch(), *(one(script) for script in scripts))
    out.memory.append(running.memory())
    return out


async def emptied(running: Running, patience: float = 20.0) -> None:
    """Wait until nobody holds a session; raises SystemExit when somebody still does."""
    until = time.monotonic() + patience
    while any(held := await asyncio.to_thread(running.held)):
        if time.monotonic() > until:
            raise SystemExit(f"{held[0]} sessions and {held[1]} streams are held by others: measure an idle service")
        await asyncio.sleep(0.1)


async def measure(running: Running, times: int, seconds: float, key: str | None) -> tuple[int, Crowd, Crowd]:
    """(capacity, the full service, the crowd before it)."""
    await emptied(running)
    capacity = await asyncio.to_thread(running.capacity)
    if not capacity:
        raise SystemExit("the service takes no stream at all: its device is too slow for one at --utilisation 0.85")
    clips = list(corpora.bundled())
    scripts = [conversation(clips, seconds, number, rate=16_000) for number in range(capacity * times)]
    full = await crowd(running, scripts[:capacity], seconds, key, again=False)
    await emptied(running)
    rush = await crowd(running, scripts, seconds, key, again=True)
    await emptied(running)
    return capacity, full, rush


def missed_bars(capacity: int, full: Crowd, rush: Crowd, margin: float, memory: float) -> list[str]:
    """What did not hold. `margin`: how much slower, as a share, p95 may be; `memory`: growth in MiB."""
    missed = [*full.broken, *rush.broken]
    if full.admitted != capacity:
        missed.append(f"/readyz promised {capacity} streams, {full.admitted} were admitted")
    if rush.admitted < capacity:
        missed.append(f"{rush.admitted} of the crowd were admitted, {capacity} could have been")
    before, after = full.latencies.summary(), rush.latencies.summary()
    for name in ("round_trip", "final"):
        was, now = before[name]["p95"], after[name]["p95"]
        if was is None or now is None:
            missed.append(f"{name}: nothing was measured")
        elif now > was * (1 + margin):
            missed.append(f"{name}: p95 went from {was:.0f} to {now:.0f} ms, {100 * (now / was - 1):.0f} % up")
    for refusal in rush.refusals:
        if refusal.status != 503 or refusal.retry_after is None or refusal.seconds >= 0.1:
            missed.append(str(refusal))
    if not rush.refusals:
        missed.append("nobody was refused")
    growth = (rush.memory[-1] - rush.memory[1]) / MIB  # before, the process takes what its busiest moment needs
    if growth > memory:
        missed.append(f"the service grew by {growth:.0f} MiB during the rush")
    return missed


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--times", type=int, default=4, help="how many times the capacity comes (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each run (default %(default)g)")
    parser.add_argument(
        "--margin", type=float, default=0.25, help="how much p95 may rise, a share (default %(default)g)"
    )
    parser.add_argument("--memory", type=float, default=20.0, help="MiB it may grow by (default %(default)g)")
    options = parser.parse_args()
    out, note = report.console(), machine()
    with service(options.url, shlex.split(options.flags)) as running, out.status("filling the service"):
        capacity, full, rush = asyncio.run(measure(running, options.times, options.seconds, options.key))
    out.print(note, highlight=False, style="dim")
    title = f"capacity {capacity}; milliseconds, p50 / p95"
    out.print(report.table(title, HEAD, [full.row(), rush.row()]))
    missed = missed_bars(capacity, full, rush, options.margin, options.memory)
    if options.json:
        crowds = {name: {"asked": one.asked, "admitted": one.admitted, "milliseconds": one.latencies.summary(),
                         "refused": quantiles([refusal.seconds for refusal in one.refusals]), "memory": one.memory}
                  for name, one in (("full", full), ("rush", rush))}  # fmt: skip
        told = {"machine": note, "capacity": capacity, **crowds, "missed": missed}
        options.json.write_text(json.dumps(told, indent=1))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
