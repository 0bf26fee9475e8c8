"""Which frames a window holds and how long a segment may get: by the text alone."""

from __future__ import annotations

import math

WINDOW = 6
"""Frames of a window: 0.5 s of sound at 12 frames a second."""
RAMP = (2, 4)
"""Frames of the first windows of a stream, so that its first sound comes early and the next ones in time."""
SECONDS_PER_CHARACTER = 0.25
"""Slower than this nobody speaks: what goes on for longer has lost its end."""
SECONDS_MORE = 2.0


def frames_of(window: int, *, first: bool) -> tuple[int, int]:
    """Begin and end (frames) of window `window` of a segment; `first` of its stream."""
    ramp = RAMP if first else ()
    begin = sum(ramp[:window]) + WINDOW * max(0, window - len(ramp))
    return begin, begin + (ramp[window] if window < len(ramp) else WINDOW)


def most_frames(characters: int, frame_seconds: float) -> int:
    """Frames after which a segment of so many characters is ended by force."""
    return math.ceil((SECONDS_MORE + SECONDS_PER_CHARACTER * characters) / frame_seconds)
