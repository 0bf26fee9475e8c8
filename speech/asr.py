"""What the transcriber asks of an ASR backend and what it gets back. Any ASR model on the step loop speaks this.

Samples are mono float32 in [-1, 1] at 16 kHz; times are seconds from the first sample of the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speech.events import Token, Word

SAMPLE_RATE = 16_000
Samples = NDArray[np.float32]

WINDOW_SECONDS = 30.0
"""The longest audio one request may carry: Whisper's window."""


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """How to decode. `language` None means detect (multilingual models); `prompt` and `keywords` bias the words."""

    language: str | None = None
    prompt: str = ""
    keywords: tuple[str, ...] = ()
    timestamps: bool = False
    """Let the model place segment times among the tokens (files); live utterances are single segments."""
    temperatures: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    task: str = "transcribe"


class Utterance:
    """The audio of one utterance while it grows, and whatever the backend keeps for it between partials.

    The transcriber appends; the backend reads `samples[:n]` and stores its caches in `cache`.
    """

    __slots__ = ("_buffer", "length", "cache", "released")

    def __init__(self) -> None:
        self._buffer: Samples = np.zeros(2 * SAMPLE_RATE, np.float32)
        self.length = 0
        self.cache: Any = None
        self.released = False

    def append(self, samples: Samples) -> None:
        """Add samples; past the window the caller must have cut (ValueError)."""
        end = self.length + len(samples)
        if end > int(WINDOW_SECONDS * SAMPLE_RATE):
            raise ValueError("an utterance is at most 30 s; cut it before it grows past the window")
        if end > len(self._buffer):
            grown = np.zeros(max(end, 2 * len(self._buffer)), np.float32)
            grown[: self.length] = self._buffer[: self.length]
            self._buffer = grown
        self._buffer[self.length : end] = samples
        self.length = end

    def release(self) -> None:
        """No partial of it is wanted any more: the backend's caches go, those that a running step still makes too."""
        self.released = True
        self.cache = None

    @property
    def samples(self) -> Samples:
        """The audio so far, without a copy. A reader on another thread slices it to the length it was told."""
        return self._buffer[: self.length]


@dataclass(frozen=True, slots=True)
class PartialRequest:
    """Hypothesis over `utterance.samples[:end]` (samples), decoded after `stable` tokens; caches are reused."""

    utterance: Utterance
    end: int
    stable: tuple[int, ...] = ()
    options: DecodeOptions = DecodeOptions()


@dataclass(frozen=True, slots=True)
class FinalRequest:
    """The authoritative transcript of `samples` (at most 30 s), decoded with fallback.

    `draft` is a guess at its tokens (the last partial's): it is verified in one step and only speeds the work up; the
    text is the same with any draft.
    """

    samples: Samples
    options: DecodeOptions = DecodeOptions()
    draft: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A partial's answer. `tokens` continue after the forced ones; `pieces` are their texts, word by word.

    `pieces[i]` is (word text with its leading space, number of tokens it takes from `tokens`).
    """

    tokens: tuple[int, ...]
    pieces: tuple[tuple[str, int], ...]
    language: str = "en"


@dataclass(frozen=True, slots=True)
class Transcript:
    """A final's answer. `text` is '' when the model holds that nothing was said."""

    text: str
    words: tuple[Word, ...]
    tokens: tuple[Token, ...]
    language: str
    language_probability: float
    avg_logprob: float
    no_speech: float
    compression_ratio: float
    temperature: float
    seconds: float
    token_ids: tuple[int, ...] = ()
    """Text tokens, in the order of `tokens`."""
    segments: tuple[tuple[str, int], ...] = ()
    """(text, number of its tokens) as the model itself divided the text, when `timestamps` was asked for."""
