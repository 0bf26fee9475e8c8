"""The making of a stream's sound: segments are planned, then rendered window by window, each when it is wanted.

Two coroutines share the work. One turns text into planned segments, at most one ahead of the one that sounds; the other
asks for the windows of the planned ones when the listener's clock says so. So nothing is under way on a device but one
plan and one window, which is all that a cancel can cost.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from speech.speaking.config import SpeakConfig
from speech.speaking.events import SoundMade, SpeechDone, SpeechFailed, WordsTimed
from speech.speaking.outlet import Outlet
from speech.speaking.pacing import AGED, FIRST_SOUND, GUARD, TARGET, Pacing
from speech.speaking.script import Script
from speech.speaking.tally import Tally
from speech.speaking.words import Words
from speech.text.normaliser import normalise
from speech.text.segmenter import TextSegment
from speech.text.spoken import Spoken
from speech.tts import Phonemes, Planned, PlanRequest, Rendered, RenderRequest, SegmentText, Voice, Voicing
from workers.clock import Clock
from workers.errors import BackendFailed, Cancelled, Expired, Overloaded, ServingError
from workers.handle import Handle
from workers.pool import Placed, Pool
from workers.task import Lane, Phase, Work

log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds for which sound may wait for a reader who takes nothing, before the stream ends."""


@dataclass(slots=True)
class _Part:
    """A planned segment. Without `voicing` it has no sound."""

    segment: TextSegment
    arrived: float
    tokens: tuple[Spoken, ...]
    voicing: Voicing | None
    plan: Planned
    index: int = 0
    work: Work | None = None
    """What the plan took."""


class Maker:
    """Works from the moment it is made, on a running event loop, until everything is said or `stop`."""

    def __init__(
        self,
        config: SpeakConfig,
        voice: Voice,
        pool: Pool,
        place: Placed | None,
        *,
        script: Script,
        words: Words,
        pacing: Pacing,
        outlet: Outlet,
        tally: Tally,
        clock: Clock,
        ended: Callable[[], None],
    ) -> None:
        self._config, self._voice, self._pool, self._place = config, voice, pool, place
        self._script, self._words, self._pacing, self._outlet = script, words, pacing, outlet
        self._tally, self._clock, self._ended = tally, clock, ended
        self.rate = voice.info.rate
        self.error: ServingError | None = None
        self.finished = False
        """Nothing more will be made: all is said, or `error` says why not."""
        self._samples = 0
        self._planned = 0.0  # the sound's length when everything planned has been made
        self._plans: asyncio.Queue[_Part | ServingError | None] = asyncio.Queue(1)
        self._voicings: set[Voicing] = set()
        self._window: Handle | None = None
        self._arrived = self._seconds = 0.0  # of the window under way
        self._held = False
        self._changed = asyncio.Event()
        self._tasks = (asyncio.create_task(self._plan_all()), asyncio.create_task(self._run()))

    # -- what its speaker says

    def wake(self) -> None:
        """Text has come, or sound was taken."""
        self._changed.set()

    def retime(self) -> None:
        """The listener's clock has changed: so has the deadline of the window under way."""
        if self._window is not None and self._pacing.made:
            lane, deadline = self._pacing.urgency(self._pacing.made, self._arrived)
            self._window.move(deadline, lane)
        self._changed.set()

    def hold(self, held: bool) -> None:
        """Ask for nothing more until it is let go again; a window that has not begun is asked for again then."""
        self._held = held
        if held and self._window is not None and self._window.phase is Phase.WAITING:
            self._window.cancel()
        self._changed.set()

    @property
    def under_way(self) -> float:
        """Seconds of the window that a device works on."""
        return self._seconds if self._window is not None and self._window.timing.started_at else 0.0

    async def stop(self) -> None:
        """End all work; a step that runs goes on for nobody. Idempotent, and whole though whoever waits gives up."""
        for task in self._tasks:
            task.cancel()
        try:
            await asyncio.wait(self._tasks)
        finally:
            self._free()

    def _free(self) -> None:
        for voicing in self._voicings:
            voicing.release()
        self._voicings.clear()
        self._tasks[0].cancel()
        self._ended()

    # -- text to plans

    async def _plan_all(self) -> None:
        try:
            index, sounded = 0, False
            while (found := await self._segment()) is not None:
                part = await self._plan(*found, index, first=not sounded)
                sounded = sounded or part.plan.windows is None or sum(part.plan.windows) > 0
                index += 1
                await self._plans.put(part)
            await self._plans.put(None)
        except Exception as error:
            await self._plans.put(_as_told(error))

    async def _segment(self) -> tuple[TextSegment, float] | None:
        """The next segment and when it was complete; None when the text has ended."""
        script = self._script
        while (found := script.next()) is None:
            if script.look():
                await asyncio.sleep(0)
            elif script.ended:
                return None
            elif (since := script.stalled_since) is None:
                await self._pause(math.inf)
            else:
                # A break in mid-sentence is better than silence, but worse than waiting while there is sound.
                moment = since + self._config.stall
                if self._planned:
                    moment = max(moment, self._pacing.dry_at(self._planned) - TARGET)
                if self._clock() >= moment:
                    script.early()
                else:
                    await self._pause(moment)
        return found

    async def _plan(self, segment: TextSegment, arrived: float, index: int, *, first: bool) -> _Part:
        tokens, phonemes = await asyncio.to_thread(self._prepare, segment)
        if not phonemes.ids:
            return _Part(segment, arrived, tokens, None, Planned(()))
        config = self._config
        voicing = Voicing(SegmentText(tokens, phonemes, config.speed, config.seed, index, first))
        self._voicings.add(voicing)
        await self._until(lambda: self._pacing.plan_at(self._planned))
        planned: Planned
        planned, work = await self._ask(PlanRequest(voicing), self._planned, arrived)
        self._planned += sum(planned.windows or ()) / self.rate
        return _Part(segment, arrived, tokens, voicing, planned, index, work)

    def _prepare(self, segment: TextSegment) -> tuple[tuple[Spoken, ...], Phonemes]:
        """Not on the event loop: milliseconds."""
        tokens = tuple(normalise(segment.text, self._config.text, self._config.lexicon, code=segment.code))
        return tokens, self._voice.phonemes(tokens) if tokens else Phonemes((), (), ())

    # -- plans to sound

    async def _run(self) -> None:
        try:
            while (part := await self._plans.get()) is not None:
                if isinstance(part, ServingError):
                    raise part
                await self._speak(part)
            self._outlet.put(SpeechDone(self._pacing.made))
        except Exception as error:
            self.error = _as_told(error)
            self._outlet.put(SpeechFailed(self.error))
        self.finished = True
        self._outlet.close(drop=False)
        self._free()

    async def _speak(self, part: _Part) -> None:
        pacing, windows, voicing = self._pacing, part.plan.windows, part.voicing
        self._words.begin(part.segment.text, part.segment.start, part.tokens, pacing.made)
        self._words.learn(part.plan.times)
        number, last = 0, voicing is None or windows == ()
        works = [part.work] if part.work is not None else []
        while not last:
            assert voicing is not None
            if windows is not None:
                self._seconds = windows[number] / self.rate  # else as long as the one before
            await self._until(lambda: pacing.window_at(self._seconds))
            rendered: Rendered
            rendered, work = await self._ask(RenderRequest(voicing, number), pacing.made, part.arrived)
            works.append(work)
            number += 1
            last = number == len(windows) if windows is not None else rendered.last
            if self._sound(rendered, part.index, works):
                works = []
        if voicing is not None:
            voicing.release()
            self._voicings.discard(voicing)
        rest = self._words.end(pacing.made)
        if rest:
            self._outlet.put(WordsTimed(rest))

    def _sound(self, rendered: Rendered, segment: int, works: list[Work]) -> bool:
        """Hand on what was rendered, and what it took. False when there is no sound in it."""
        samples = rendered.samples
        if not np.isfinite(samples).all():
            raise BackendFailed("the voice made samples that are not numbers")
        self._words.learn(rendered.times)
        if not len(samples):
            return False
        start, self._samples = self._samples, self._samples + len(samples)
        self._seconds = len(samples) / self.rate
        self._pacing.made = self._samples / self.rate
        self._planned = max(self._planned, self._pacing.made)
        self._tally.sound(self, self._seconds)
        words = self._words.before(self._pacing.made)
        if words:
            self._outlet.put(WordsTimed(words))
        self._outlet.put(SoundMade(start, samples, segment, tuple(works)))
        return True

    # -- the devices

    async def _ask(self, request: PlanRequest | RenderRequest, position: float, arrived: float) -> tuple[Any, Work]:
        """The answer to a request whose sound belongs at `position`, and what it took. Raises ServingError."""
        window = isinstance(request, RenderRequest)
        while True:
            lane, deadline = self._pacing.urgency(position, arrived)
            ageing = None
            try:
                handle = self._pool.submit(request, lane=lane, deadline=deadline, lease=self._place)
                if lane is Lane.PARTIAL:
                    delay = max(0.0, arrived + AGED - self._clock())
                    loop = asyncio.get_running_loop()
                    ageing = loop.call_later(delay, handle.move, arrived + FIRST_SOUND - GUARD, Lane.FINAL)
                if window:
                    self._window, self._arrived = handle, arrived
                answer = await handle.result()
                self._tally.spent(handle.timing.share_seconds)
                return answer, Work("window" if window else "plan", handle.timing)
            except Overloaded as full:
                log.warning("a speaker waits for room: %s", full.message)
                await asyncio.sleep(min(full.retry_after, 1.0))
            except Cancelled:
                log.debug("a window is held back")
            finally:
                if window:
                    self._window = None
                if ageing is not None:
                    ageing.cancel()
            await self._until(lambda: -math.inf)

    async def _until(self, moment: Callable[[], float]) -> None:
        """Wait for a moment that changes with the listener's clock, and while held. Raises Expired."""
        while (at := math.inf if self._held else moment()) > self._clock():
            given_up = self._outlet.waits_since + PATIENCE
            if at == math.inf and self._clock() >= given_up:
                raise Expired(f"nobody has taken any sound for {PATIENCE:g} s")
            await self._pause(min(at, given_up) if at == math.inf else at)

    async def _pause(self, moment: float) -> None:
        """Wait for a change, at most until `moment`."""
        self._changed.clear()
        delay = None if moment == math.inf else max(0.0, moment - self._clock())
        try:
            async with asyncio.timeout(delay):
                await self._changed.wait()
        except TimeoutError:
            pass


def _as_told(error: Exception) -> ServingError:
    if isinstance(error, ServingError):
        return error
    log.error("a speaker broke", exc_info=error)
    failed = BackendFailed(f"the stream broke: {type(error).__name__}")
    failed.__cause__ = error
    return failed
