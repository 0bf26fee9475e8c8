"""Listeners: each is spoken to on a socket of its own, plays what comes, and notices what is missing or late."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from load.harness.arrivals import Arrivals, come
from load.harness.judging import FAILURES
from load.harness.trial import Begun, Objective, Outcome, Unit, unseen
from load.harness.watch import watching
from load.listeners import attend
from load.playing import UNDERRUN, Utterance
from load.service import Running
from load.speak_client import Speechlane

FIRST, BYTE = "first audible sample", "first byte"
UTTERANCES, UNDERRUNS, BUFFERED = "utterances", "underruns", "underruns with a buffer of 100 ms"
USUAL, COMING = Objective(FIRST, 1.0), Arrivals(spread=6.0)


@dataclass(slots=True)
class TtsTrial:
    """A listener hears utterances of one to six sentences, whose words come as a language model writes them.

    A unit is an utterance; it is late when its first audible sample is played later than the objective, or when the
    sound stops for more than 10 ms before its end. In a closed loop a client hears one after another, each as soon as
    the one before has been played, else one. `visit`: how long one takes on average, in seconds.
    """

    objective: Objective = USUAL
    arrivals: Arrivals = COMING
    visit: float = 8.0
    begun: Begun = field(default=unseen)

    kind = "tts"
    own = FIRST

    async def run(self, running: Running, clients: int, seconds: float, seed: int) -> Outcome:
        """As `Trial.run` says."""
        arrivals = self.arrivals
        moments = arrivals.moments(clients, seconds, self.visit, seed)
        out, server = Outcome(len(moments)), Speechlane(running.url, running.key)
        self.begun(out)
        async with watching(running, seconds) as out.watched:
            begun = time.monotonic()
            end = begun + seconds

            async def one(number: int, due: float) -> None:
                chance = random.Random(f"listener {seed} {number}")
                came = {"heard": False, "refused": False}

                def keep(due: float, heard: Utterance) -> None:
                    came["refused" if heard.refused else "heard"] = True
                    self._judge(out, number, due - begun, begun, heard)

                try:
                    await attend(server, chance, due, due if arrivals.open else end, keep)
                except FAILURES as error:
                    out.wrong(f"client {number}: {error!r}")
                # Who was turned away, if only once, is not somebody whom the service carries.
                out.refused += came["refused"]
                out.admitted += came["heard"] and not came["refused"]

            await come(moments, one)
        out.limits += out.watched.limits()
        return out

    def _judge(self, out: Outcome, number: int, due: float, begun: float, heard: Utterance) -> None:
        """Take in one utterance that was due so many seconds from the beginning."""
        if heard.refused:
            out.count("utterances refused")
            return
        problem = heard.problem or ("nothing audible came" if heard.heard is None else None)
        if problem is not None or heard.heard is None or heard.first is None:
            out.wrong(f"client {number}: {problem}")
            out.end(Unit(number, due, None, True))
            return
        first, longest = heard.heard - begun - due, max(heard.bare.gaps, default=0.0)
        out.took(FIRST, first)
        out.took(BYTE, heard.first - begun - due)
        for gap in heard.bare.gaps:
            if gap > UNDERRUN:
                out.took("silence in the sound", gap)
        out.count(UTTERANCES)
        out.count(UNDERRUNS, longest > UNDERRUN)
        out.count(BUFFERED, max(heard.buffered.gaps, default=0.0) > UNDERRUN)
        late = first > self.objective.seconds or longest > UNDERRUN
        out.end(
            Unit(number, due, due + first, late, f"{heard.bare.received:.1f} s of sound, gaps {1000 * longest:.0f} ms")
        )
