"""Latency of live transcription over the wire, for growing numbers of paced streams.

Every stream plays real recordings at the speed of speech, in an order and with pauses of its own, and notes when each
frame went out and each event came in. For each number of streams:

  round trip     last byte of the audio that a partial covers sent -> that partial received
  of it service  the round trip without the time in which the models' devices were stepping (bar: p95 <= 10 ms)
  end -> final   last voice of a recording, as Silero hears it offline -> its final; holds the 500 ms of silence that
                 the service waits for before it takes an utterance as ended
  commit -> final  last byte of the utterance's audio sent -> its final
  first word     beginning of the voice -> first stable word

A service is started for the measurement unless --url names one. Streams that it refuses, because its device is full,
are counted and left out. Exit status 1 when a bar is missed, or a promise of the protocol (each commit gets exactly
one final, in order, and nothing behind it) is broken.

    python -m load.live
    python -m load.live --streams 1,2 --seconds 30 --html live.html --json live.json
    python -m load.live --flags "--utilisation 1.0"
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from load import corpora, report
from load.client import Heard, Refused, stream
from load.scoring import Latencies, by_line, track, utterances, word_errors
from load.script import conversation
from load.service import Running, machine, service

FRAMES = (0.02, 0.1)
HEAD = (
    "streams", "admitted", "round trip", "of it service", "end → final", "commit → final", "of it service",
    "first word", "word errors", "finals", "late",
)  # fmt: skip


@dataclass(slots=True)
class Step:
    """What came of one number of streams. `errors`: word error rate of each stream in percent."""

    streams: int
    admitted: int = 0
    finals: int = 0
    late: float = 0.0
    """Seconds that this program itself was late with a frame, at most: when that is much, the machine is too full."""
    latencies: Latencies = field(default_factory=Latencies)
    errors: list[float] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    tracks: list[dict[str, Any]] = field(default_factory=list)
    utilisation: float = 0.0

    def add(self, heard: Heard) -> None:
        said, broken = utterances(heard)
        self.admitted += 1
        self.finals += sum(one.ended for one in said)
        self.late = max(self.late, heard.late)
        self.broken += broken
        self.latencies.add(heard, said)
        pairs = [(line.clip.text, " ".join(one.text or "" for one in parts)) for line, parts in by_line(heard, said)]
        self.errors.append(word_errors(pairs))
        self.tracks.append(track(heard, said))

    def row(self) -> tuple[str, ...]:
        figures = self.latencies.summary()
        service_share = figures["overhead"], figures["final_overhead"]
        errors = f"{sum(self.errors) / len(self.errors):.1f} %" if self.errors else "-"
        return (
            str(self.streams), str(self.admitted), report.pair(figures["round_trip"]), report.pair(service_share[0]),
            report.pair(figures["final"]), report.pair(figures["final_commit"]), report.pair(service_share[1]),
            report.pair(figures["first_word"]), errors, str(self.finals), f"{1000 * self.late:.0f}",
        )  # fmt: skip

    def told(self) -> dict[str, Any]:
        return {
            "streams": self.streams,
            "admitted": self.admitted,
            "milliseconds": self.latencies.summary(),
            "word_error_rates": [round(error, 2) for error in self.errors],
            "finals": self.finals,
            "client_late_milliseconds": round(1000 * self.late, 1),
            "device_utilisation": self.utilisation,
            "broken": self.broken,
            "tracks": self.tracks,
        }


async def measure(
    running: Running,
    streams: int,
    seconds: float,
    *,
    seed: int = 0,
    rate: int = 16_000,
    key: str | None = None,
    alike: bool = False,
) -> Step:
    """Have `streams` streams speak at once for about `seconds`. `alike`: all say the same, in frames of one length,
    so that numbers of streams differ in nothing else."""
    step, clips = Step(streams), list(corpora.bundled())
    scripts = [conversation(clips, seconds, seed + (0 if alike else number), rate=rate) for number in range(streams)]
    frames = FRAMES[:1] if alike else FRAMES
    chance = random.Random(seed)

    async def one(number: int) -> Heard:
        await asyncio.sleep(chance.random())  # frames of several streams do not come in step
        return await stream(running.url, scripts[number], frame=frames[number % len(frames)], key=key)

    async def watch() -> None:
        await asyncio.sleep(seconds * 0.7)
        state = await asyncio.to_thread(running.state)
        step.utilisation = max(device["utilisation"] for device in state["devices"])

    watching = asyncio.create_task(watch())
    for result in await asyncio.gather(*(one(number) for number in range(streams)), return_exceptions=True):
        if isinstance(result, Heard):
            step.add(result)
        elif not isinstance(result, Refused):
            raise result
    await watching
    return step


def missed_bars(steps: Sequence[Step], overhead: float) -> list[str]:
    """What a run must hold: `overhead` is the most of a round trip, in ms at p95, that may not be model time."""
    missed = []
    for step in steps:
        if not step.admitted:
            continue
        name = f"{step.streams} streams"
        found = step.latencies.summary()["overhead"]["p95"]
        if found is None:
            missed.append(f"{name}: no partial told its model time")
        elif found > overhead:
            missed.append(f"{name}: {found:.1f} ms of a round trip (p95) are not model time; the bar is {overhead:g}")
        missed += [f"{name}: {broken}" for broken in step.broken]
    if not any(step.admitted for step in steps):
        missed.append("no stream was admitted")
    return missed


def write_page(path: Path, steps: Sequence[Step], note: str) -> None:
    shown = {"round_trip": "round trip", "final": "end of speech → final", "final_commit": "commit → final"}
    curves = {
        f"{title}, {level}": [
            (float(step.admitted), found)
            for step in steps
            if (found := step.latencies.summary()[name][level]) is not None
        ]
        for name, title in shown.items()
        for level in ("p50", "p95")
    }
    sections = [
        ("Milliseconds, p50 / p95", report.html_table(HEAD, [step.row() for step in steps])),
        ("Latency against admitted streams (ms)", report.lines(curves, "streams", "milliseconds")),
    ]
    sections += [(f"One of {step.streams} streams", report.timeline(step.tracks[0])) for step in steps if step.tracks]
    report.page(path, "Latency of live transcription", note, sections)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="service to measure, http://host:port (default: start one)")
    parser.add_argument("--key", help="its API key")
    parser.add_argument("--flags", default="", help="flags for the service that is started, in quotes")
    parser.add_argument("--streams", default="1,2,4,8", help="numbers of streams, one step each (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of a step (default %(default)g)")
    parser.add_argument("--rate", type=int, default=16_000, help="sample rate in Hz on the wire (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="other orders and pauses (default %(default)s)")
    parser.add_argument("--overhead", type=float, default=10.0, metavar="MS", help="bar of what is not model time")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--html", type=Path, help="write a page with plots here")
    options = parser.parse_args()
    out, note = report.console(), machine()
    steps: list[Step] = []
    with service(options.url, shlex.split(options.flags), key=options.key) as running:
        for streams in map(int, options.streams.split(",")):
            with out.status(f"{streams} streams for {options.seconds:g} s"):
                measuring = measure(
                    running, streams, options.seconds, seed=options.seed, rate=options.rate, key=options.key
                )
                steps.append(asyncio.run(measuring))
    out.print(note, highlight=False, style="dim")
    out.print(report.table("milliseconds, p50 / p95", HEAD, [step.row() for step in steps]))
    if options.json:
        told = {"machine": note, "steps": [step.told() for step in steps]}
        options.json.write_text(json.dumps(told, indent=1, ensure_ascii=False))
    if options.html:
        write_page(options.html, steps, note)
    return report.verdict(out, missed_bars(steps, options.overhead))


if __name__ == "__main__":
    raise SystemExit(main())
