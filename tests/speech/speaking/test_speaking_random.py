"""Random lives of several streams on one device: whatever comes in whatever order, the promises hold."""

from __future__ import annotations

import asyncio
import random

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speech.speaking.config import SpeakConfig
from speech.speaking.events import Progress, SpeechDone, SpeechFailed
from speech.speaking.speaker import Speaker
from speech.speaking.tally import Tally
from tests.speech.speaking.sines import RATE, WINDOW, WORD, State
from tests.speech.speaking.stage import Listener, Stage, stage
from workers.errors import BackendFailed, InputInvalid, ServingError

PIECES = ("One two. ", "three ", "Four five six seven eight nine. ", "te", "n ", "!", " ", "\n\n", "11", "poison ")


class Life:
    """One stream: what it was told, and what came of it."""

    def __init__(self, made: Stage, dice: random.Random, tally: Tally) -> None:
        self.made, self.dice = made, dice
        self.speed = dice.choice((0.5, 1.0))
        config = SpeakConfig(seed=dice.randrange(9), lead=dice.choice((0.5, 1.75, None)), speed=self.speed)
        self.speaker = Speaker(config, voice=made.voice, pool=made.pool, tally=tally, clock=made.clock)
        self.listener = Listener(self.speaker, made.clock)
        self.reader = asyncio.create_task(self.listener.listen())
        self.text = ""
        self.ended = self.held = False
        self.answer: Progress | None = None
        self.events_at_cancel = 0

    async def act(self) -> None:
        await self.dice.choice((self.say, self.say, self.say, self.wait, self.wait, self.wait, self.flush, self.report,
                                self.hold, self.resume, self.end, self.cancel, self.stop_reading))()  # fmt: skip

    async def say(self) -> None:
        piece = self.dice.choice(PIECES)
        try:
            await self.speaker.say(piece)
        except InputInvalid:
            assert self.ended or self.answer
        except BackendFailed:
            assert "poison" in self.text
        else:
            assert not self.ended and self.answer is None
            self.text += piece

    async def flush(self) -> None:
        try:
            await self.speaker.flush()
        except ServingError:
            assert self.ended or self.answer or "poison" in self.text

    async def end(self) -> None:
        if self.dice.random() < 0.5:
            await self.speaker.end()
            self.ended = True

    async def wait(self) -> None:
        await asyncio.sleep(self.dice.choice((0.0, 0.003, 0.05, 0.7)))

    async def report(self) -> None:
        self.speaker.played(self.dice.uniform(0, self.speaker.progress().made + 0.2))

    async def hold(self) -> None:
        self.speaker.hold()
        self.held = True

    async def resume(self) -> None:
        self.speaker.resume()
        self.held = False

    async def stop_reading(self) -> None:
        if self.dice.random() < 0.2:
            self.reader.cancel()

    async def cancel(self) -> None:
        if self.dice.random() < 0.3:
            answer = await self.speaker.cancel()
            assert self.answer is None or answer is self.answer
            if self.answer is None:
                self.answer, self.events_at_cancel = answer, len(self.listener.events)

    async def finish(self) -> None:
        self.speaker.resume()
        await self.speaker.end()
        if not self.reader.cancelled() and not self.reader.cancelling():
            await self.reader
        if self.answer is None:
            now = self.speaker.progress()
            assert now.spoken + now.unspoken == self.text and now.played <= now.made + 1e-6
        await self.speaker.close()

    def check(self) -> None:
        sound, listener = self.listener.sound, self.listener
        if self.answer is not None:
            assert self.answer.spoken + self.answer.unspoken == self.text
            assert len(listener.events) == self.events_at_cancel
        elif not self.reader.cancelled():
            if isinstance(listener.end, SpeechFailed):
                assert isinstance(listener.end.error, BackendFailed) and "poison" in self.text
            else:
                assert listener.end == SpeechDone(len(sound) / RATE)
                assert len(sound) == round(len(listener.words) * WORD * RATE / self.speed)
        for word in listener.words:
            assert word.text == self.text[word.start_char : word.end_char]
            assert word.end > word.start
        starts = [word.start_char for word in listener.words]
        assert starts == sorted(starts)
        assert np.isfinite(sound).all()


@settings(max_examples=200, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**64 - 1), length=st.integers(1, 60))
def test_every_life_keeps_the_promises(seed: int, length: int) -> None:
    dice = random.Random(seed)
    made = stage(a=dice.choice((0.001, 0.05)), k=0.002, items=dice.choice((1, 4)))

    def mishap(states: list[State]) -> None:
        if len(states) > 1 and dice.random() < 0.05:
            raise RuntimeError("CUDA out of memory")

    made.voice.made.before_step = mishap
    tally = Tally(made.clock)

    async def play() -> list[Life]:
        lives: list[Life] = []
        for _ in range(length):
            if (len(lives) < 4 and dice.random() < 0.3) or not lives:
                lives.append(Life(made, dice, tally))
            await dice.choice(lives).act()
        for life in lives:
            await life.finish()
        return lives

    lives = made.run(play())
    for life in lives:
        life.check()
    assert made.quiet, "nothing is left on the device"
    assert tally.speaking == 0
    assert -1e-6 <= tally.wasted <= tally.made + len(lives) * WINDOW / RATE + WORD
