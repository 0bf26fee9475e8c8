"""What a session says. All times are seconds since the first sample that was sent."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Word:
    """`confidence` is in [0, 1]; `text` has the space before it, if there is one."""

    text: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Started:
    """Somebody begins to speak. `utterance` names what they say in all events about it."""

    utterance: str
    start: float


@dataclass(frozen=True, slots=True)
class Partial:
    """What was understood so far: `stable` only grows; `unstable` continues it, spaces included, and may change."""

    utterance: str
    start: float
    stable: str
    unstable: str

    @property
    def text(self) -> str:
        """All of it."""
        return self.stable + self.unstable


@dataclass(frozen=True, slots=True)
class Final:
    """What was said, for good; `text` may be empty when it was no speech."""

    utterance: str
    text: str
    start: float
    end: float
    words: tuple[Word, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Failed:
    """An utterance could not be transcribed; the session goes on."""

    utterance: str
    start: float
    end: float
    message: str


@dataclass(frozen=True, slots=True)
class Gap:
    """What was said from `start` to `end` is lost, whole or in part: the service did not keep its session."""

    start: float
    end: float


Event = Started | Partial | Final | Failed | Gap
