"""Domain events of live transcription. They know no wire protocol; adapters in the gateway translate them.

All times are seconds on the stream's own clock: 0.0 is the first sample that the client sent.
`utterance` counts from 0 within a stream. For every `Committed` there is exactly one `Final` or `Failed`, in the order
of the commits, and no event of utterance n+1 other than `SpeechStarted`/`SpeechStopped`/`Committed` precedes the end
of utterance n.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workers.errors import ServingError
from workers.task import Work


@dataclass(frozen=True, slots=True)
class Word:
    """One word with its times (seconds, stream clock) and the model's probability in [0, 1]."""

    text: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Voice was found; `at` includes the prefix padding, so it is where the utterance's audio begins."""

    utterance: int
    at: float


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """The voice ended; `at` includes the trailing silence that was waited for, so it is where the audio ends."""

    utterance: int
    at: float


@dataclass(frozen=True, slots=True)
class Committed:
    """The audio [start, end) of the utterance is closed; its Final or Failed will follow.

    `reason`: "vad" (silence), "client" (commit), "length" (cut at the quietest point), "idle" (frames stopped
    mid-word), "end" (the stream closed).
    """

    utterance: int
    start: float
    end: float
    reason: str


@dataclass(frozen=True, slots=True)
class Partial:
    """Words so far. `stable` is the *new* stable text to append, never retracted; `unstable` the whole tail.

    Concatenating every `stable` of an utterance gives its stable text. `audio_end` is the time up to which audio was
    heard for this partial; `lag` is the seconds between the arrival of that audio and this event, `model_seconds` those
    of them in which the models' devices were stepping.
    """

    utterance: int
    stable: str
    unstable: str
    audio_end: float
    lag: float = 0.0
    words: tuple[Word, ...] = ()
    model_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Final:
    """The authoritative text of an utterance; `text` may be '' when nothing was said."""

    utterance: int
    text: str
    words: tuple[Word, ...]
    start: float
    end: float
    language: str
    confidence: float
    no_speech: float
    speech_seconds: float
    lag: float = 0.0
    tokens: tuple[Token, ...] = field(default=())
    model_seconds: float = 0.0
    works: tuple[Work, ...] = field(default=(), compare=False, repr=False)
    """The newest tasks that were done for it, in the order of their ends: "vad" for the one that heard its end,
    "partial", "final"."""
    made_at: float = field(default=0.0, compare=False, repr=False)
    """On the clock of the devices, as the times of `works`."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a final with its log probability, for clients that ask for logprobs."""

    text: str
    bytes: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The utterance could not be transcribed; the stream goes on."""

    utterance: int
    error: ServingError
    works: tuple[Work, ...] = field(default=(), compare=False, repr=False)
    made_at: float = field(default=0.0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cleared:
    """Uncommitted audio was thrown away at the client's wish."""


@dataclass(frozen=True, slots=True)
class IdleTimeout:
    """No speech for the configured idle time; [start, end) is the silent span."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Lagging:
    """The stream runs behind: partials are being skipped, `seconds` of audio wait. Sent once per episode."""

    seconds: float


Event = SpeechStarted | SpeechStopped | Committed | Partial | Final | Failed | Cleared | IdleTimeout | Lagging
