"""An optimiser for small transformers on a CPU: Muon for the matrices within blocks, Adam for all other weights.

torch.optim.Muon computes in bfloat16, one matrix at a time; on CPUs without bfloat16 units that takes longer than the
training step itself. Here matrices of one shape are orthogonalised together, in float32.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn

_FACTORS = (3.4445, -4.775, 2.0315)
"""Of the quintic iteration that pushes all singular values towards one."""


class Muon:
    """`rate`: of the matrices, the spectral norm of a step. `others`: of embeddings, head and norms, by Adam."""

    def __init__(self, model: nn.Module, *, rate: float = 0.02, others: float = 3e-3, momentum: float = 0.95) -> None:
        self._rate, self._momentum = rate, momentum
        shapes: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
        rest: list[Tensor] = []
        for name, weights in model.named_parameters():
            inner = weights.ndim == 2 and "embed" not in name and "head" not in name
            (shapes[tuple(weights.shape)] if inner else rest).append(weights)
        self._groups = list(shapes.values())
        self._velocity = [torch.zeros(len(group), *group[0].shape) for group in self._groups]
        self._others = others
        self._adam = torch.optim.AdamW(rest, others, betas=(0.9, 0.98), weight_decay=0.0)

    @torch.no_grad()
    def step(self, share: float) -> None:
        """With `share` of the full rates. Gradients are gone afterwards."""
        for group, velocity in zip(self._groups, self._velocity, strict=True):
            gradient = torch.stack([weights.grad for weights in group if weights.grad is not None])
            velocity.mul_(self._momentum).add_(gradient)
            direction = orthogonal(gradient + self._momentum * velocity)
            rows, columns = group[0].shape
            rate = self._rate * share * max(1.0, rows / columns) ** 0.5
            for weights, way in zip(group, direction, strict=True):
                weights.mul_(1 - 0.05 * self._rate * share).sub_(rate * way)
                weights.grad = None
        for settings in self._adam.param_groups:
            settings["lr"] = self._others * share
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
