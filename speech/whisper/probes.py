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
        positions = torch.linspace(first, last - 1, count).round().long().to(device)
        return cls(positions, _between(positions, torch.arange(first, last, device=device)))

    def at(self, places: Tensor) -> Tensor:
        """(…, m) what each probe weighs at `places` (…) of the padding, which need not be whole frames."""
        return _between(self.positions, places)

    def heard(self, computed: Tensor, frozen: Tensor) -> Tensor:
        """(…, m, d) by how much the probes, which come last in `computed`, differ from the `frozen` window."""
        return computed[..., -len(self.positions) :, :] - frozen[..., self.positions, :]

    def pad(self, computed: Tensor, frozen: Tensor) -> Tensor:
        """(…, window, d) from `computed` (…, own frames then probes, d) and the `frozen` window (…, window, d)."""
        own = computed.shape[-2] - len(self.positions)
        out = frozen.clone(memory_format=torch.contiguous_format)
        heard = self.heard(computed, frozen).flatten(0, -3)
        rest = out.view(-1, *out.shape[-2:])[:, own:]
        rest.baddbmm_(self.weights.to(heard.dtype).expand(len(heard), -1, -1), heard)
        out[..., :own, :] = computed[..., :own, :]
        return out


def _between(positions: Tensor, places: Tensor) -> Tensor:
    """(…, m): linear interpolation between the two of m `positions` on both sides of each of `places`."""
    count = len(positions)
    right = torch.searchsorted(positions.to(places.dtype), places.contiguous()).clamp(min(1, count - 1), count - 1)
    left = (right - 1).clamp(0)
    share = (places - positions[left]) / (positions[right] - positions[left]).clamp(1)
    weights = torch.zeros(*places.shape, count, device=places.device)
    weights.scatter_(-1, left[..., None], 1 - share[..., None])
    return weights.scatter_add_(-1, right[..., None], share[..., None])
