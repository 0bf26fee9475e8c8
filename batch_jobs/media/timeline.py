"""The file's clock: where decoded sound belongs by the file's own time stamps, and where sound is missing.

Players go by time stamps, so a word is found again only when lost or damaged sound leaves its time behind. Small
deviations are the rounding of containers and are let be; they cannot add up, because every stamp is compared with the
whole of what was decoded before it.
"""

from __future__ import annotations

from dataclasses import dataclass

DAMAGED = "the file is damaged here"
MISSING = "the file has no sound here: data is missing or damaged"
CUT_OFF = "the file ends here, but says that it is longer: it was cut off"
SHORT = "the file says that it is longer: this much is missing at its end, or where it is damaged"
UNREAD = "the file is damaged from here on, and its rest (this long, more or less) could not be read"

_JITTER = 0.1
"""Seconds by which time stamps may be ahead of the sound."""
_JITTER_EXACT = 0.01
"""The same at the start, where a decoder may keep its first frames, and behind damage, where sound is missing."""
_PAUSE = 0.5
"""Seconds of missing sound from which on it is a hole in files of transmissions that pause in silence (WebM)."""
_LONGEST_GAP = 600.0
"""Seconds that time stamps may leap when the file does not say how long it is."""
_SHORTEST = 0.02
"""Seconds that damage is given when the time stamps go on as if nothing were lost."""
_TOGETHER = 0.5
"""Seconds between two holes of a kind up to which they are told as one."""
_MOST_SPANS = 1000
_UNREAD = 0.05
"""Share of the bytes that may be tags and an index behind the sound."""


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds [start, end) of the file without its sound, and why."""

    start: float
    end: float
    reason: str


class Timeline:
    """Told of every frame in order; tells how much silence goes before it. Times in seconds."""

    def __init__(self, origin: float | None, claimed: float | None, pauses: bool) -> None:
        """`origin`: time stamp of the file's start, None for that of the first frame. `pauses`: sound may pause."""
        self.clock = 0.0
        """Where the next sound belongs, if it joins on."""
        self.damaged = 0
        """Packets that did not decode."""
        self.filled = 0.0
        self.leaps = 0
        """Times at which the stamps went back, or ahead beyond reason, and were not followed."""
        self._origin, self._claimed = origin, claimed
        self._notable = _PAUSE if pauses else _JITTER
        self._open: float | None = None
        self._doubtful = False
        self._spans: list[Span] = []

    def damage(self, *, decodes: bool = False) -> None:
        """A packet did not decode, or `decodes` but is known to be damaged."""
        self.damaged += 1
        self._doubtful = decodes
        if self._open is None:
            self._open = self.clock

    def place(self, stamp: float | None, length: float) -> float:
        """Seconds of silence that go before a frame, `length` seconds long, with this time stamp."""
        gap = 0.0
        if stamp is not None:
            if self._origin is None:
                self._origin = stamp - self.clock
            gap = stamp - self._origin - self.clock
            room = _LONGEST_GAP if self._claimed is None else max(self._claimed - self.clock, 0.0) + 1.0
            if gap < -_JITTER or gap > room:
                self._origin += gap
                self.leaps += 1
            exact = self._open is not None or self.clock == 0.0
            if gap <= (_JITTER_EXACT if exact else _JITTER) or gap > room:
                gap = 0.0
        start, self.clock = self.clock, self.clock + gap
        self.filled += gap
        if self._open is not None:
            end = self.clock + length if self._doubtful else self.clock
            self._add(self._open, max(end, self._open + _SHORTEST), DAMAGED)
            self._open = None
        elif gap >= self._notable:
            self._add(start, self.clock, MISSING)
        self.clock += length
        return gap

    def spans(self, end: float, unread: float) -> tuple[Span, ...]:
        """All that is missing of a file whose sound ended at `end`; `unread`: how much of it could not be read, as a
        share of what was."""
        if unread > _UNREAD:
            self._add(end, max(end * (1 + unread), self._claimed or 0.0), UNREAD)
        elif self._claimed is not None:
            tolerance = _SHORTEST if self._open is not None else min(max(0.25, 0.05 * self._claimed), 1.0)
            if end < self._claimed - tolerance:
                self._add(end, self._claimed, SHORT if self._spans else CUT_OFF)
        return tuple(self._spans)

    def _add(self, start: float, end: float, reason: str) -> None:
        last = self._spans[-1] if self._spans else None
        if last is not None and (
            (last.reason == reason and start - last.end <= _TOGETHER) or len(self._spans) >= _MOST_SPANS
        ):
            self._spans[-1] = Span(last.start, max(last.end, end), last.reason)
        else:
            self._spans.append(Span(start, end, reason))
