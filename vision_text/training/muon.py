"""An optimiser for small transformers on a CPU: Muon for the matrices within blocks, Adam for all other weights.

torch.optim.Muon computes in bfloat16, one matrix at a time; on CPUs without bfloat16 units that takes longer than the
training step itself. Here matrices of one shape are orthogonalised together, in float32.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

_FACTORS = (3.4445, -4.775, 2.0315)
"""Of the quintic iteration that pushes all singular values towards one."""


class Muon:
    """`rate`: of the matrices, the spectral norm of a step. `others`: of embeddings, head and norms, by Adam.

    Weights whose name has a part that is in `slow` move with a fifth of the rates: every step of a matrix has the same
    length however small its gradient is, which shakes what was learned well before out of them again.
    """

    def __init__(
        self, model: nn.Module, *, rate: float = 0.02, others: float = 3e-3, momentum: float = 0.95,
        slow: Collection[str] = (),
    ) -> None:  # fmt: skip
        self._rate, self._momentum, self._others = rate, momentum, others
        shapes: dict[tuple[int, ...], list[tuple[Tensor, float]]] = defaultdict(list)
        rest: dict[float, list[Tensor]] = defaultdict(list)
        for name, weights in model.named_parameters():
            share = 1.0 if set(slow).isdisjoint(name.split(".")) else 0.2
            if weights.ndim == 2 and "embed" not in name and "head" not in name:
                shapes[tuple(weights.shape)].append((weights, share))
            else:
                rest[share].append(weights)
        self._groups = list(shapes.values())
        self._velocity = [torch.zeros(len(group), *group[0][0].shape) for group in self._groups]
        parts = [{"params": weights, "share": share} for share, weights in rest.items()]
        self._adam = torch.optim.AdamW(parts, others, betas=(0.9, 0.98), weight_decay=0.0)

    @torch.no_grad()
    def step(self, share: float) -> None:
        """With `share` of the full rates. Gradients are gone afterwards."""
        for group, velocity in zip(self._groups, self._velocity, strict=True):
            gradient = torch.stack([weights.grad for weights, _ in group if weights.grad is not None])
            velocity.mul_(self._momentum).add_(gradient)
            direction = orthogonal(gradient + self._momentum * velocity)
            rows, columns = gradient.shape[1:]
            for (weights, own), way in zip(group, direction, strict=True):
                rate = self._rate * share * own
                weights.mul_(1 - 0.05 * rate).sub_(rate * max(1.0, rows / columns) ** 0.5 * way)
                weights.grad = None
        for settings in self._adam.param_groups:
            settings["lr"] = self._others * share * settings["share"]
        self._adam.step()
        self._adam.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        return {"velocity": self._velocity, "adam": self._adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._velocity = state["velocity"]
        self._adam.load_state_dict(state["adam"])


def orthogonal(matrices: Tensor, iterations: int = 5) -> Tensor:
    """(N, rows, columns) -> the same with singular values near one."""
    tall = matrices.shape[1] > matrices.shape[2]
    x: Tensor = matrices.transpose(1, 2) if tall else matrices
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    a, b, c = _FACTORS
    for _ in range(iterations):
        square = x @ x.transpose(1, 2)
        x = a * x + (b * square + c * square @ square) @ x
    return x.transpose(1, 2) if tall else x
