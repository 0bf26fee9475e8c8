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
import base64
import json
import math
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from load import corpora, report
from load.client import append
from load.playing import Utterance
from load.scoring import quantiles
from load.script import Script, compose
from load.service import arguments, machine, service

RATE = 16_000
FRAME = 0.02
OUT_RATE = 24_000
PARTS = ("vad", "final", "language_model", "speech", "total")
PATIENCE = 20.0
"""Seconds in which an answer must come."""


@dataclass(slots=True)
class Turn:
    """One recording and its answer. Times in seconds; None where it did not come."""

    name: str
    heard: float | None = None
    parts: dict[str, float] | None = None
    transcript: str = ""
    problem: str | None = None


def settings(silence: int) -> str:
    """The session: our own turn detection, and the parts of each answer's time."""
    spoken = {
        "format": {"type": "audio/pcm", "rate": RATE},
        "transcription": {"language": "en"},
        "turn_detection": {"type": "server_vad", "silence_duration_ms": silence},
    }
    heard = {"format": {"type": "audio/pcm", "rate": OUT_RATE}}
    session = {"type": "realtime", "include": ["x.timing"], "audio": {"input": spoken, "output": heard}}
    return json.dumps({"type": "session.update", "session": session})


async def turn(url: str, key: str | None, name: str, script: Script, silence: int) -> Turn:
    """Say one recording in a session of its own and wait for the answer's first audible sample and its timing."""
    out = Turn(name)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    target = f"ws://{urlsplit(url).netloc}/v1/realtime?intent=conversation"
    async with connect(target, additional_headers=headers, proxy=None, compression=None, max_queue=None) as socket:
        await socket.send(settings(silence))
        sent: list[float] = []
        saying = asyncio.create_task(_say(socket, script, sent))
        try:
            limit = script.seconds + PATIENCE
            answer = await asyncio.wait_for(_answer(socket, out), limit)
            if answer is not None:
                end = sent[min(math.ceil(round(script.lines[-1].voice_end / FRAME, 6)) - 1, len(sent) - 1)]
                out.heard = answer - end
        except TimeoutError:
            out.problem = f"no answer within {PATIENCE:g} s"
        except ConnectionClosed as closed:
            out.problem = f"closed: {closed}"
        finally:
            saying.cancel()
            await asyncio.gather(saying, return_exceptions=True)
    return out


async def _say(socket: ClientConnection, script: Script, sent: list[float]) -> None:
    """The recording, then silence for as long as it takes."""
    size = round(FRAME * RATE)
    data = script.samples.astype("<i2").tobytes()
    begun, number, silent = time.monotonic(), 0, append(bytes(2 * size))
    while True:
        pcm = data[2 * size * number : 2 * size * (number + 1)]
        message = append(pcm) if pcm else silent
        number += 1
        if (wait := begun + number * FRAME - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        sent.append(time.monotonic())
        await socket.send(message)


async def _answer(socket: ClientConnection, out: Turn) -> float | None:
    """The moment of the answer's first audible sample; None, with `problem`, when there is none."""
    sound = Utterance(0.0, OUT_RATE)
    while sound.arrived is None or out.parts is None:
        event = json.loads(await socket.recv())
        now, kind = time.monotonic(), event["type"]
        if kind == "response.output_audio.delta":
            sound.receive(now, base64.b64decode(event["delta"]))
        elif kind == "x.response.timing":
            out.parts = {part: event[part] for part in PARTS}
        elif kind == "conversation.item.input_audio_transcription.completed":
            out.transcript = event["transcript"]
        elif kind == "error":
            out.problem = event["error"]["message"]
            return None
        elif kind == "response.done" and event["response"]["status"] == "failed":
            out.problem = json.dumps(event["response"]["status_details"])
            return None
    return sound.arrived


def recordings(folder: Path | None) -> list[tuple[str, Script]]:
    """Each recording with silence at both ends."""
    if folder is None:
        clips = list(corpora.bundled())
    else:
        found = sorted(path for path in folder.rglob("*") if path.suffix in (".wav", ".flac"))
        clips = [corpora.Clip(path, "", "en") for path in found]
    return [(clip.path.name, compose([clip], rate=RATE, lead=0.5)) for clip in clips]


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
