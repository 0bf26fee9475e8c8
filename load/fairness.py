"""What a noisy tenant costs a quiet one: live latency of a key alone, beside a fair neighbour, and in a flood.

A service is started with two keys. The quiet one's --streams paced streams speak for --seconds, in turns

  alone          nobody else is there
  beside others  the other key has as many paced streams as it gets, which is its share
  in a flood     the other key opens --flood streams at once, again and again, each as fast as it can be sent (finals
                 and partials, the quiet one's lanes), and sends files on --files connections

--rounds times; the clients of the other key are a process of their own. Bar: the p95 of the round trip of a chunk and
of end of speech → final in the flood is no more than a tenth above that beside others, which hold their share as well
but send as one speaks (on a machine of few cores being not alone costs something in itself, which is told too); the
quiet key is never refused; the flood gets on as well. Exit status 1 when one is missed.

    python -m load.fairness
    python -m load.fairness --rounds 1 --seconds 20
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import secrets
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from load import corpora, report
from load.client import Heard, Refused, stream
from load.live import HEAD, Step, measure
from load.script import conversation
from load.service import Running, machine, service

_MARGIN = 0.10
_BEGUN = 6.0
"""Seconds until the other process makes its noise."""
_PAUSE = 0.25
"""Seconds after which a stream of the flood that was refused tries again."""
KINDS = ("alone", "beside others", "in a flood")


@dataclass
class Flood:
    """What became of it."""

    finals: int = 0
    files: int = 0
    refused: int = 0


@asynccontextmanager
async def flood(running: Running, key: str, streams: int, files: int, seed: int) -> AsyncIterator[Flood]:
    """As much as one key can ask for, while the context lasts."""
    came, clips = Flood(), list(corpora.bundled())
    path = next(iter(clips)).path
    data = path.read_bytes()

    async def again(work: Callable[[int], Awaitable[None]]) -> None:
        number = 0
        while True:
            number += 1
            try:
                await work(number)
            except (Refused, OSError, aiohttp.ClientError):
                came.refused += 1
                await asyncio.sleep(_PAUSE)

    async def speak(number: int) -> None:
        script = conversation(clips, 20.0, seed + number, rate=16_000)
        heard: Heard = await stream(running.url, script, frame=0.1, speed=100.0, key=key)
        came.finals += sum(event["type"].endswith("transcription.completed") for _, event in heard.events)

    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as http:

        async def send(number: int) -> None:
            form = aiohttp.FormData()
            form.add_field("file", data, filename=path.name)
            async with http.post(f"{running.url}/v1/audio/transcriptions", data=form) as answer:
                if answer.status == 429:
                    raise Refused(429, answer.headers.get("Retry-After"), 0.0)
                answer.raise_for_status()
                came.files += 1

        tasks = [asyncio.create_task(again(speak)) for _ in range(streams)]
        tasks += [asyncio.create_task(again(send)) for _ in range(files)]
        try:
            yield came
        finally:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if not isinstance(ended, asyncio.CancelledError):
                    raise RuntimeError("the flood dried up") from ended


def noise(running: Running, kind: str, key: str, options: argparse.Namespace, seed: int, stop: Any, came: Any) -> None:
    """What the other key does, in a process of its own: in that of the quiet one it would hold up its client instead
    of its service. `stop` (an event) ends a flood; what became of it goes into `came` (a queue)."""

    async def run() -> Flood:
        if kind == "beside others":
            step = await measure(running, options.flood, options.seconds, seed=seed + 100, key=key)
            return Flood(finals=step.finals)
        async with flood(running, key, options.flood, options.files, seed) as found:
            await asyncio.to_thread(stop.wait)
        return found

    came.put(asyncio.run(run()))


async def turn(
    running: Running, kind: str, quiet: str, noisy: str, options: argparse.Namespace, seed: int
) -> tuple[Step, Flood]:
    """The quiet key's latencies, and what the other one got."""
    asking = measure(running, options.streams, options.seconds, seed=seed, key=quiet)
    if kind == "alone":
        return await asking, Flood()
    spawn = multiprocessing.get_context("spawn")
    stop, came = spawn.Event(), spawn.Queue()
    there = Running(running.url, None, running.key)
    other = spawn.Process(target=noise, args=(there, kind, noisy, options, seed, stop, came), daemon=True)
    other.start()
    await asyncio.sleep(_BEGUN)
    try:
        step = await asking
        stop.set()
        return step, await asyncio.to_thread(came.get, True, options.seconds + 60.0)
    finally:
        stop.set()
        await asyncio.to_thread(other.join)


def p95(steps: list[Step], name: str) -> float:
    """In milliseconds over several steps, each with the same weight."""
    found = [step.latencies.summary()[name]["p95"] for step in steps]
    return float(np.mean([one for one in found if one is not None] or [float("nan")]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flags", default="", help="flags for the service, in quotes")
    parser.add_argument("--streams", type=int, default=1, help="of the quiet key (default %(default)s)")
    parser.add_argument("--flood", type=int, default=16, help="streams of the noisy key (default %(default)s)")
    parser.add_argument("--files", type=int, default=4, help="connections on which it sends files (%(default)s)")
    parser.add_argument("--seconds", type=float, default=40.0, help="length of a turn (default %(default)g)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each kind (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    out, note = report.console(), machine()
    quiet, noisy = (secrets.token_hex(16) for _ in range(2))
    steps: dict[str, list[Step]] = {kind: [] for kind in KINDS}
    got: dict[str, list[Flood]] = {kind: [] for kind in KINDS}
    flags = ["--api-keys", f"{quiet},{noisy}", "--no-batch", *shlex.split(options.flags)]
    with service(None, flags, key=quiet) as running:
        for number in range(options.rounds):
            for kind in KINDS:
                with out.status(f"{options.streams} streams {kind}, round {number + 1}"):
                    step, came = asyncio.run(turn(running, kind, quiet, noisy, options, number))
                steps[kind].append(step)
                got[kind].append(came)
    rows = [(kind, *step.row()[1:]) for kind in KINDS for step in steps[kind]]
    out.print(note, highlight=False, style="dim")
    out.print(report.table("milliseconds of the quiet key, p50 / p95", HEAD, rows))
    missed = [broken for kind in KINDS for step in steps[kind] for broken in step.broken]
    figures: dict[str, dict[str, float]] = {}
    for name, title in (("round_trip", "round trip"), ("final", "end → final")):
        figures[name] = {kind: p95(steps[kind], name) for kind in KINDS}
        alone, beside, flooded = (figures[name][kind] for kind in KINDS)
        moved = flooded / beside - 1
        out.print(
            f"{title}, p95: alone {alone:.0f}, beside others {beside:.0f}, in a flood {flooded:.0f} ms "
            f"({100 * moved:+.0f} % of beside others, {100 * (flooded / alone - 1):+.0f} % of alone)"
        )
        if not moved <= _MARGIN:
            missed.append(f"{title}: p95 moves by {100 * moved:.0f} % in a flood; the bar is {100 * _MARGIN:.0f}")
    finals, files, refused = (
        sum(getattr(one, what) for one in got["in a flood"]) for what in ("finals", "files", "refused")
    )
    out.print(f"meanwhile the flood got {finals} finals and {files} files, and was refused {refused} times")
    if not finals:
        missed.append("the flood got nothing")
    if any(step.admitted < options.streams for kind in KINDS for step in steps[kind]):
        missed.append("the quiet key was refused")
    if options.json:
        told = {kind: [step.told() for step in steps[kind]] for kind in KINDS}
        options.json.write_text(json.dumps({"machine": note, "p95": figures, "turns": told}, indent=1))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
