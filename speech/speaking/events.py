"""What a speaker tells of its speech. Knows no protocol. Times are seconds and samples on the stream's own clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from speech.tts import Sound
from workers.errors import ServingError
from workers.task import Work


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """A word of the original text, heard from `start` to `end`. Characters are code points of all text given."""

    text: str
    start_char: int
    end_char: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class WordsTimed:
    """Words whose first sample has not been handed out yet, in order."""

    words: tuple[SpokenWord, ...]


@dataclass(frozen=True, slots=True)
class SoundMade:
    """Samples [n] (mono float32 at the voice's rate) from `start` (samples) on; each follows the one before."""

    start: int
    samples: Sound = field(repr=False)
    segment: int = 0
    """Of the text, counted from 0, that it is of."""
    works: tuple[Work, ...] = field(default=(), compare=False, repr=False)
    """The tasks that it took: "window", and before the first one of a segment "plan"."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the listener heard it. `spoken` + `unspoken` is all text given; `characters` is the border between them.

    `played` is seconds heard as far as known (the listener's reports, else the clock), `made` seconds of sound made.
    """

    spoken: str
    unspoken: str
    characters: int
    played: float
    made: float


@dataclass(frozen=True, slots=True)
class SpeechDone:
    """All text given has been handed out as sound (or there was nothing to say). `seconds` of sound in all."""

    seconds: float


@dataclass(frozen=True, slots=True)
class SpeechFailed:
    """Nothing more comes; what was handed out before holds."""

    error: ServingError


SpeechEvent = WordsTimed | SoundMade | SpeechDone | SpeechFailed
