"""When the next window of a stream may be asked for, and how urgent it is.

A listener who can be interrupted is kept at most `lead` seconds ahead: what is made beyond that is thrown away when
they speak. Inside that cap a stream that is far ahead asks on a beat that all streams share, so that the windows of
many listeners come together and make one batch; a stream that is behind asks at once. With the deadlines this is the
ramp: a young stream has a short buffer, hence near deadlines, and catches up before others get further ahead.
"""

from __future__ import annotations

import math

from speech.speaking.playback import Playback
from workers.clock import Clock
from workers.task import Lane

TARGET = 0.4
"""Seconds from a segment's text to its sound, where nothing is playing meanwhile."""
AGED = 0.2
"""Seconds after which a first sound joins the race of those who listen already,"""
FIRST_SOUND = 1.0
"""to be there so long after its text: before windows that can wait, behind those that cannot."""
GUARD = 0.15
"""Seconds before the listener's buffer runs dry at which a window is wanted: the way to the listener takes some."""
BEAT = 0.2
PLAN_AHEAD = 1.0
"""Seconds beyond the lead at which the next segment is planned."""
UNREAD = 10.0
"""Seconds of sound that may wait for the reader of a file."""
FILE_WITHIN = 5.0
_ROUNDING = 1e-6


class Pacing:
    """The pace of one stream. `lead` in seconds; None is a file: as fast as it is read, in nobody's way."""

    def __init__(self, playback: Playback, lead: float | None, clock: Clock) -> None:
        self._playback, self._lead, self._clock = playback, lead, clock
        self.made = 0.0
        """Seconds of sound made so far."""

    @property
    def ahead(self) -> float:
        """Seconds made and not yet heard."""
        return self.made - self._playback.heard

    def window_at(self, seconds: float) -> float:
        """The moment from which a window of so many seconds may be asked for; inf: not before more has been taken.

        A window longer than half the lead may be asked for when half the lead is left.
        """
        if self._lead is None:
            return -math.inf if self.made - self._playback.sent <= UNREAD else math.inf
        return self._when_left(max(self._lead - seconds, self._lead / 2))

    def plan_at(self, planned: float) -> float:
        """The same for planning a segment that begins `planned` seconds into the sound."""
        if self._lead is None:
            return -math.inf
        return self._when_left(self._lead + PLAN_AHEAD - (planned - self.made))

    def _when_left(self, left: float) -> float:
        """When what is made ahead of the listener has shrunk to `left` seconds."""
        position = self.made - left
        if position <= self._playback.heard + _ROUNDING:
            return -math.inf
        return (
            math.ceil(self._playback.reaches(position) / BEAT) * BEAT if position <= self._playback.sent else math.inf
        )

    def urgency(self, position: float, arrived: float) -> tuple[Lane, float]:
        """Lane and deadline of what has to be there when the listener comes to `position` of the sound.

        Text that arrived later than the listener needed it is wanted within the target, like the first.
        """
        now = self._clock()
        if self._lead is None:
            return Lane.INTERACTIVE, now + FILE_WITHIN
        if not self.made:
            return Lane.PARTIAL, arrived + TARGET
        return Lane.FINAL, max(self.dry_at(position), arrived + TARGET) - GUARD

    def dry_at(self, position: float) -> float:
        """When the listener will have heard everything up to `position`, if it is sent in time."""
        return self._playback.dry_at + position - self._playback.sent
