"""One server at one number of streams, and what the rounds of it come to."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil

from load import corpora, report
from load.peers.peer import RATE, Peer, Said, Serving
from load.peers.settling import errors, latencies
from load.scoring import quantiles
from load.script import Script, compose, conversation

OBJECTIVE = 1.0
"""Seconds from the end of speech to the final that p95 must hold."""
SHARE = 0.95


@dataclass(slots=True)
class Step:
    """All rounds of one server with one number of streams. `cpu` and `audio` in seconds, `memory` the most bytes."""

    streams: int
    said: list[Said] = field(default_factory=list)
    cpu: float = 0.0
    audio: float = 0.0
    memory: int = 0

    @property
    def finals(self) -> list[float | None]:
        """Seconds from the end of each voice to its final; None: nothing of it was heard."""
        return [one for said in self.said for one in (latencies(said) or [])]

    @property
    def refused(self) -> int:
        return sum(said.refused for said in self.said)

    @property
    def problems(self) -> list[str]:
        return sorted({said.problem for said in self.said if said.problem})

    @property
    def passed(self) -> bool:
        """Whether at least 95 % of all recordings were final within the objective, and nobody was turned away."""
        finals = self.finals
        soon = sum(one is not None and one <= OBJECTIVE for one in finals)
        return bool(finals) and soon >= SHARE * len(finals) and not self.refused and not self.problems

    @property
    def p95(self) -> float | None:
        """Seconds; None when more than 5 % of the recordings were not heard at all."""
        heard = [one for one in self.finals if one is not None]
        if not heard or len(heard) < SHARE * len(self.finals):
            return None
        return float(quantiles(heard)["p95"] or 0.0) / 1000

    @property
    def word_errors(self) -> float:
        return errors(self.said)

    def row(self) -> tuple[str, ...]:
        finals = self.finals
        heard = [one for one in finals if one is not None]
        late = max((said.late for said in self.said), default=0.0)
        return (
            str(self.streams), report.pair(quantiles(heard)), str(len(finals)), str(len(finals) - len(heard)),
            str(self.refused), f"{self.word_errors:.1f} %", f"{self.cpu / self.audio:.2f}" if self.audio else "-",
            f"{self.memory / 2**20:.0f}", f"{1000 * late:.0f}", "passed" if self.passed else "",
        )  # fmt: skip

    def told(self) -> dict[str, Any]:
        finals = self.finals
        return {
            "streams": self.streams,
            "passed": self.passed,
            "milliseconds": quantiles([one for one in finals if one is not None]),
            "recordings": len(finals),
            "not_heard": sum(one is None for one in finals),
            "refused": self.refused,
            "problems": self.problems,
            "word_error_rate": round(self.word_errors, 2),
            "cpu_seconds_per_audio_second": round(self.cpu / self.audio, 4) if self.audio else None,
            "peak_memory_bytes": self.memory,
            "client_late_milliseconds": round(1000 * max((said.late for said in self.said), default=0.0), 1),
            "said": [
                {
                    "reference": " ".join(line.clip.text for line in said.script.lines),
                    "heard": said.shown[-1][1] if said.shown else "",
                    "final_seconds": [None if one is None else round(one, 3) for one in latencies(said)],
                }
                for said in self.said
            ],
        }


def scripts(streams: int, seconds: float, seed: int) -> list[Script]:
    """What that many streams say: the same for every server."""
    clips = list(corpora.bundled())
    return [conversation(clips, seconds, 1000 * seed + number, rate=RATE) for number in range(streams)]


def warm(peer: Peer, serving: Serving) -> None:
    """Have one short recording said, so that nothing is loaded or measured for the first time later."""
    clip = next(one for one in corpora.bundled() if one.path.stem == "conf-noempty")
    asyncio.run(peer.say(serving, compose([clip], rate=RATE)))


def measure(peer: Peer, serving: Serving, step: Step, seconds: float, seed: int) -> None:
    """Have the streams of `step` speak at once for about `seconds`, and add what came of it."""
    spoken = scripts(step.streams, seconds, seed)
    chance = random.Random(seed)
    waits = [chance.random() for _ in spoken]

    async def one(number: int) -> Said:
        await asyncio.sleep(waits[number])  # frames of several streams do not come in step
        return await peer.say(serving, spoken[number])

    async def all_of_them() -> list[Said]:
        return await asyncio.gather(*map(one, range(len(spoken))))

    with _Watch(serving.process) as watch:
        step.said += asyncio.run(all_of_them())
    step.cpu += watch.cpu
    step.audio += sum(script.seconds for script in spoken)
    step.memory = max(step.memory, watch.memory)


class _Watch:
    """CPU seconds of a process with its children while it is entered, and the most memory that they held."""

    def __init__(self, process: psutil.Process) -> None:
        self.process = process
        self.cpu = 0.0
        self.memory = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Watch:
        self.cpu = -self._spent()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.cpu += self._spent()

    def _family(self) -> Sequence[psutil.Process]:
        return [self.process, *self.process.children(recursive=True)]

    def _spent(self) -> float:
        """Of those that live; of children that have ended as well."""
        return sum(_or_nothing(lambda one=one: sum(one.cpu_times()[:4])) for one in self._family())

    def _watch(self) -> None:
        while not self._over.wait(1.0):
            held = sum(_or_nothing(lambda one=one: one.memory_full_info().pss) for one in self._family())
            self.memory = max(self.memory, int(held))


def _or_nothing(ask: Any) -> float:
    try:
        return float(ask())
    except psutil.NoSuchProcess:
        return 0.0
