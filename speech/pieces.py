"""Audio for one decode, where it lies on the stream's clock, and what the segmenter says of it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from speech.asr import SAMPLE_RATE, Samples, Utterance
from speech.config import StreamConfig

_QUIET = SAMPLE_RATE // 50


class Piece:
    """Audio for one decode: its samples, where they lie on the stream clock, and where voice was heard in them."""

    __slots__ = ("_offsets", "_positions", "audio", "config", "speech", "utterance")

    def __init__(self, utterance: int, config: StreamConfig) -> None:
        self.utterance = utterance
        self.config = config
        self.audio = Utterance()
        self.speech: list[tuple[int, int]] = []
        self._offsets: list[int] = []
        self._positions: list[int] = []

    @property
    def length(self) -> int:
        return self.audio.length

    @property
    def start(self) -> int:
        return self._positions[0]

    def append(self, samples: Samples, position: int) -> None:
        """Add `samples` whose first lies at `position` on the stream clock."""
        if not len(samples):
            return
        if not self._offsets or self.position(self.length) != position:
            self._offsets.append(self.length)
            self._positions.append(position)
        self.audio.append(samples)

    def voice(self, start: int, end: int) -> None:
        """Voice was heard in [start, end) on the stream clock."""
        if self.speech and start <= self.speech[-1][1]:
            self.speech[-1] = (self.speech[-1][0], max(end, self.speech[-1][1]))
        else:
            self.speech.append((start, end))

    def position(self, offset: int) -> int:
        """Stream position of a sample of the piece."""
        run = max(bisect_right(self._offsets, offset) - 1, 0)
        return self._positions[run] + offset - self._offsets[run]

    def spans(self, first: int, last: int) -> list[tuple[int, int]]:
        """Where samples [first, last) lie on the stream clock: in one stretch, or one on each side of a gap."""
        seams = [offset for offset in self._offsets if first < offset < last]
        edges = [first, *seams, max(last, first)]
        return [(at := self.position(start), at + end - start) for start, end in pairwise(edges)]

    def offset(self, position: int) -> int:
        """Sample of the piece at a stream position, or the nearest one before it that was kept."""
        run = max(bisect_right(self._positions, position) - 1, 0)
        end = self._offsets[run + 1] if run + 1 < len(self._offsets) else self.length
        return min(max(self._offsets[run] + position - self._positions[run], 0), end)

    def runs(self) -> list[tuple[int, int]]:
        """Its stretches on the stream clock: where each begins, and how many samples it has."""
        ends = [*self._offsets[1:], self.length]
        return [
            (at, end - first)
            for at, first, end in zip(self._positions, self._offsets, ends, strict=True)
            if end > first
        ]

    def split(self, offset: int, utterance: int, config: StreamConfig) -> Piece:
        """Give all from sample `offset` on to a new piece of `utterance`; the samples of this one stay readable."""
        at = self.position(offset)
        tail = Piece(utterance, config)
        ends = [*self._offsets[1:], self.length]
        for first, last, position in zip(self._offsets, ends, self._positions, strict=True):
            cut = min(max(offset, first), last)
            tail.append(self.audio.samples[cut:last], position + cut - first)
        for start, end in self.speech:
            if end > at:
                tail.voice(max(start, at), end)
        self.speech = [(start, min(end, at)) for start, end in self.speech if start < at]
        return tail


@dataclass(frozen=True, slots=True)
class Started:
    utterance: int
    at: int


@dataclass(frozen=True, slots=True)
class PartialDue:
    """A partial over the first `end` samples of `piece` is due; `at` is that moment on the stream clock.

    Not `settled`: too little was heard, or a cut at the longest may still fall before `end`, so that no new word may
    be called stable.
    """

    piece: Piece
    end: int
    at: int
    settled: bool


@dataclass(frozen=True, slots=True)
class Paused:
    """The voice has been silent so long that `samples` will be the piece's audio, unless it comes back."""

    piece: Piece
    samples: Samples


@dataclass(frozen=True, slots=True)
class Sealed:
    """`samples` are the piece's audio for good: its final can be made. `last`: the utterance ends with it."""

    piece: Piece
    samples: Samples
    last: bool


@dataclass(frozen=True, slots=True)
class Stopped:
    utterance: int
    at: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The utterance [start, end) is complete: all its pieces (maybe none) were sealed before."""

    utterance: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class Idle:
    start: int
    end: int


Signal = Started | PartialDue | Paused | Sealed | Stopped | Closed | Idle


def quietest(samples: Samples, first: int, last: int | None = None) -> int:
    """The middle of the quietest 100 ms of samples[first:last], on a grid of 20 ms; `first` when that is too short."""
    frames = samples[first:last]
    count = len(frames) // _QUIET
    if count < 5:
        return first
    power = np.square(frames[: count * _QUIET].reshape(count, _QUIET), dtype=np.float64).mean(axis=1)
    around = np.convolve(power, np.ones(5), mode="valid")
    return first + (int(np.argmin(around)) + 2) * _QUIET + _QUIET // 2


def voiced(piece: Piece) -> float:
    """Seconds of voice heard in the piece."""
    return sum(end - start for start, end in piece.speech) / SAMPLE_RATE
