"""A transcript while it is made: chunks of audio, what was heard in each, the whole, and what was mended.

Positions are samples at 16 kHz and times are seconds, both on the file's own clock. Everything here is plain data
that goes through JSON (`batch_jobs.wire`) and back unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from speech.events import Word


@dataclass(frozen=True, slots=True)
class Slice:
    """Samples [first, last) of a spooled part (mono 16-bit PCM at 16 kHz, little-endian)."""

    blob: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Run:
    """Audio [start, end) of the file, and where it lies in the spool, in order and without gaps."""

    start: int
    end: int
    audio: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one channel for one decode, at most 28 s of audio.

    `runs` are that audio, in order and apart; the silence between them was left out. `speech` are the spans of voice.
    """

    id: str
    channel: int
    runs: tuple[Run, ...]
    speech: tuple[tuple[int, int], ...]

    @property
    def start(self) -> int:
        return self.runs[0].start

    @property
    def end(self) -> int:
        return self.runs[-1].end

    @property
    def length(self) -> int:
        """Samples of audio, without the silence between the runs."""
        return sum(run.end - run.start for run in self.runs)


@dataclass(frozen=True, slots=True)
class Segment:
    """One stretch of speech as the model divided it; times in seconds on the file's clock."""

    start: float
    end: float
    text: str
    words: tuple[Word, ...]
    channel: int = 0
    language: str = ""
    avg_logprob: float = 0.0
    no_speech: float = 0.0
    compression_ratio: float = 1.0
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What was heard in a chunk."""

    segments: tuple[Segment, ...]
    language: str = ""
    language_probability: float = 1.0


@dataclass(frozen=True, slots=True)
class Hole:
    """Audio [start, end) (seconds) of which there is no transcript, and why."""

    start: float
    end: float
    channel: int
    reason: str


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A span that looks wrong: which rule found it, the value measured and the limit it broke."""

    rule: str
    start: float
    end: float
    channel: int
    value: float
    limit: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Repair:
    """A span that was transcribed again. `kept`: the new text stands; else the old one was better or equal."""

    start: float
    end: float
    channel: int
    reasons: tuple[Suspicion, ...]
    before: tuple[Segment, ...]
    after: tuple[Segment, ...]
    score_before: float
    score_after: float
    kept: bool
    how: str
    """The settings of the attempt that won or came nearest, in words."""
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """Where every second of the file went. All in seconds; speech and words over all channels together."""

    container: float | None
    """Length that the container claims; None when it claims none."""
    decoded: float
    speech: float
    """Voice found by voice activity."""
    words: float
    """Of the speech, what words cover (a word and the pauses of under a second beside it)."""
    missing: tuple[Hole, ...] = ()
    """Speech of a second and more without words, chunks that died, audio that did not decode."""
    channels: int = 1


@dataclass(frozen=True, slots=True)
class Transcript:
    """The result of a job."""

    segments: tuple[Segment, ...]
    account: Account
    language: str = ""
    repairs: tuple[Repair, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()
    """What still looks wrong after the repairs."""
    warnings: tuple[str, ...] = ()
    settings: dict[str, object] = field(default_factory=dict)
