"""What the frozen silence would be had it heard the speech: a few of its frames computed, the rest between them.

Frozen padding has never attended to the speech in front of it. How hearing it changes the silence varies slowly with
the position, so in every layer a few silent frames ("probes"), spread over the padding, run along with the speech;
what they differ by from their frozen selves is carried over to all frames between them.

It holds for some models only: in others the change is rough, and probes do harm (docs/whisper.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Probes:
    """Frames of the padding that are computed (positions, m of them), and what each weighs for every padding frame.

    `weights` is (frames of padding, m): linear interpolation between neighbours.
    """

    positions: Tensor
    weights: Tensor

    @classmethod
    def over(cls, first: int, last: int, count: int, device: str) -> Probes:
        """Probes for the padding frames [first, last), `count` of them or all there are."""
        count = min(count, last - first)
        positions = torch.linspace(first, last - 1, count).round().long()
        frames = torch.arange(first, last)
        right = torch.searchsorted(positions, frames).clamp(min(1, count - 1))
        left = (right - 1).clamp(0)
        share = (frames - positions[left]) / (positions[right] - positions[left]).clamp(1)
        weights = torch.zeros(last - first, count)
        rows = torch.arange(last - first)
        weights[rows, left] = 1 - share
        weights[rows, right] += share
        return cls(positions.to(device), weights.to(device))

    def pad(self, computed: Tensor, frozen: Tensor) -> Tensor:
        """(…, window, d) from `computed` (…, own frames then probes, d) and the `frozen` window (…, window, d)."""
        own = computed.shape[-2] - len(self.positions)
        out = frozen.clone(memory_format=torch.contiguous_format)
        heard = (computed[..., own:, :] - frozen[..., self.positions, :]).flatten(0, -3)
        rest = out.view(-1, *out.shape[-2:])[:, own:]
        rest.baddbmm_(self.weights.to(heard.dtype).expand(len(heard), -1, -1), heard)
        out[..., :own, :] = computed[..., :own, :]
        return out
