"""How long after somebody stopped speaking is the answer heard? Conversations over /v1/realtime, one at a time.

Each recording of the repository (--recordings takes those of a folder instead) is said to a new session at the speed of
speech, with silence behind it, until the answer is heard. The embedded assistant answers, which repeats what it heard
and takes no time; --flags "--assistant-url ..." measures with another.

  heard            last voice of the recording, as Silero hears it offline -> the first audible sample of the answer has
                   come (20 ms over -45 dBFS); the only one that is measured here, the others are the service's x.timing
  vad              silence that ended the turn, as the service had it (silence_duration_ms and what it took to hear it)
  final            from there to the transcript
  language model   to the first words of the answer
  speech           to its first sound
  total            the sum
  not explained    heard without total: where the two differ on the end of the voice, the network, silence at the head

Bars: every recording is answered. Exit status 1 when one is not.

    python -m load.voice_loop
    python -m load.voice_loop --rounds 1 --silence 300 --json loop.json
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from load import corpora, report
from load.scoring import quantiles
from load.script import Script, compose
from load.service import arguments, machine, service
from load.talking import PARTS, RATE, Talk


@dataclass(slots=True)
class Turn:
    """One recording and its answer. Times in seconds; None where it did not come."""

    name: str
    heard: float | None = None
    parts: dict[str, float] | None = None
    transcript: str = ""
    problem: str | None = None


async def turn(url: str, key: str | None, name: str, script: Script, silence: int) -> Turn:
    """Say one recording in a session of its own and wait for the answer's first audible sample and its timing."""
    out = Turn(name)
    talk = await Talk.open(url, key, silence)
    try:
        answer = await talk.say(script, whole=False)
    finally:
        await talk.close()
    out.parts, out.transcript = answer.parts, answer.heard
    if answer.problems:
        out.problem = answer.problems[0]
    elif answer.sound.arrived is not None:
        out.heard = answer.sound.arrived - answer.voice_end
    return out


def recordings(folder: Path | None) -> list[tuple[str, Script]]:
    """Each recording with silence at both ends."""
    return [(clip.path.name, compose([clip], rate=RATE, lead=0.5)) for clip in corpora.recordings(folder)]


async def measure(
    url: str, key: str | None, scripts: Sequence[tuple[str, Script]], rounds: int, silence: int, tell: Any
) -> list[Turn]:
    turns: list[Turn] = []
    for number in range(rounds * len(scripts)):
        name, script = scripts[number % len(scripts)]
        tell(f"turn {number + 1} of {rounds * len(scripts)}: {name}")
        turns.append(await turn(url, key, name, script, silence))
    return turns


def rows(turns: Sequence[Turn]) -> list[tuple[str, ...]]:
    """p50, p95, most and count of what was heard and of each part."""
    whole = [one for one in turns if one.heard is not None and one.parts is not None]
    columns: dict[str, list[float]] = {"heard": [one.heard for one in whole if one.heard is not None]}
    for part in PARTS:
        columns[part.replace("_", " ")] = [one.parts[part] for one in whole if one.parts is not None]
    columns["not explained"] = [heard - total for heard, total in zip(columns["heard"], columns["total"], strict=True)]
    out = []
    for name, seconds in columns.items():
        figures = quantiles(seconds)
        shown = ("-" if figures[level] is None else f"{figures[level]:.0f}" for level in ("p50", "p95", "max"))
        out.append((name, *shown, str(figures["count"])))
    return out


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="times that each is said (default %(default)s)")
    parser.add_argument("--silence", type=int, default=500, help="silence_duration_ms (default %(default)s)")
    parser.add_argument("--recordings", type=Path, metavar="FOLDER", help="with .wav and .flac files to say instead")
    options = parser.parse_args()
    out, note, scripts = report.console(), machine(), recordings(options.recordings)
    with (
        service(options.url, ["--no-batch", *shlex.split(options.flags)]) as running,
        out.status("starting") as status,
    ):
        measuring = measure(running.url, options.key, scripts, options.rounds, options.silence, status.update)
        turns = asyncio.run(measuring)
    out.print(note, highlight=False, style="dim")
    title = f"end of the voice to the answer, {len(turns)} turns, milliseconds"
    out.print(report.table(title, ("part", "p50", "p95", "most", "count"), rows(turns)))
    missed = [f"{one.name}: {one.problem}" for one in turns if one.problem]
    if options.json:
        told = {"machine": note, "silence": options.silence, "turns": [asdict(one) for one in turns], "missed": missed}
        options.json.write_text(json.dumps(told, indent=1, ensure_ascii=False))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
