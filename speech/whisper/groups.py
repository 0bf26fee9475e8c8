"""The frozen silence in fewer keys: frames of it that are nearly alike are attended to as one.

Behind four seconds of speech lie 1,300 frames of padding, and a query looks at every one of them in every head. Most
have near twins close by. So within each block of the window the keys and values of a head are put into groups
(k-means), and a group's mean stands for all its frames: that many equal keys weigh the logarithm of their number more
in the softmax, which is exact for equal keys. Grouping by likeness and not by position matters: in base, neighbours
differ as much as frames of different blocks do, and means over five neighbours are thirteen times as far off.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 100
"""Frames of a block (2 s). Of the block in which the speech ends every frame counts for itself."""

GROUPS = 10
"""Groups of a block."""

_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Groups:
    """Of a window of `frames`, block by block; n = frames / BLOCK * GROUPS. Float32.

    `means`: keys and values (layers, 2, heads, n, head). `weight`: logarithm of how many frames a group has, and
    `middle`: their mean position, both (layers, heads, n).
    """

    means: Tensor
    weight: Tensor
    middle: Tensor

    @classmethod
    def of(cls, kv: Tensor) -> Groups:
        """From keys and values (layers, 2, heads, frames, head)."""
        layers, _, heads, frames, head = kv.shape
        blocks = frames // BLOCK
        # (layers, heads, blocks, BLOCK, key and value), as one long batch of blocks
        x = kv.float().view(layers, 2, heads, blocks, BLOCK, head).permute(0, 2, 3, 4, 1, 5)
        x = x.reshape(-1, BLOCK, 2 * head)
        belongs = _clusters(x)
        sizes = belongs.sum(1)
        share = belongs.transpose(1, 2) / sizes.clamp_min(1)[..., None]
        means = (share @ x).view(layers, heads, blocks * GROUPS, 2, head).permute(0, 3, 1, 2, 4)
        places = torch.arange(frames, dtype=torch.float32, device=kv.device).view(blocks, BLOCK, 1)
        middle = share.view(-1, blocks, GROUPS, BLOCK) @ places
        shape = layers, heads, blocks * GROUPS
        return cls(means, sizes.log().view(shape), middle.view(shape))


def _clusters(x: Tensor) -> Tensor:
    """Which of GROUPS each row of x (batch, rows, d) is in: (batch, rows, GROUPS) of ones and zeros.

    Begins with rows that are far from each other, so that the result is the same every time.
    """
    batch = torch.arange(len(x), device=x.device)
    centres = [x[:, 0]]
    away = (x - centres[0][:, None]).square().sum(2)
    for _ in range(GROUPS - 1):
        centres.append(x[batch, away.argmax(1)])
        away = torch.minimum(away, (x - centres[-1][:, None]).square().sum(2))
    centre = torch.stack(centres, 1)
    for _ in range(_ROUNDS):
        belongs = torch.zeros(*x.shape[:2], GROUPS, device=x.device)
        belongs.scatter_(2, torch.cdist(x, centre).argmin(2, keepdim=True), 1.0)
        sizes = belongs.sum(1)[..., None]
        centre = torch.where(sizes > 0, belongs.transpose(1, 2) @ x / sizes.clamp_min(1), centre)
    return belongs
