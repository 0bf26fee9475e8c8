"""How much does a device still do for a speech that was cancelled?

An engine in this process, nothing else to do: a speech of several sentences is cancelled at a random moment, half of
them live streams, half files. What the device does from that moment on is what it still does for the cancelled one:

  running     cancels that came while a step was running, which cannot be stopped
  steps       steps that ended after the cancel; the running one is the only one that may
  device      seconds of those steps, all of them counted from their beginning
  answer      until the cancel was answered with what had been spoken
  wasted      sound that had been made and was never heard, a stream's lead at most

Bars: never more than one step, no sound after the answer. Exit status 1 when one is missed.

    python -m load.speak_cancel
    python -m load.speak_cancel --cancels 40
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from load import report
from load.scoring import quantiles
from load.service import machine
from load.spoken import sentences
from speech.engine import Engine, EngineSettings
from speech.speaking.config import SpeakConfig
from speech.speaking.events import SoundMade
from speech.speaking.speaker import Speaker
from workers.device import Device, DeviceStats

QUIET = 0.05
"""Seconds in which a device that does nothing has nothing left to do."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """One cancel. Times in seconds; `late` counts sounds that came after the answer."""

    live: bool
    running: bool
    steps: int
    device: float
    answer: float
    wasted: float
    late: int


async def cancel_once(engine: Engine, device: Device, live: bool, text: str, after: float) -> Cancelled:
    """Begin to speak `text` and cancel it `after` seconds."""
    speaker = engine.open_speech(SpeakConfig(lead=1.75 if live else None))
    came: list[float] = []
    reading = asyncio.create_task(_read(speaker, came))
    await speaker.say(text)
    await speaker.end()
    await asyncio.sleep(after)
    wasted, before = engine.status().speech.wasted, device.stats()
    began = time.monotonic()
    await speaker.cancel()
    answered = time.monotonic()
    ended = await _quiet(device)
    await speaker.close()
    await reading
    return Cancelled(
        live=live,
        running=before.running > 0,
        steps=ended.steps - before.steps,
        device=ended.step_seconds - before.step_seconds,
        answer=answered - began,
        wasted=engine.status().speech.wasted - wasted,
        late=sum(at > answered for at in came),
    )


async def _read(speaker: Speaker, came: list[float]) -> None:
    async for event in speaker.events():
        if isinstance(event, SoundMade):
            came.append(time.monotonic())


async def _quiet(device: Device) -> DeviceStats:
    """The device once it has nothing to do, and has not had for a while."""
    since = time.monotonic()
    steps = -1
    while True:
        stats = device.stats()
        if stats.running or stats.open or stats.steps != steps:
            since, steps = time.monotonic(), stats.steps
        if time.monotonic() - since > QUIET:
            return stats
        await asyncio.sleep(0.002)


async def measure(cancels: int, threads: int, tell: Any) -> list[Cancelled]:
    """All cancels, live ones and files in turn."""
    engine = await Engine.start(EngineSettings(models=(), voices=("heart",), threads=threads))
    device = engine._house._devices[0]
    chance, found = random.Random(0), []
    every = [one.written for one in sentences()]
    try:
        for number in range(cancels):
            tell(f"cancel {number + 1} of {cancels}")
            text = " ".join(chance.sample(every, 6))
            # The first moments are the busiest; later a live stream mostly waits for its listener.
            after = chance.uniform(0.0, chance.choice((0.1, 0.4, 3.0) if number % 2 else (0.1, 0.4)))
            found.append(await cancel_once(engine, device, bool(number % 2), text, after))
            await _quiet(device)
    finally:
        await engine.close()
    return found


def missed_bars(found: Sequence[Cancelled]) -> list[str]:
    missed = []
    if more := [one.steps for one in found if one.steps > 1]:
        missed.append(f"{len(more)} of {len(found)} cancels were followed by up to {max(more)} steps; the bar is one")
    if late := sum(one.late for one in found):
        missed.append(f"{late} pieces of sound came after the answer")
    if not any(one.running for one in found):
        missed.append("no cancel met a running step; take more --cancels")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cancels", type=int, default=400, help="(default %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of the voice (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write every cancel here")
    options = parser.parse_args()
    out, note = report.console(), machine()
    with out.status("starting an engine") as status:
        found = asyncio.run(measure(options.cancels, options.threads, status.update))
    out.print(note, highlight=False, style="dim")
    rows = []
    for name, some in (("live", [one for one in found if one.live]), ("file", [one for one in found if not one.live])):
        device, answer = quantiles([one.device for one in some]), quantiles([one.answer for one in some])
        wasted = quantiles([one.wasted for one in some])
        rows.append(
            (name, str(len(some)), str(sum(one.running for one in some)), f"{report.pair(device)} / {device['max']}",
             f"{report.pair(answer)} / {answer['max']}", f"{report.pair(wasted)} / {wasted['max']}")
        )  # fmt: skip
    head = ("milliseconds, p50 / p95 / most", "cancels", "running", "device after it", "answer", "wasted sound")
    out.print(report.table("", head, rows))
    steps = Counter(one.steps for one in found)
    for count in range(max(2, max(steps) + 1)):
        bar = "█" * round(50 * steps[count] / len(found))
        out.print(f"{count} steps after the cancel: {steps[count]:5} {bar}", highlight=False)
    missed = missed_bars(found)
    if options.json:
        told = {"machine": note, "cancels": [asdict(one) for one in found], "missed": missed}
        options.json.write_text(json.dumps(told, indent=1))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
