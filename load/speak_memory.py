"""Does a service that has spoken two thousand sentences take the memory of one that has spoken a thousand?

Sentences of 1 to --words words, at random from real ones, are spoken to --at-once clients: streams on /v1/speak as
fast as they are read, and posts to /v1/audio/speech in every format, every tenth given up in the middle. The first
--warm sentences count for nothing: what a process allocates once is no growth. Then the resident memory is looked at
after every tenth sentence.

Bar: the median of the second half is at most 5 % over that of the first. Exit status 1 otherwise, and when a sentence
failed or the service holds a stream at the end. The service must be on this machine.

    python -m load.speak_memory
    python -m load.speak_memory --sentences 100 --warm 20
"""

from __future__ import annotations

import asyncio
import json
import random
import shlex
import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession

from load import report
from load.service import Running, arguments, machine, service
from load.speak_client import dial, send
from load.spoken import sentences

MIB = 1 << 20
FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
EVERY = 10


@dataclass(slots=True)
class Course:
    """`memory`: resident bytes after every tenth sentence; `ways`: how many came in each way; `sound` in bytes."""

    memory: list[int] = field(default_factory=list)
    ways: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    sound: int = 0
    left: int = 0

    def halves(self) -> tuple[float, float]:
        """Medians of the first and the second half."""
        half = len(self.memory) // 2
        return statistics.median(self.memory[:half] or [0]), statistics.median(self.memory[half:] or [0])


def text_of(words: int, chance: random.Random) -> str:
    """So many words, cut from real sentences, with a stop at the end."""
    found: list[str] = []
    while len(found) < words:
        found += chance.choice(sentences()).written.split()
    return " ".join(found[:words]).rstrip(",.;:") + "."


async def streamed(url: str, key: str | None, name: str, text: str, give_up: bool, course: Course) -> None:
    """One sentence on a socket of its own; `give_up`: the socket is left with the sentence in the middle."""
    socket = await dial(url, key)
    try:
        await send(socket, "create", name, lead=None)
        await send(socket, "text", name, text=text, end=True)
        while True:
            answer = await asyncio.wait_for(socket.recv(), 60)
            if isinstance(answer, bytes):
                course.sound += len(answer)
                if give_up:
                    socket.transport.abort()
                    return
                continue
            event = json.loads(answer)
            if event["type"] == "done":
                return
            if event["type"] in ("error", "failed"):
                course.problems.append(json.dumps(event["error"]))
                return
    finally:
        await socket.close()


async def posted(http: ClientSession, text: str, form: str, give_up: bool, course: Course) -> None:
    """One sentence as a file of this form."""
    body = {"model": "tts-1", "voice": "alloy", "input": text, "response_format": form}
    async with http.post("/v1/audio/speech", json=body) as answer:
        if answer.status != 200:
            course.problems.append(await answer.text())
            return
        async for data in answer.content.iter_any():
            course.sound += len(data)
            if give_up:
                answer.close()
                return


async def run(running: Running, count: int, warm: int, words: int, at_once: int, key: str | None, tell: Any) -> Course:
    """All sentences, the first `warm` of them without a look at the memory."""
    course, chance = Course(), random.Random(0)
    turns = iter(range(warm + count))
    done = 0
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with ClientSession(running.url, headers=headers) as http:

        async def client() -> None:
            nonlocal done
            for number in turns:
                text = text_of(chance.randint(1, words), chance)
                give_up, form = chance.random() < 0.1, chance.choice((*FORMATS, *(("stream",) * len(FORMATS))))
                if form == "stream":
                    await streamed(running.url, key, f"s{number}", text, give_up, course)
                else:
                    await posted(http, text, form, give_up, course)
                course.ways[f"{form}{', given up' if give_up else ''}"] += 1
                done += 1
                if done > warm and done % EVERY == 0:
                    course.memory.append(running.memory())
                    tell(f"{done - warm} of {count} sentences, {course.memory[-1] / MIB:.0f} MiB")

        await asyncio.gather(*(client() for _ in range(at_once)))
    for _ in range(100):
        course.left = (await asyncio.to_thread(running.state))["speech"]["speaking"]
        if not course.left:
            break
        await asyncio.sleep(0.1)
    return course


def missed_bars(course: Course, growth: float) -> list[str]:
    """`growth`: the share by which the second half may be over the first."""
    first, second = course.halves()
    missed = list(course.problems[:5])
    if course.left:
        missed.append(f"{course.left} streams are still held")
    if not first:
        missed.append("the memory of the service cannot be seen: measure one on this machine")
    elif second > first * (1 + growth):
        missed.append(f"memory grew by {100 * (second / first - 1):.1f} %; the bar is {100 * growth:g} %")
    return missed


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--sentences", type=int, default=2000, help="(default %(default)s)")
    parser.add_argument("--warm", type=int, default=100, help="sentences before those (default %(default)s)")
    parser.add_argument("--words", type=int, default=60, help="of the longest (default %(default)s)")
    parser.add_argument("--at-once", type=int, default=4, help="clients (default %(default)s)")
    parser.add_argument("--growth", type=float, default=0.05, help="bar, a share (default %(default)g)")
    options = parser.parse_args()
    out, note = report.console(), machine()
    with (
        service(options.url, ["--no-batch", *shlex.split(options.flags)]) as running,
        out.status("warming up") as status,
    ):
        course = asyncio.run(
            run(running, options.sentences, options.warm, options.words, options.at_once, options.key, status.update)
        )
    out.print(note, highlight=False, style="dim")
    first, second = course.halves()
    low, high = min(course.memory, default=0), max(course.memory, default=0)
    rows = [
        ("first half, median", f"{first / MIB:.1f}"),
        ("second half, median", f"{second / MIB:.1f}"),
        ("difference", f"{100 * (second / first - 1):+.2f} %" if first else "-"),
        ("least and most", f"{low / MIB:.1f} {high / MIB:.1f}"),
    ]
    out.print(report.table(f"{options.sentences} sentences, {course.sound / MIB:.0f} MiB of sound", ("MiB", ""), rows))
    out.print(", ".join(f"{count} {way}" for way, count in sorted(course.ways.items())), highlight=False)
    missed = missed_bars(course, options.growth)
    if options.json:
        told = {"machine": note, "memory": course.memory, "ways": course.ways, "missed": missed}
        options.json.write_text(json.dumps(told, indent=1))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
