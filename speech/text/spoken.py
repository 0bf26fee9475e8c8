"""What text for speech is made of: things to say, each with the characters of the original text it came from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spoken:
    """One thing to say: words as they are spoken ("twenty three", "doctor") or a single punctuation mark.

    `start` and `end` are the range of code points of the original text it came from; `rule` names what made it
    ("word", "cardinal", "money", "punctuation", "lexicon"…). `phonemes`, when a lexicon gives them, are spoken as they
    are.
    """

    text: str
    start: int
    end: int
    rule: str = "word"
    phonemes: str = ""
