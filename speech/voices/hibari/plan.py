"""The first stage, once per segment: symbols to durations, pitch and loudness.

Everything here sees the whole segment. A long segment is planned in several steps, a few layers in each.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from speech.voices.hibari.layers import Block, TextEncoder
from speech.voices.hibari.layers_int8 import Int8Block, Int8TextEncoder
from speech.voices.hibari.weights import Weights
from workers.errors import BackendFailed

FRAME_RATE = 80
"""Frames per second of sound."""
PLAN_RATE = 40
"""Frames per second of durations and prosody."""
SYMBOLS = 178
_DILATIONS = (1, 2, 4, 8, 1, 2)
_PITCH_SCALE = 100.0  # Hz
_INPUT_SCALE = 5.0

_FASTEST = 2.0
"""Speed up to which durations get shorter. Beyond it each symbol would come to its shortest, so pairs of frames are
left out instead, of the longer symbols first: the pitch stays."""
_SHORTEST, _LONGEST = 0.02, 1.5
"""Seconds per symbol, as if at speed 1, between which a segment's length is believed; 0.06 to 0.15 are usual."""


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """What a segment will sound like, on the host.

    `features` [symbols, 128] and `owner` [frames / 2], the symbol of each pair of frames, `prosody` [frames, 2] are
    what the decoder hears; `pitch` [frames] in Hz (at most 0 where there is none); `loudness` [frames] as the natural
    logarithm of an energy; `durations` [symbols] in frames.
    """

    features: Tensor
    owner: Tensor
    prosody: Tensor
    pitch: NDArray[np.float32]
    loudness: NDArray[np.float32]
    durations: NDArray[np.int64]

    @property
    def frames(self) -> int:
        return len(self.pitch)


class Planner:
    """The text encoders, the duration predictor and the prosody network on one device, with large matrices in
    `precision` (speech/dense.py)."""

    def __init__(self, weights: Weights, device: str, precision: str = "float32") -> None:
        self.device = device
        self._text: TextEncoder | Int8TextEncoder
        self._prosody_text: TextEncoder | Int8TextEncoder
        self._blocks: Sequence[Block | Int8Block]
        blocks = [(f"pn.pro.{number}", dilation) for number, dilation in enumerate(_DILATIONS)]
        if precision == "int8":
            self._text = Int8TextEncoder(weights, "m.text", 4)
            self._prosody_text = Int8TextEncoder(weights, "pn.text", 6)
            self._blocks = [Int8Block(weights, name, dilation) for name, dilation in blocks]
        else:
            self._text = TextEncoder(weights, "m.text", device, 4, precision)
            self._prosody_text = TextEncoder(weights, "pn.text", device, 6, precision)
            self._blocks = [Block(weights, name, device, dilation, precision) for name, dilation in blocks]
        named = {name: weights[f"pn.{name}"].to(device) for name in _FLAT}
        self._duration1 = named["dur.0.weight"], named["dur.0.bias"]
        self._duration2 = named["dur.2.weight"][:, :, 0], named["dur.2.bias"]
        self._inward = named["pro_in.weight"][:, :, 0], named["pro_in.bias"]
        self._outward = named["pro_out.weight"][:, :, 0], named["pro_out.bias"]

    def steps(self, ids: Sequence[int], speed: float) -> Generator[float, None, SegmentPlan]:
        """Plan a segment piece by piece; yields the cost of each piece done, in millions of multiplications.

        Raises BackendFailed when the result is not a number or not a believable duration.
        """
        symbols = torch.tensor(ids, device=self.device)
        features, heard = self._text.begin(symbols), self._prosody_text.begin(symbols)
        for layer in self._text.layers:
            features = layer(features)
            yield _text_cost(len(ids), self._text.dim)
        for layer in self._prosody_text.layers:
            heard = layer(heard)
            yield _text_cost(len(ids), self._prosody_text.dim)
        durations = self._durations(heard, min(speed, _FASTEST))
        owner = torch.repeat_interleave(torch.arange(len(ids)), durations)
        x = functional.linear(heard[owner.to(self.device)], *self._inward)
        for block in self._blocks:
            x = block.whole(x)
            yield len(x) * block.cost
        # [pairs, 4]: pitch of both frames, loudness of both.
        told = functional.linear(x, *self._outward).cpu().view(-1, 2, 2).transpose(1, 2)
        if speed > _FASTEST:
            kept = _kept(owner, speed / _FASTEST)
            owner, told = owner[kept], told[kept]
            durations = torch.bincount(owner, minlength=len(ids))
        told = told.reshape(-1, 2)
        if not bool(torch.isfinite(told).all()) or not bool(torch.isfinite(features).all()):
            raise BackendFailed("the voice's prosody is not a number")
        pitch, loudness = told[:, 0] * _PITCH_SCALE, told[:, 1]
        prosody = torch.stack((torch.log1p(torch.relu(pitch)) / _INPUT_SCALE, loudness), 1)
        numbers = pitch.numpy(), (loudness * _INPUT_SCALE).numpy(), (2 * durations).numpy()
        return SegmentPlan(features.cpu(), owner, prosody, *numbers)

    def _durations(self, heard: Tensor, speed: float) -> Tensor:
        """Frames at PLAN_RATE of each symbol [n], at least one, on the host."""
        inner = functional.conv1d(heard.t()[None], *self._duration1, padding=1)[0].t()
        told = functional.linear(functional.gelu(inner), *self._duration2)[:, 0].cpu()
        wanted = (torch.exp(told) - 1.0) / speed
        if not bool(torch.isfinite(wanted).all()):
            raise BackendFailed("the voice's durations are not numbers")
        seconds = float(wanted.clamp_min(0).sum()) * speed / PLAN_RATE
        if not _SHORTEST * len(wanted) <= seconds <= _LONGEST * len(wanted):
            raise BackendFailed(f"the voice made {seconds:.2f} s of {len(wanted)} phonemes, which can't be right")
        return wanted.round().clamp_min(1).long()


def _kept(owner: Tensor, ratio: float) -> Tensor:
    """Which pairs of frames are left of `owner` (the symbol of each) when it is to be shorter by `ratio`, in order.

    Every symbol keeps its first pair as long as that can be: most consonants have no other.
    """
    count = math.ceil(len(owner) / ratio)
    first = torch.ones(len(owner), dtype=torch.bool)
    first[1:] = owner[1:] != owner[:-1]
    firsts, others = first.nonzero()[:, 0], (~first).nonzero()[:, 0]
    if len(firsts) >= count:
        return _evenly(firsts, count)
    return torch.cat((firsts, _evenly(others, count - len(firsts)))).sort().values


def _evenly(pairs: Tensor, count: int) -> Tensor:
    return pairs[torch.arange(count) * len(pairs) // count]


_FLAT = (
    *("dur.0.weight", "dur.0.bias", "dur.2.weight", "dur.2.bias"),
    *("pro_in.weight", "pro_in.bias", "pro_out.weight", "pro_out.bias"),
)


def plan_cost(symbols: int) -> float:
    """About what planning costs in all: that of the text, and of prosody at the usual length of a symbol."""
    text = 7 * _text_cost(symbols, 128) + 9 * _text_cost(symbols, 192)
    return text + 2.0 * symbols


def _text_cost(symbols: int, dim: int) -> float:
    return symbols * (8 * dim + 2 * symbols) * dim / 1e6
