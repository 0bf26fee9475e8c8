"""Streams of live transcription: each says real recordings at the speed of speech and checks every word that comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from load import corpora
from load.client import Heard, Refused, stream
from load.corpora import Clip
from load.harness.arrivals import Arrivals, come
from load.harness.judging import FAILURES, compare, refusal
from load.harness.trial import Begun, Objective, Outcome, Unit, unseen
from load.harness.watch import watching
from load.scoring import Latencies, Utterance, by_line, track, utterances
from load.script import Script, conversation
from load.service import Running

FINAL, TRIP, COMMIT, WORD, OPEN = (
    "end of speech → final", "chunk round trip", "commit → final", "first stable word", "connected",
)  # fmt: skip
NAMES = {"round_trip": TRIP, "final": FINAL, "final_commit": COMMIT, "first_word": WORD}
FRAMES = (0.02, 0.1)
USUAL, COMING = Objective(FINAL, 1.0), Arrivals()


@dataclass(slots=True)
class AsrTrial:
    """A stream says recordings in random order, with pauses of 1 to 2 s, in frames of 20 or 100 ms.

    A unit is a recording; it is late when its last final comes more than the objective after its voice has ended (as
    Silero hears it offline). In a closed loop a client has one stream for the whole run, else one of `visit` seconds.
    `most_errors`: the word error rate in percent that a stream may have; None: it is only told.
    """

    objective: Objective = USUAL
    arrivals: Arrivals = COMING
    recordings: Sequence[Clip] = ()
    rate: int = 16_000
    visit: float = 20.0
    patience: float = 30.0
    most_errors: float | None = None
    begun: Begun = field(default=unseen)

    kind = "asr"
    own = TRIP

    async def run(self, running: Running, clients: int, seconds: float, seed: int) -> Outcome:
        """As `Trial.run` says."""
        length = min(self.visit, seconds) if self.arrivals.open else seconds
        moments = self.arrivals.moments(clients, seconds, length, seed)
        out = Outcome(len(moments))
        scripts = await asyncio.to_thread(self._scripts, len(moments), length, seed)
        self.begun(out)
        async with watching(running, seconds) as out.watched:
            begun = time.monotonic()

            async def one(number: int, due: float) -> None:
                script, frame = scripts[number], FRAMES[number % len(FRAMES)]
                try:
                    heard = await stream(
                        running.url, script, frame=frame, key=running.key, patience=self.patience, told=heed(out)
                    )
                except Refused as refused:
                    refusal(out, refused, number)
                except FAILURES as error:
                    out.wrong(f"client {number}: {error!r}")
                else:
                    out.admitted += 1
                    out.took(OPEN, heard.begun - due)
                    self._judge(out, number, heard, begun)

            await come(moments, one)
        out.limits += out.watched.limits()
        return out

    def _scripts(self, count: int, length: float, seed: int) -> list[Script]:
        said = self.recordings or corpora.recordings(None)
        return [conversation(said, length, 1000 * seed + number, rate=self.rate) for number in range(count)]

    def _judge(self, out: Outcome, number: int, heard: Heard, begun: float) -> None:
        """Take in one stream that has ended."""
        said, broken = utterances(heard)
        for one in broken:
            out.wrong(f"client {number}: {one}")
        latencies = Latencies()
        latencies.add(heard, said)
        for field_name, name in NAMES.items():
            for seconds in getattr(latencies, field_name):
                out.took(name, seconds)
        lines = by_line(heard, said)
        for line, parts in lines:
            due = heard.due_at(line.voice_end)
            finals = [one.final_at for one in parts if one.text]
            ended = max(finals) if finals else None
            late = ended is None or ended - due > self.objective.seconds
            out.end(Unit(number, due - begun, None if ended is None else ended - begun, late, line.clip.text))
            if ended is None:
                length = line.voice_end - line.voice_start
                out.wrong(f"client {number}: nothing was heard of {line.clip.path.name} ({length:.1f} s of voice)")
        compare(out, number, [(line.clip.text, _text(parts)) for line, parts in lines], self.most_errors)
        if out.track is None:
            out.track = track(heard, said)


def _text(parts: Sequence[Utterance]) -> str:
    return " ".join(one.text or "" for one in parts)


def heed(out: Outcome) -> Any:
    """Counts what comes while a stream goes on."""

    def told(event: dict[str, Any]) -> None:
        if event["type"].endswith("transcription.completed"):
            out.count("finals")
        elif event["type"] == "x.transcription.unstable":
            out.count("partials")

    return told
