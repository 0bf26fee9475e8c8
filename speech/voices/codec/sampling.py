"""The draw of the next code: one row of logits, one random number, a token that fits its position in the frame.

Only codes of the row's position in the frame are candidates (and the end, between two frames), so a frame is never
out of step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from speech.voices.codec.layout import FRAME


@dataclass(frozen=True, slots=True)
class Sampling:
    """How freely the model speaks. `repetition` divides the logits of codes that the segment has used."""

    temperature: float = 0.6
    top_p: float = 0.8
    repetition: float = 1.3

    def __post_init__(self) -> None:
        if not (self.temperature > 0 and 0 < self.top_p <= 1 and self.repetition >= 1):
            raise ValueError("temperature must be above 0, top_p in (0, 1], repetition at least 1")


def draw(
    logits: Tensor, places: Tensor, may_stop: Tensor, seen: Tensor, randoms: Tensor, sampling: Sampling
) -> tuple[Tensor, Tensor]:
    """Columns drawn [n] (0 the end, 1 + place * codebook + code), and whether the row's logits are numbers [n].

    `logits` [n, 1 + 7 * codebook] float32: the end, then the codes; `seen` of the same shape; `places` int64 [n],
    `may_stop` bool [n], `randoms` [n] in [0, 1).
    """
    codebook = (logits.shape[1] - 1) // FRAME
    columns = 1 + places[:, None] * codebook + torch.arange(codebook, device=logits.device)
    candidates = torch.cat([torch.zeros_like(columns[:, :1]), columns], 1)
    values = logits.gather(1, candidates)
    finite = torch.isfinite(values).all(1)
    eased = torch.where(values > 0, values / sampling.repetition, values * sampling.repetition)
    values = torch.where(seen.gather(1, candidates), eased, values)
    values[:, 0] = torch.where(may_stop, values[:, 0], -torch.inf)
    chances, order = torch.softmax(values / sampling.temperature, 1).sort(dim=1, descending=True, stable=True)
    until = chances.cumsum(1)
    kept = (until - chances < sampling.top_p).sum(1).clamp(min=1)
    total = until.gather(1, kept[:, None] - 1)
    picked = torch.minimum((until <= randoms[:, None] * total).sum(1), kept - 1)
    return candidates.gather(1, order.gather(1, picked[:, None]))[:, 0], finite
