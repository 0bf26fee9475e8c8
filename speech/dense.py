"""Linear layers in the precisions the engine can choose from; each row's result is independent of the other rows.

Which one pays is a question of the bottleneck and of the machine: the encoder is bound by arithmetic, a token step by
reading weights. So encoder and decoder choose apart, by measurement (profile.py), among those that passed the gate.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Dense(Protocol):
    """y = x Wᵀ + b for x of shape (rows, in) in float32 (or a shorter float), y of shape (rows, out)."""

    def __call__(self, x: Tensor) -> Tensor: ...


class Plain:
    """Weights and arithmetic in the activations' own type."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Cast:
    """Weights kept and multiplied in a shorter float; what comes out is float32, or as short with `keep`."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, keep: bool = False) -> None:
        self.weight, self.dtype, self.keep = weight.to(dtype), dtype, keep
        self.bias = None if bias is None else bias.to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        y = F.linear(x.to(self.dtype), self.weight, self.bias)
        return y if self.keep else y.float()


class Int8:
    """Weights in int8 with a scale per output, activations quantised per row while running.

    Scales per row (not per batch, as torch's own dynamic quantisation has them) and exact integer sums make a row's
    result the same alone or among many.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        scale = weight.abs().amax(1).clamp_min(1e-8) / 127
        self.weight = (weight / scale[:, None]).round().to(torch.int8).t()
        self.scale, self.bias = scale, bias

    def __call__(self, x: Tensor) -> Tensor:
        scale = x.abs().amax(1, keepdim=True).clamp_(min=1e-8).mul_(1 / 127)
        rows = (x / scale).round_().to(torch.int8)
        y = torch._int_mm(rows, self.weight).float().mul_(scale).mul_(self.scale)
        return y if self.bias is None else y.add_(self.bias)


PRECISIONS = ("float32", "bfloat16", "int8")


def dense(precision: str, weight: Tensor, bias: Tensor | None, *, keep: bool = False) -> Dense:
    """A layer in one of PRECISIONS, or "float16" on a GPU (ValueError otherwise).

    `keep`: its results may stay in a shorter float, because what takes them is as short.
    """
    if precision == "float32":
        return Plain(weight, bias)
    if precision == "bfloat16":
        return Cast(weight, bias, torch.bfloat16, keep)
    if precision == "float16":
        return Cast(weight, bias, torch.float16, keep)
    if precision == "int8":
        return Int8(weight, bias)
    raise ValueError(f"unknown precision {precision!r}; choose one of {', '.join(PRECISIONS)}")
