"""Conversations: each client says a recording, hears the answer to its end, says the next."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from load import corpora
from load.client import Refused
from load.corpora import Clip
from load.harness.arrivals import Arrivals, come
from load.harness.judging import FAILURES, compare, refusal
from load.harness.trial import Begun, Objective, Outcome, Unit, unseen
from load.harness.tts import BUFFERED, UNDERRUNS, UTTERANCES
from load.harness.watch import watching
from load.playing import UNDERRUN
from load.scoring import plain
from load.script import Script, compose
from load.service import Running
from load.talking import PATIENCE, RATE, Answer, Talk

HEARD, COMMIT = "end of speech → first audible sample", "commit → first audible sample"
ECHO = "You said: "
"""How the embedded assistant begins, which then repeats what it heard."""
USUAL, COMING = Objective(HEARD, 1.5), Arrivals(spread=4.0)


@dataclass(slots=True)
class VoiceTrial:
    """A conversation over /v1/realtime with whatever assistant the service has.

    A unit is a turn; it is late when the first audible sample of its answer comes more than the objective after the
    last voice of the recording, or when the answer has a gap. In a closed loop a client talks for the whole run, else
    for about `visit` seconds. `silence`: ms that end a turn.
    """

    objective: Objective = USUAL
    arrivals: Arrivals = COMING
    recordings: Sequence[Clip] = ()
    silence: int = 500
    visit: float = 20.0
    patience: float = PATIENCE
    most_errors: float | None = None
    begun: Begun = field(default=unseen)

    kind = "voice"
    own = COMMIT

    async def run(self, running: Running, clients: int, seconds: float, seed: int) -> Outcome:
        """As `Trial.run` says."""
        moments = self.arrivals.moments(clients, seconds, self.visit, seed)
        out = Outcome(len(moments))
        scripts = await asyncio.to_thread(self._scripts)
        self.begun(out)
        async with watching(running, seconds) as out.watched:
            begun = time.monotonic()

            async def one(number: int, due: float) -> None:
                end = due + self.visit if self.arrivals.open else begun + seconds
                try:
                    talk = await Talk.open(running.url, running.key, self.silence, self.patience)
                except Refused as refused:
                    refusal(out, refused, number)
                    return
                except FAILURES as error:
                    out.wrong(f"client {number}: {error!r}")
                    return
                out.admitted += 1
                try:
                    await self._talk(out, talk, number, begun, end, random.Random(f"talk {seed} {number}"), scripts)
                finally:
                    await talk.close()

            await come(moments, one)
        out.limits += out.watched.limits()
        return out

    def _scripts(self) -> list[Script]:
        return [compose([clip], rate=RATE, lead=0.5) for clip in self.recordings or corpora.recordings(None)]

    async def _talk(
        self,
        out: Outcome,
        talk: Talk,
        number: int,
        begun: float,
        end: float,
        chance: random.Random,
        scripts: Sequence[Script],
    ) -> None:
        """One conversation: at least one turn, the last begins before `end`. Over when something goes wrong in it."""
        pairs: list[tuple[str, str]] = []
        while True:
            script = chance.choice(scripts)
            answer = await talk.say(script)
            self._judge(out, number, answer, begun, script)
            pairs.append((script.lines[0].clip.text, answer.heard))
            if answer.problems or time.monotonic() >= end:
                break
        compare(out, number, pairs, self.most_errors)

    def _judge(self, out: Outcome, number: int, answer: Answer, begun: float, script: Script) -> None:
        """Take in one turn."""
        sound, due = answer.sound, answer.voice_end - begun
        problems = list(answer.problems)
        if not problems and sound.heard is None:
            problems.append("nothing audible was answered")
        if answer.reply.startswith(ECHO) and not _repeats(answer):
            problems.append(f"{answer.heard!r} was heard and {answer.reply!r} answered")
        for problem in problems:
            out.wrong(f"client {number}: {problem}")
        if answer.interrupted:
            out.count("answers interrupted by the rest of a recording", answer.interrupted)
        if sound.heard is None:
            out.end(Unit(number, due, None, True))
            return
        first, longest = sound.heard - answer.voice_end, max(sound.bare.gaps, default=0.0)
        out.took(HEARD, first)
        if answer.committed is not None:
            out.took(COMMIT, sound.heard - answer.committed)
        for part, seconds in (answer.parts or {}).items():
            out.took(f"the service's own account: {part.replace('_', ' ')}", seconds)
        out.count(UTTERANCES)
        out.count(UNDERRUNS, longest > UNDERRUN)
        out.count(BUFFERED, max(sound.buffered.gaps, default=0.0) > UNDERRUN)
        late = first > self.objective.seconds or longest > UNDERRUN
        out.end(Unit(number, due, due + first, late, script.lines[0].clip.text))


def _repeats(answer: Answer) -> bool:
    """Whether the embedded assistant said what was heard last, whole."""
    said = plain(answer.reply.removeprefix(ECHO))
    return bool(said) and plain(answer.heard)[-len(said) :] == said
