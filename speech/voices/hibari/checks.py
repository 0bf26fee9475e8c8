"""What a segment must be like for this voice to speak it."""

from __future__ import annotations

from speech.tts import SegmentText
from speech.voices.hibari.plan import SYMBOLS
from workers.errors import InputInvalid, InputTooLarge

MAX_PHONEMES = 2000
"""Phonemes of a segment: about two minutes of speech, far beyond any sentence."""
SLOWEST, FASTEST = 0.25, 4.0


def check_plan(segment: SegmentText) -> None:
    """Raises InputInvalid or InputTooLarge; both say what to do."""
    ids, sources = segment.phonemes.ids, segment.phonemes.sources
    if not SLOWEST <= segment.speed <= FASTEST:
        raise InputInvalid(f"speed is between {SLOWEST} and {FASTEST}", param="speed")
    if len(ids) > MAX_PHONEMES:
        raise InputTooLarge(
            f"one segment is at most {MAX_PHONEMES} phonemes, this one is {len(ids)}; "
            "cut the text at the ends of sentences or clauses",
            param="text",
        )
    if len(ids) != len(sources) or any(not 0 <= symbol < SYMBOLS for symbol in ids):
        raise InputInvalid("these are not phonemes of this voice", param="phonemes")
