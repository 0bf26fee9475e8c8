"""What a speaker may be asked to do, checked once, protocol-free."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from speech.text.boundaries import Split
from speech.text.lexicon import Lexicon
from speech.text.options import TextOptions
from speech.text.segmenter import LONGEST
from workers.errors import InputInvalid

LEAST_SPEED, MOST_SPEED = 0.25, 4.0
SPLITS: tuple[Split, ...] = get_args(Split)
_MOST_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SpeakConfig:
    """One stream of speech. Times in seconds.

    `voice`: a name or alias, "" the default. `lead`: how far sound is made ahead of the listener; None is a file, made
    as fast as it is read when nobody live needs the device. `stall`: how long text may pause before what there is of a
    sentence is spoken. `max_characters`: the longest segment that is spoken in one piece.
    """

    voice: str = ""
    speed: float = 1.0
    seed: int = 0
    split: Split = "sentence"
    text: TextOptions = field(default_factory=TextOptions)
    lexicon: Lexicon = field(default_factory=Lexicon)
    lead: float | None = 1.75
    stall: float = 0.25
    max_characters: int = LONGEST


def checked(config: SpeakConfig) -> SpeakConfig:
    """The configuration itself. Raises InputInvalid naming a field that is out of range."""
    _within("speed", config.speed, LEAST_SPEED, MOST_SPEED)
    _within("seed", config.seed, 0, _MOST_SEED)
    _within("stall", config.stall, 0.05, 60.0)
    _within("max_characters", config.max_characters, 40, 2000)
    if config.lead is not None:
        _within("lead", config.lead, 0.5, 60.0)
    if config.split not in SPLITS:
        raise InputInvalid(f"split must be one of {', '.join(SPLITS)}, not {config.split!r}", param="split")
    return config


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputInvalid(f"{name} must be from {low:g} to {high:g}, not {value:g}", param=name)
