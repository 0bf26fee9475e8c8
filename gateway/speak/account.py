"""What the service's metrics learn of one speech: its first sound, how long it got, the gaps its listener heard."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from gateway.metrics import Metrics
from gateway.telemetry.speaking import spoken
from speech.speaking.events import SpeechEvent
from speech.speaking.playback import Playback
from workers.clock import Clock, monotonic

if TYPE_CHECKING:
    from speech.speaking.speaker import Speaker

SLACK = 0.010
"""Seconds that a sound may come after the listener's buffer ran dry and still not count as a gap."""
STARVED = 1.0
"""Text that was given later than so many seconds before the buffer ran dry is the client's gap, not ours."""


class Account:
    """One speech, "live" (a listener plays it as it comes) or "file". `end` it in every case."""

    def __init__(self, metrics: Metrics, kind: str, clock: Clock = monotonic) -> None:
        self._metrics, self._kind, self._clock = metrics, kind, clock
        self._playback = Playback(clock)
        self._asked: float | None = None
        self._given = 0
        self._came: deque[tuple[int, float]] = deque()  # characters in all, and when they were all there
        self._next = 0.0  # when the text of the sound that comes next was given
        self._forgiven = False
        self._ended = False

    def events(self, speaker: Speaker) -> AsyncIterator[SpeechEvent]:
        """Those of the speech, watched on their way."""
        return spoken(speaker.events(), speaker.rate, self._metrics)

    def text(self, text: str) -> None:
        """More text was given."""
        now = self._clock()
        self._given += len(text)
        if self._asked is None and not text.isspace():
            self._asked = now
        if self._came and now - self._came[-1][1] < SLACK:
            now = self._came.pop()[1]
        self._came.append((self._given, now))

    def word(self, first: int) -> None:
        """The sound that comes next says the word that begins at this character."""
        while self._came and self._came[0][0] <= first:
            self._came.popleft()
        if self._came:
            self._next = self._came[0][1]

    def sound(self, until: float) -> None:
        """Sound up to `until` (seconds) was handed on."""
        now, sent = self._clock(), self._playback.sent
        if not sent:
            self._metrics.first_sound(self._kind, now - (self._asked if self._asked is not None else now))
        elif self._kind == "live" and not self._forgiven:
            dry = self._playback.dry_at
            if now > dry + SLACK and self._next + STARVED < dry:
                self._metrics.underrun()
        self._forgiven = False
        self._playback.hand(until)
        self._metrics.speech_sent(self._kind, until - sent)

    def played(self, seconds: float) -> None:
        """The listener's own report."""
        self._playback.report(seconds)

    def held(self) -> None:
        """The client wanted a pause, which is no gap."""
        self._forgiven = True

    def end(self, outcome: str) -> None:
        """It is "done", "cancelled" or "failed". The first call counts."""
        if not self._ended:
            self._ended = True
            self._metrics.speech_ended(outcome)
