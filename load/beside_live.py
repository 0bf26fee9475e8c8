"""What a long job costs those who speak: live latency with and without one on the same device, in turns.

A service is started (--flags for it), and --streams paced streams speak for --seconds, first alone, then beside a job
over HTTP with an hour of audio, --rounds times in turns. Bar: the p95 of the round trip of a chunk and of end of speech
→ final, over all rounds, moves by no more than a tenth. The job has to get on as well. Exit status 1 when one is
missed.

    python -m load.beside_live
    python -m load.beside_live --streams 4 --rounds 1 --seconds 30
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from load import report
from load.live import HEAD, Step, measure
from load.long_file import build
from load.service import Running, machine, service

MARGIN = 0.10


def call(running: Running, path: str, data: bytes | None = None, kind: str = "", method: str | None = None) -> Any:
    """The JSON that a batch route answers."""
    request = urllib.request.Request(f"{running.url}/v1/batch/{path}", data, method=method)
    if kind:
        request.add_header("Content-Type", kind)
    with urllib.request.urlopen(request, timeout=120) as answer:
        body = answer.read()
    return json.loads(body) if body else None


def submit(running: Running, path: Path) -> str:
    """A job for the file; its id."""
    border = b"speechlane-load"
    head = f'Content-Disposition: form-data; name="file"; filename="{path.name}"'.encode()
    body = b"--" + border + b"\r\n" + head + b"\r\n\r\n" + path.read_bytes() + b"\r\n--" + border + b"--\r\n"
    id: str = call(running, "jobs", body, f"multipart/form-data; boundary={border.decode()}")["id"]
    return id


def merged(steps: list[Step]) -> dict[str, float]:
    """p95 in milliseconds over several steps, each with the same weight."""
    found = [step.latencies.summary() for step in steps]
    return {name: float(np.mean([one[name]["p95"] for one in found])) for name in ("round_trip", "final")}


def compared(out: Console, alone: list[Step], beside: list[Step], what: str) -> list[str]:
    """Prints how far the p95 of both latencies moves beside something; what is missed."""
    before, after = merged(alone), merged(beside)
    missed = [broken for step in (*alone, *beside) for broken in step.broken]
    for name, title in (("round_trip", "round trip"), ("final", "end → final")):
        moved = after[name] / before[name] - 1
        out.print(f"{title}, p95: {before[name]:.0f} → {after[name]:.0f} ms ({100 * moved:+.0f} %)")
        if moved > MARGIN:
            missed.append(f"{title}: p95 moves by {100 * moved:.0f} % beside {what}; the bar is {100 * MARGIN:.0f}")
    return missed


async def turn(running: Running, streams: int, seconds: float, seed: int, path: Path | None) -> tuple[Step, float]:
    """The streams' latencies, and the seconds of audio that the job got on by."""
    if path is None:
        return await measure(running, streams, seconds, seed=seed), 0.0
    id = await asyncio.to_thread(submit, running, path)
    await asyncio.sleep(1.0)
    step = await measure(running, streams, seconds, seed=seed)
    job = await asyncio.to_thread(call, running, f"jobs/{id}")
    if job["state"] != "done":
        await asyncio.to_thread(call, running, f"jobs/{id}/cancel", b"", "application/json", "POST")
    await asyncio.to_thread(call, running, f"jobs/{id}", None, "", "DELETE")
    return step, job["covered"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="service to measure, http://host:port (default: start one)")
    parser.add_argument("--flags", default="", help="flags for the service that is started, in quotes")
    parser.add_argument("--streams", type=int, default=2, help="live streams (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=40.0, help="length of a turn (default %(default)g)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each kind (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=60.0, help="length of the job's file (default %(default)g)")
    options = parser.parse_args()
    out, note = report.console(), machine()
    path, _ = build(options.minutes, 1)
    alone: list[Step] = []
    beside: list[Step] = []
    done, rows = 0.0, []
    with service(options.url, shlex.split(options.flags)) as running:
        for n in range(options.rounds):
            for kind, steps, file in (("alone", alone, None), ("beside a job", beside, path)):
                with out.status(f"{options.streams} streams {kind}, round {n + 1}"):
                    step, covered = asyncio.run(turn(running, options.streams, options.seconds, n, file))
                steps.append(step)
                done += covered
                rows.append((kind, *step.row()[1:]))
    out.print(note, highlight=False, style="dim")
    out.print(report.table("milliseconds, p50 / p95", HEAD, rows))
    missed = compared(out, alone, beside, "a job")
    rate = done / (options.rounds * options.seconds)
    out.print(f"meanwhile the job was transcribed at {rate:.1f} × real time")
    if not done:
        missed.append("the job did not get on")
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
