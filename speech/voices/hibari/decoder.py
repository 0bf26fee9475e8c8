"""The second stage: the decoder, from features and prosody to spectra, 80 frames a second, window by window.

Each of the nine convolutions hears three frames to either side. A window gives each layer the last six frames of its
input from the window before, so a frame is computed once, 27 frames behind those that go in, and exactly as if the
segment had been decoded at once: at a segment's edges every layer hears zeros, not what the one before makes of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from speech.dense import Dense, dense
from speech.voices.hibari.layers import Block, norm
from speech.voices.hibari.plan import SegmentPlan
from speech.voices.hibari.weights import Weights

BINS = 601
PARTS = 5
"""Spectra per frame: harmonic level and phase, noise level, free level and phase; see wave.py."""
RADIUS = 3
BLOCKS = 8
DELAY = RADIUS * (1 + BLOCKS)
"""Frames that must have gone in after a frame before it comes out."""


@dataclass(frozen=True, slots=True)
class DecoderCarry:
    """The last frames of every layer's input: `entry` [6, 130] and `layers` [8, 6, 256]; 3 at the segment's start."""

    entry: Tensor
    layers: Tensor

    @property
    def opening(self) -> bool:
        return len(self.entry) == RADIUS


class Opened:
    """What decoders of any precision begin with, and what a window costs them."""

    def __init__(self, weights: Weights) -> None:
        self._cost, self._opening = decoder_cost(weights), opening(weights)

    def opening(self) -> DecoderCarry:
        """What lies before a segment: nothing."""
        return self._opening

    def frames_cost(self, frames: int) -> float:
        """Millions of multiplications for a window of so many frames going in."""
        return frames * self._cost


class Decoder(Opened):
    """The decoder on one device. Inputs, carries and what comes between are given and returned on the host.

    `precision` is that of its matrices but the first (speech/dense.py); int8 has a scale per frame, so that in
    any precision a frame's result does not depend on those computed with it.
    """

    def __init__(self, weights: Weights, device: str, precision: str = "float32") -> None:
        super().__init__(weights)
        self.device = device
        kernel = weights["m.dec_in.weight"]  # [256, 130, 7]
        # Not in int8: one scale for features, pitch and loudness of a frame would be too coarse.
        self._entry = dense("float32", kernel.flatten(1).to(device), weights["m.dec_in.bias"].to(device))
        self._blocks = [Block(weights, f"m.dec.{n}", device, precision=precision) for n in range(BLOCKS)]
        self._norm = weights["m.dec_norm.weight"].to(device), weights["m.dec_norm.bias"].to(device)
        self._head = dense(precision, weights["m.head.weight"].to(device), weights["m.head.bias"].to(device))

    def run(
        self, plans: Sequence[SegmentPlan], carries: Sequence[DecoderCarry], firsts: Sequence[int], count: int
    ) -> tuple[Tensor, list[DecoderCarry]]:
        """Put frames `first` to `first + count` of each segment in; those behind its end are silence.

        Returns spectra [rows, frames, 3005] on the device and what to carry on: from `first - 27` on as many frames as
        went in, at a segment's opening from 0 on 27 fewer. All of a call are openings or none is.
        """
        shift = 0 if carries[0].opening else RADIUS
        starts = [first - shift for first in firsts]
        x = torch.stack([inputs(*row, count) for row in zip(plans, firsts, strict=True)])
        x = torch.cat((torch.stack([carry.entry for carry in carries]), x), 1).to(self.device)
        layers = torch.stack([carry.layers for carry in carries], 1).to(self.device)
        entry, kept = x[:, -2 * RADIUS :].cpu(), []
        x = _by_frame(self._entry, x.unfold(1, 2 * RADIUS + 1, 1).flatten(2))
        silence_after_the_end(x, plans, starts)
        for block, before in zip(self._blocks, layers, strict=True):
            x = torch.cat((before, x), 1)
            kept.append(x[:, -2 * RADIUS :])
            x = block(x)
            starts = [start - shift for start in starts]
            silence_after_the_end(x, plans, starts)
        spectra = _by_frame(self._head, norm(x, *self._norm))
        carried = torch.stack(kept, 1).cpu()
        # Copies, so that a stream does not hold the memory of its batch.
        return spectra, [DecoderCarry(a.clone(), b.clone()) for a, b in zip(entry, carried, strict=True)]


def opening(weights: Weights) -> DecoderCarry:
    """Zeros before a segment's first frame."""
    dim, width, _ = weights["m.dec_in.weight"].shape
    return DecoderCarry(torch.zeros(RADIUS, width), torch.zeros(BLOCKS, RADIUS, dim))


def decoder_cost(weights: Weights) -> float:
    """Millions of multiplications for a frame going in."""
    matrices = ["m.dec_in", "m.head", *(f"m.dec.{block}.{part}" for block in range(BLOCKS) for part in ("pw1", "pw2"))]
    return sum(weights[f"{name}.weight"].numel() for name in matrices) / 1e6


def _by_frame(layer: Dense, x: Tensor) -> Tensor:
    return layer(x.flatten(0, -2)).view(*x.shape[:-1], -1)


def inputs(plan: SegmentPlan, first: int, count: int) -> Tensor:
    """What the decoder hears of frames `first` to `first + count` [count, 130]; zeros behind the segment's end."""
    last = max(first, min(first + count, plan.frames))
    owners = plan.owner[torch.arange(first, last) // 2]
    heard = torch.cat((plan.features[owners], plan.prosody[first:last]), 1)
    return functional.pad(heard, (0, 0, 0, count - len(heard)))


def silence_after_the_end(x: Tensor, plans: Sequence[SegmentPlan], starts: Sequence[int]) -> None:
    """Make zero, in place, what a layer made for frames that the segment does not have; row i begins at starts[i]."""
    for row, (plan, start) in enumerate(zip(plans, starts, strict=True)):
        if start + x.shape[1] > plan.frames:
            x[row, max(0, plan.frames - start) :] = 0
