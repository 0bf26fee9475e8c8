"""When the words of a segment sound, for voices whose model does not say: by a usual pace of speech.

An estimate, and the same whenever it is asked for: it depends on the text and on where a window lies, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from speech.text.spoken import Spoken
from speech.tts import TimedToken
from speech.voices.joined import has_sound

CHARACTERS_PER_SECOND = 15.0


def characters(tokens: Sequence[Spoken]) -> int:
    """Length of what is to be said, spaces included."""
    return sum(len(token.text) + 1 for token in tokens if has_sound(token))


def estimate(tokens: Sequence[Spoken], start: float, end: float, *, last: bool) -> tuple[TimedToken, ...]:
    """The tokens that begin in the window from `start` to `end` (seconds from the segment's first sample).

    With the last window come all that are left, pressed into it if there is need; a segment of one window is spread
    over it. Every token that has a sound is in exactly one window.
    """
    sounding = [i for i, token in enumerate(tokens) if has_sound(token)]
    ends = [n / CHARACTERS_PER_SECOND for n in accumulate(len(tokens[i].text) + 1 for i in sounding)]
    begins = [0.0, *ends[:-1]]
    here = [n for n, at in enumerate(begins) if start <= at and (last or at < end)]
    if not here:
        return ()
    squeeze = 1.0
    if last and (start <= 0 or ends[-1] > end):
        squeeze = max(0.0, end - begins[here[0]]) / (ends[-1] - begins[here[0]])
    zero = min(begins[here[0]], end)
    return tuple(
        TimedToken(
            sounding[n], zero + (begins[n] - begins[here[0]]) * squeeze, zero + (ends[n] - begins[here[0]]) * squeeze
        )
        for n in here
    )
