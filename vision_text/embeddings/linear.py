"""Linear layers as fast as the device has them: on CPUs with oneDNN, whose weights are packed for it once."""

from __future__ import annotations

from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS = 16
"""Rows come in multiples of this: every number of rows has a kernel of its own, made and kept when it is first seen."""
_HINT = 256


class Dense(Protocol):
    """y = x Wᵀ + b for x of shape (rows, in), with GELU after it where it was made so."""

    def __call__(self, x: Tensor) -> Tensor: ...


class Plain:
    """As torch has it."""

    def __init__(self, weight: Tensor, bias: Tensor, activation: str) -> None:
        self._weight, self._bias = weight, bias
        self._gelu = {"": None, "gelu": "none", "gelu_tanh": "tanh"}[activation]

    def __call__(self, x: Tensor) -> Tensor:
        y = F.linear(x.to(self._weight.dtype), self._weight, self._bias)
        y = y if self._gelu is None else F.gelu(y, approximate=self._gelu)
        return y.to(x.dtype)


class Packed:
    """With oneDNN, the activation in the same pass. What comes out is float32."""

    def __init__(self, weight: Tensor, bias: Tensor, activation: str) -> None:
        self._dtype = weight.dtype
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _HINT)
        self._bias = bias
        self._after = {"": ("none", ""), "gelu": ("gelu", "none"), "gelu_tanh": ("gelu", "tanh")}[activation]

    def __call__(self, x: Tensor) -> Tensor:
        kind, algorithm = self._after
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x.to(self._dtype), self._weight, self._bias, kind, [], algorithm)
        return y.float()


Activation = Literal["", "gelu", "gelu_tanh"]


def dense(weight: Tensor, bias: Tensor, activation: Activation = "") -> Dense:
    """A layer with weights of one type and on one device."""
    return (Packed if _packs(weight) else Plain)(weight, bias, activation)


def _packs(weight: Tensor) -> bool:
    """Whether oneDNN packs weights of this type here; bfloat16 only where the processor has AVX-512 or its like."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    return weight.dtype != torch.bfloat16 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
