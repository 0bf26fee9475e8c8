"""One voice speaking to one listener: text in as it comes, sound out in time.

say -> segments -> phonemes (off the loop) -> plan -> windows, one at a time -> events
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator

from speech.speaking.config import SpeakConfig, checked
from speech.speaking.events import Progress, SoundMade, SpeechEvent
from speech.speaking.making import Maker
from speech.speaking.outlet import Outlet
from speech.speaking.pacing import Pacing
from speech.speaking.playback import Playback
from speech.speaking.script import Script
from speech.speaking.tally import Tally
from speech.speaking.words import Words
from speech.tts import Voice
from workers.capacity import Lease
from workers.clock import Clock, monotonic
from workers.errors import InputInvalid
from workers.pool import Placed, Pool


class Speaker:
    """One stream on a running event loop, for one reader of `events`. Made by `Engine.open_speech`.

    What is made ahead of the listener is bounded by the configuration's `lead`, so a reader who takes nothing, and a
    listener whose reports stand still, stop their own stream alone. `lease`, the stream's share of a device, is
    released as soon as all its sound is made; `place` is the device of a stream without one. Raises InputInvalid when
    `config` has a value out of range.
    """

    def __init__(
        self,
        config: SpeakConfig,
        *,
        voice: Voice,
        pool: Pool,
        lease: Lease | None = None,
        place: Placed | None = None,
        tally: Tally | None = None,
        clock: Clock = monotonic,
    ) -> None:
        self.rate = voice.info.rate
        """Samples in a second of its sound."""
        self._lease, self._paced = lease, config.lead is not None
        self._tally = tally if tally is not None else Tally(clock)
        self._script = Script(checked(config).split, config.max_characters, clock)
        self._words = Words()
        self._playback = Playback(clock)
        self._pacing = Pacing(self._playback, config.lead, clock)
        self._outlet = Outlet(self._taken, clock)
        self._told = False
        self._answer: Progress | None = None
        self._maker = Maker(
            config,
            voice,
            pool,
            lease or place,
            script=self._script,
            words=self._words,
            pacing=self._pacing,
            outlet=self._outlet,
            tally=self._tally,
            clock=clock,
            ended=self._ended,
        )
        self._tally.opened(self._maker)

    async def say(self, text: str) -> None:
        """More text, in pieces of any size.

        Raises InputInvalid after the end, InputTooLarge for more than 2**20 characters, and whatever ended the stream.
        """
        self._alive()
        self._script.give(text)
        self._maker.wake()

    async def flush(self) -> None:
        """Speak what there is without waiting for the end of its sentence. Raises what `say` raises."""
        self._alive()
        self._script.flush()
        self._maker.wake()

    async def end(self) -> None:
        """No more text comes: what there is is spoken, then the events end. Idempotent."""
        self._script.end()
        self._maker.wake()

    def played(self, seconds: float) -> None:
        """The listener reports to have heard so many seconds of the sound. Raises InputInvalid when that is no time."""
        self._playback.report(seconds)
        self._maker.retime()

    def sent(self, seconds: float) -> None:
        """So many seconds of the sound have left for the listener. Raises InputInvalid.

        Until this is said for the first time, sound counts as sent when the reader takes its event.
        """
        if not (math.isfinite(seconds) and seconds >= 0):
            raise InputInvalid("what was sent is a number of seconds, 0 or more", param="sent")
        self._told = True
        self._playback.hand(min(seconds, self._pacing.made))
        self._maker.retime()

    def hold(self) -> None:
        """Make and hand out nothing more for now: somebody may be interrupting. `resume` goes on with what was next."""
        self._outlet.hold(True)
        self._maker.hold(True)

    def resume(self) -> None:
        """Go on after `hold` with the same samples."""
        self._outlet.hold(False)
        self._maker.hold(False)

    def progress(self) -> Progress:
        """How far the listener has heard it by now, or had when it was cancelled. A word counts once it has ended."""
        if self._answer is not None:
            return self._answer
        text, heard = self._script.text, self._playback.heard
        border = self._words.border(heard)
        return Progress(text[:border], text[border:], border, heard, self._pacing.made)

    async def cancel(self) -> Progress:
        """Stop: no event follows, and on the device no more than the step that runs. Idempotent.

        What was made and not heard counts as wasted; of a file, what was made and not taken.
        """
        if self._answer is None:
            self._answer = self.progress()
            heard = self._answer.played if self._paced else self._playback.sent
            self._tally.wasted += self._pacing.made - heard + self._maker.under_way
            self._script.ended = True
            self._outlet.close(drop=True)
        await self._maker.stop()
        return self._answer

    async def close(self) -> None:
        """Free everything. Sound that nobody took counts as wasted. Idempotent."""
        if not (self._maker.finished and self._outlet.empty):
            await self.cancel()
        self._outlet.close(drop=True)
        await self._maker.stop()

    def events(self) -> AsyncGenerator[SpeechEvent, None]:
        """Events as they come, for one reader: ends after SpeechDone, SpeechFailed, `cancel` or `close`."""
        return self._outlet.events()

    def _alive(self) -> None:
        if self._maker.error is not None:
            raise self._maker.error
        if self._answer is not None or self._script.ended:
            raise InputInvalid("the text of this stream has ended; open another one", param="text")

    def _taken(self, event: SpeechEvent) -> None:
        if isinstance(event, SoundMade) and not self._told:
            self._playback.hand((event.start + len(event.samples)) / self.rate)
            self._maker.retime()

    def _ended(self) -> None:
        self._tally.ended(self._maker)
        if self._lease is not None:
            self._lease.release()
