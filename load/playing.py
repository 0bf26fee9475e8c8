"""A listener's player: sound is played at the speed of speech from its first sample on; when it runs dry, that is
heard. Moments are seconds on one monotonic clock, `seconds` are lengths of sound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from load.capacity.binomial import upper_bound

FRAME = 0.020
LOUD = 10 ** (-45 / 20)
"""Root mean square, of full scale, above which a frame is audible."""
UNDERRUN = 0.010
"""Silence that is too short to be heard as a gap."""
GAPS = (0.050, 0.100, 0.200)


class Audible:
    """Finds the first audible frame of a sound that comes in pieces."""

    def __init__(self, rate: int) -> None:
        self._frame = round(FRAME * rate)
        self._rest: NDArray[np.float32] = np.zeros(0, np.float32)
        self._frames = 0
        self.at: float | None = None
        """Seconds from the first sample to the first audible frame; None while all was silence."""

    def feed(self, samples: NDArray[np.float32]) -> None:
        if self.at is not None:
            return
        waiting = np.concatenate((self._rest, samples))
        whole = len(waiting) // self._frame
        frames = waiting[: whole * self._frame].reshape(whole, self._frame)
        loud = np.sqrt(np.mean(frames**2, axis=1)) > LOUD
        if loud.any():
            self.at = (self._frames + int(loud.argmax())) * FRAME
        self._frames += whole
        self._rest = waiting[whole * self._frame :]


class Player:
    """Plays what it has received, beginning `buffer` seconds after the first sound came."""

    def __init__(self, buffer: float) -> None:
        self._buffer = buffer
        self.received = 0.0
        self.started: float | None = None
        self.dry_at = 0.0
        """When all that has been received will have been played."""
        self.gaps: list[float] = []
        """Seconds of each silence in which the player had nothing to play though the sound went on."""

    def receive(self, at: float, seconds: float) -> None:
        """More sound came."""
        if self.started is None:
            self.started = self.dry_at = at + self._buffer
        elif at > self.dry_at:
            self.gaps.append(at - self.dry_at)
            self.dry_at = at
        self.received += seconds
        self.dry_at += seconds

    def position(self, now: float) -> float:
        """Seconds of the sound that have been played."""
        return min(self.received, max(0.0, self.received - (self.dry_at - now)))


@dataclass(slots=True)
class Utterance:
    """One utterance as its listener had it, without and with a buffer of 100 ms.

    `asked`: when its first words were given. `problem`: why it was no whole utterance; `refused`: no place for it.
    """

    asked: float
    rate: int
    bare: Player = field(default_factory=lambda: Player(0.0))
    buffered: Player = field(default_factory=lambda: Player(0.100))
    audible: Audible = field(init=False)
    first: float | None = None
    """When the first sound came."""
    arrived: float | None = None
    """When the first audible sound came."""
    heard: float | None = None
    """When the player without a buffer played the first audible sound."""
    problem: str | None = None
    refused: bool = False

    def __post_init__(self) -> None:
        self.audible = Audible(self.rate)

    def receive(self, at: float, pcm: bytes) -> None:
        """16-bit mono sound came."""
        samples = np.frombuffer(pcm, "<i2")
        if not len(samples):
            return
        if self.first is None:
            self.first = at
        before = self.bare.received
        for player in (self.bare, self.buffered):
            player.receive(at, len(samples) / self.rate)
        if self.audible.at is None:
            self.audible.feed(samples.astype(np.float32) / np.float32(32768))
            if self.audible.at is not None:
                self.arrived = at
                # A frame may have begun in the piece before: then it is whole with this one.
                begun = self.bare.dry_at - (self.bare.received - max(self.audible.at, before))
                self.heard = max(at, begun)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of many utterances. `ended` were whole; `underruns` had a gap over 10 ms, `bound` is the 95 % upper bound of
    their share; `continuous` the share without a gap over 50, 100, 200 ms. Times in seconds, shares from 0 to 1.
    """

    ended: int
    refused: int
    failed: int
    underruns: int
    underruns_buffered: int
    bound: float
    audio: float
    starved_per_hour: float
    continuous: tuple[float, ...]
    first_byte: tuple[float, ...]
    first_sound: tuple[float, ...]

    @property
    def share(self) -> float:
        return self.underruns / self.ended if self.ended else 0.0


def outcome(utterances: Sequence[Utterance]) -> Outcome:
    """What came of them."""
    whole = [one for one in utterances if one.problem is None and not one.refused]
    longest = [max(one.bare.gaps, default=0.0) for one in whole]
    audio = sum(one.bare.received for one in whole)
    starved = sum(sum(one.bare.gaps) for one in whole)
    bad = sum(gap > UNDERRUN for gap in longest)
    return Outcome(
        ended=len(whole),
        refused=sum(one.refused for one in utterances),
        failed=sum(one.problem is not None for one in utterances),
        underruns=bad,
        underruns_buffered=sum(max(one.buffered.gaps, default=0.0) > UNDERRUN for one in whole),
        bound=upper_bound(bad, len(whole)),
        audio=audio,
        starved_per_hour=3600 * starved / audio if audio else 0.0,
        continuous=tuple(sum(gap <= limit for gap in longest) / max(1, len(whole)) for limit in GAPS),
        first_byte=tuple(one.first - one.asked for one in whole if one.first is not None),
        first_sound=tuple(one.heard - one.asked for one in whole if one.heard is not None),
    )
