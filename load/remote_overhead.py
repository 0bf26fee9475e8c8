"""What it costs that a device is on another host: the same steps here and behind Ray, asked in turn.

A cluster of two hosts is started on this machine, a device on one of them, and one of the same kind in this process.
Its model takes a step of fixed length. A client asks each in turn for a second of sound (16,000 float32), as a partial
of a growing utterance does; the difference is what pickling, two ways through Ray and the waiting for ticks cost. Then
several clients ask at once, which shows what sharing calls is worth.

Bar: the remote p95 is at most 5 ms above that here, one client. Exit status 1 when it is missed.

    python -m load.remote_overhead --rounds 500
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from load import report
from load.service import machine
from workers.backend import Limits, Spec
from workers.cluster.fleet import Fleet
from workers.cluster.furnished import Furnished, Plan
from workers.cluster.packing import Plain
from workers.device import Device
from workers.onestep import OneStep
from workers.pool import Pool
from workers.task import Lane

BAR = 0.005
SAMPLES = 16_000
_WARM = 50


class Steps(OneStep):
    """Takes its time, and tells how long the sound was."""

    def __init__(self, seconds: float) -> None:
        self.spec = Spec(task="test", model="steps")
        self.limits = Limits(items=64)
        self._seconds = seconds

    def run(self, payloads: Sequence[Any]) -> Sequence[Any]:
        time.sleep(self._seconds)
        return [len(payload) for payload in payloads]


@dataclass(frozen=True)
class Makes:
    seconds: float

    def __call__(self, name: str) -> Furnished:
        device = Device(name)
        device.add(Steps(self.seconds))
        return Furnished(device)


@dataclass(slots=True)
class Times:
    """Seconds of each answer, and of this process's CPU for all of them."""

    seconds: list[float] = field(default_factory=list)
    cpu: float = 0.0

    def at(self, share: float) -> float:
        return float(np.quantile(self.seconds, share))

    def row(self, name: str) -> tuple[str, ...]:
        spent = 1000 * self.cpu / max(len(self.seconds), 1)
        return (name, *(f"{1000 * self.at(share):.2f}" for share in (0.5, 0.95, 0.99, 1.0)), f"{spent:.2f}")


async def _ask(pool: Pool, sound: Any, times: Times) -> None:
    began = time.perf_counter()
    handle = pool.submit(sound, lane=Lane.PARTIAL, deadline=time.monotonic() + 1.0)
    assert await handle.result() == len(sound)
    times.seconds.append(time.perf_counter() - began)


async def measure(pools: Sequence[Pool], rounds: int, clients: int, pause: float) -> list[Times]:
    """Each pool in turn, `clients` tasks at once, with `pause` seconds between."""
    rng = np.random.default_rng(0)
    sounds = [rng.standard_normal(SAMPLES).astype(np.float32) for _ in range(clients)]
    times = [Times() for _ in pools]
    for number in range(rounds + _WARM):
        if number == _WARM:
            times = [Times() for _ in pools]
        for pool, own in zip(pools, times, strict=True):
            before = _cpu()
            await asyncio.gather(*(_ask(pool, sound, own) for sound in sounds))
            own.cpu += _cpu() - before
            await asyncio.sleep(pause)
    return times


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=500, help="(default %(default)s)")
    parser.add_argument("--step", type=float, default=0.02, help="seconds of a step (default %(default)g)")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two questions (default %(default)g)")
    parser.add_argument("--clients", type=int, default=16, help="that ask at once afterwards (default %(default)s)")
    options = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    logging.getLogger("ray").setLevel(logging.ERROR)
    out, note = report.console(), machine()
    out.print(note, highlight=False, style="dim")
    # The process of the device has to find this module, and does so where this one did.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.add_node(num_cpus=1, resources={"device": 1})
    here = Device("here")
    here.add(Steps(options.step))
    here.start()
    fleet = Fleet(Plan("overhead", Makes(options.step), {"device": 1.0}), Plain(), address=cluster.address)
    try:
        with out.status("starting"):
            fleet.open()
            fleet.wait(120.0)
        pools = [Pool("steps", [here]), Pool("steps", fleet.devices)]
        tables = []
        for clients in (1, options.clients):
            out.print(f"{clients} at once, {options.rounds} rounds", highlight=False)
            times = asyncio.run(measure(pools, options.rounds, clients, options.pause))
            tables.append(times)
            rows = [one.row(name) for name, one in zip(("here", "behind Ray"), times, strict=True)]
            head = ("device", "p50", "p95", "p99", "most", "cpu here")
            out.print(report.table(f"milliseconds of an answer, {clients} at once", head, rows))
        one = tables[0]
        added = [one[1].at(share) - one[0].at(share) for share in (0.5, 0.95)]
        out.print(f"added, one at a time: p50 {1000 * added[0]:.2f} ms, p95 {1000 * added[1]:.2f} ms", highlight=False)
        missed = [f"p95 + {1000 * added[1]:.2f} ms; the bar is {1000 * BAR:g}"] if added[1] > BAR else []
        return report.verdict(out, missed)
    finally:
        fleet.close()
        here.close()
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    from load.remote_overhead import main as run  # so that Makes is found by this name over there

    raise SystemExit(run())
