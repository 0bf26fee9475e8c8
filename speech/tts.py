"""What a speaker asks of a voice and what it gets back. Any synthesis model on the step loop speaks this.

A segment of text is planned once and then rendered window by window; one window of one stream is one task. So pacing,
parking, starving for text and cancelling need nothing more than not asking for the next window.

Samples are mono float32 in [-1, 1] at the voice's own rate; counts of samples and frames are int, times in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from speech.text.spoken import Spoken
from workers.backend import Backend

Sound = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class VoiceInfo:
    """A voice as clients may name it. `rate` in Hz; `exact` False when it can only be synthesised a segment at once."""

    name: str
    model: str
    languages: tuple[str, ...]
    rate: int
    exact: bool = True
    aliases: tuple[str, ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True)
class Phonemes:
    """What the model is given for a segment.

    `ids` are the model's symbols; `sources[i]` is the index of the token (in the tokens given) that symbol i came from,
    -1 for padding. `text` shows the phonemes of each token, '' for those that have no sound.
    """

    ids: tuple[int, ...]
    sources: tuple[int, ...]
    text: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SegmentText:
    """One segment to speak. `speed` is a factor of the voice's own pace; `seed` and `index` fix its noise.

    `first`: of its stream, so head silence is trimmed and the first window is short. Character ranges of `tokens` are
    those of the segment's text.
    """

    tokens: tuple[Spoken, ...]
    phonemes: Phonemes
    speed: float = 1.0
    seed: int = 0
    index: int = 0
    first: bool = False


class Voicing:
    """A segment while it is spoken for one stream, and whatever the backend keeps for it between windows."""

    __slots__ = ("segment", "cache", "released")

    def __init__(self, segment: SegmentText) -> None:
        self.segment = segment
        self.cache: Any = None
        self.released = False

    def release(self) -> None:
        """Nobody wants more of it: the backend's caches go, those that a running step still makes too."""
        self.released = True
        self.cache = None


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Durations and prosody of a segment; answered by `Planned`."""

    voicing: Voicing


@dataclass(frozen=True, slots=True)
class TimedToken:
    """When a token sounds: seconds from the first sample of its segment (after the trim of head silence)."""

    token: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Planned:
    """`windows` holds the samples of each window in order; their sum is the segment's length, 0 windows: no sound.

    A model that learns its length only while it speaks gives `windows` as None: windows then go on until one is last.
    """

    windows: tuple[int, ...] | None
    times: tuple[TimedToken, ...] = ()


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """Window `window` (from 0) of a planned segment; answered by `Rendered`. Asked for in order, one at a time."""

    voicing: Voicing
    window: int


@dataclass(frozen=True, slots=True)
class Rendered:
    """The window's samples [n]. `times`: tokens whose times became known with it (models without a plan)."""

    samples: Sound = field(repr=False)
    last: bool = False
    times: tuple[TimedToken, ...] = ()


OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15")
"""Names under which OpenAI's clients ask for speech; they stand for whatever model has the voice."""


class Voice(Protocol):
    """A voice that can be put on devices."""

    info: VoiceInfo
    apart: bool
    """Its steps wait for another process, so it gets a device of its own instead of a place on those of the models."""

    def phonemes(self, tokens: Sequence[Spoken]) -> Phonemes:
        """The model's symbols for normalised text. Pure, from any thread; milliseconds, so not on the event loop."""

    def backend(self) -> Backend:
        """A replica for one device; its `spec.model` is `info.model`."""
