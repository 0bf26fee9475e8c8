"""A job as everybody sees it: what was asked, how far it is, what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from speech.cues import SubtitleRules as SubtitleRules

FORMATS = ("txt", "srt", "vtt", "tsv", "json")


class State(StrEnum):
    """In the order in which a job goes through them; the last four are ends."""

    QUEUED = "queued"
    RUNNING = "running"
    """Its audio is being decoded, cut and transcribed, all at once."""
    REPAIRING = "repairing"
    """Suspicious spans are being transcribed again."""
    WRITING = "writing"
    DONE = "done"
    PARTIAL = "partial"
    """Done, with holes: some audio could not be transcribed. The result names them."""
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (State.DONE, State.PARTIAL, State.FAILED, State.CANCELLED)


class Priority(StrEnum):
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class Channels(StrEnum):
    """MIX: all channels together. EACH: a transcript for each channel, merged by time (calls)."""

    MIX = "mix"
    EACH = "each"


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What a client may ask for. `language` None: found by vote over the speech."""

    model: str = "tiny.en"
    language: str | None = None
    prompt: str = ""
    keywords: tuple[str, ...] = ()
    channels: Channels = Channels.MIX
    priority: Priority = Priority.NORMAL
    repair: bool = True
    repair_model: str | None = None
    """Another model for the last attempt of a repair; None: the same."""
    subtitles: SubtitleRules = field(default_factory=SubtitleRules)
    webhook: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A snapshot of a job. Times are Unix time (seconds); durations in seconds of audio."""

    id: str
    name: str
    """The file's name as the client gave it; shown, never opened."""
    options: JobOptions
    state: State
    source: str
    """sha256 of the file's bytes in the spool."""
    owner: str = ""
    """Whose job it is: the name of the key that submitted it; "" on the own machine."""
    created: float = 0.0
    started: float | None = None
    ended: float | None = None
    decoded: float = 0.0
    """Audio decoded so far."""
    expected: float | None = None
    """What the container says its length is, as far as it says it."""
    split: bool = False
    """The whole file is decoded and cut, so `decoded` and `chunks` are final."""
    speech: float = 0.0
    """Speech found so far by voice activity (all channels together)."""
    channels: int = 1
    """Channels that are transcribed apart."""
    silent: float = 0.0
    """Of the decoded audio, what is in no chunk."""
    covered: float = 0.0
    """Audio of the chunks that have been transcribed or given up, over all channels together."""
    chunks: int = 0
    chunks_done: int = 0
    chunks_failed: int = 0
    repairs: int = 0
    repairs_done: int = 0
    error: str | None = None
    """Why it failed, in words a person can act on."""
    waiting: str | None = None
    """What it waits for, when something is short that it needs."""
    warnings: tuple[str, ...] = ()
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds of work by stage: "decode" (with voice activity), "asr" (step time), "repair" (step time), "write"."""
    precisions: dict[str, str] = field(default_factory=dict)
    """What all workers transcribe it with, by model and kind of device: {"tiny.en cpu": "bfloat16/int8"}."""

    @property
    def settled(self) -> float:
        """Seconds of the audio that are silent, transcribed or given up."""
        return min(self.decoded, self.silent + self.covered / self.channels)

    @property
    def progress(self) -> float:
        """Share of the audio that is settled, 0 to 1; 1 only when the job has ended well."""
        if self.state in (State.DONE, State.PARTIAL):
            return 1.0
        whole = self.decoded if self.split else max(self.decoded, self.expected or 0.0)
        return min(0.99, self.settled / whole) if whole else 0.0
