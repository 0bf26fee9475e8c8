"""What becomes of several channels: one mix that loses nothing, or each channel for itself.

Both look at a second of sound at a time, always the same seconds of the file, so the outcome knows nothing of how the
file was read. `take` gets [channel, sample] and tells which sound belongs to which channel of the transcript.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from speech.asr import Samples
from workers.errors import InputInvalid

MOST_SEPARATE = 8
_ALIVE = 10 ** (-65 / 10)
"""Power of a second over which a channel is in use: under the noise of a cheap microphone, over that of an idle line.
"""
_CANCELS = 0.1
"""Power of a mix beside that of unrelated channels, under which the channels cancel each other."""
_SILENT = 4 / 32_768
"""Peak up to which a channel that is kept apart has nothing on it yet."""
_SAME = 1e-4
"""Power of the difference of two channels, beside their own, up to which they carry the same sound (-40 dB)."""


class Rule(Protocol):
    """How channels become streams of sound."""

    def take(self, block: Samples, at: float) -> list[tuple[int, Samples]]:
        """(channel, its sound) of the second at `at` (seconds); a channel that came once comes ever after."""

    def warnings(self) -> list[str]:
        """What a person should know of the channels, in words, when all has been taken."""


class Mix:
    """All channels in one. A channel that was never in use has no part; one in opposite phase is turned round."""

    def __init__(self, channels: int) -> None:
        self._alive = np.zeros(channels, bool)
        self._signs = np.ones(channels, np.float32)
        self._turned: dict[int, float] = {}

    def take(self, block: Samples, at: float) -> list[tuple[int, Samples]]:
        if len(block) == 1:
            return [(0, block[0])]
        products = (block @ block.T) / block.shape[1]
        power = products.diagonal()
        self._alive |= power > _ALIVE
        live = self._alive if self._alive.any() else np.ones_like(self._alive)
        self._turn(products, live, at)
        chosen = np.flatnonzero(live)
        mono: Samples = block[chosen[0]] * self._signs[chosen[0]]
        for channel in chosen[1:]:
            mono += block[channel] * self._signs[channel]
        mono *= np.float32(1 / len(chosen))
        return [(0, mono)]

    def _turn(self, products: NDArray[np.float32], live: NDArray[np.bool_], at: float) -> None:
        """When the channels cancel each other as they are mixed now, turn those opposite to the loudest round.

        They stay so until the mix cancels again: channels that are not opposite any more lose nothing by it.
        """
        power = products.diagonal()
        if live.sum() < 2 or power[live].mean() <= _ALIVE or self._part(products, live, self._signs) >= _CANCELS:
            return
        loudest = int(np.argmax(np.where(live, power, 0)))
        signs = np.where(products[loudest] < 0, -1, 1).astype(np.float32)
        if self._part(products, live, signs) > self._part(products, live, self._signs):
            self._signs = signs
            for channel in np.flatnonzero(live & (signs < 0)):
                self._turned.setdefault(int(channel), at)

    @staticmethod
    def _part(products: NDArray[np.float32], live: NDArray[np.bool_], signs: NDArray[np.float32]) -> float:
        weights = signs * live
        return float(weights @ products @ weights / products.diagonal()[live].sum())

    def warnings(self) -> list[str]:
        told = []
        if self._alive.any():
            told = [
                f"channel {number + 1} of {len(self._alive)} is silent; it was left out of the mix"
                for number in np.flatnonzero(~self._alive)
            ]
        for channel, at in sorted(self._turned.items()):
            told.append(
                f"channel {channel + 1} of {len(self._alive)} is in opposite phase from {at:.0f} s on, which would have"
                " cancelled the sound; it was turned round for the mix"
            )
        return told


class Each:
    """Every channel for itself, from the first second on in which it has sound that no other channel has too."""

    def __init__(self, channels: int) -> None:
        """InputInvalid(param="channels") when there are too many to be kept apart."""
        if channels > MOST_SEPARATE:
            raise InputInvalid(
                f"the file has {channels} channels, and at most {MOST_SEPARATE} can be transcribed apart; mix them",
                param="channels",
            )
        self._count = channels
        self._apart: list[int] = []
        self._like: dict[int, int] = {}

    def take(self, block: Samples, at: float) -> list[tuple[int, Samples]]:
        for channel in range(self._count):
            if channel not in self._apart and not self._told_already(channel, block):
                self._apart.append(channel)
        return [(channel, block[channel]) for channel in self._apart]

    def _told_already(self, channel: int, block: Samples) -> bool:
        sound = block[channel]
        if np.abs(sound).max(initial=0) <= _SILENT:
            return True
        for other in self._apart:
            apart = sound - block[other]
            if apart @ apart <= _SAME * (sound @ sound) or np.abs(apart).max() <= _SILENT:
                self._like[channel] = other
                return True
        return False

    def warnings(self) -> list[str]:
        told = []
        for channel in range(self._count):
            if channel in self._apart:
                continue
            if channel in self._like:
                same = self._like[channel] + 1
                told.append(f"channel {channel + 1} has the same sound as channel {same}; it was transcribed once")
            else:
                told.append(f"channel {channel + 1} of {self._count} is silent")
        return told
