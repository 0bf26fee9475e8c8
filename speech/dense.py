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


class Scanned:
    """y = x Wᵀ in float32 for the largest `SURE` of each row, and from weights in int8 for all others.

    For a projection onto a vocabulary, of which one word is chosen: all weights are read for every token, so a quarter
    of the bytes is a third of the time or less. Activations have 14 bits, in two halves, so that the error is that of
    the weights: a word that float32 would choose is far from being none of the first `SURE`.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        scale = (weight.abs().amax(1).clamp_min(1e-8) / 127).double()
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        quantised = torch.quantize_per_channel(weight, scale, zeros, 0, torch.qint8)
        self._packed = torch.ops.quantized.linear_prepack(quantised, None)

    def __call__(self, x: Tensor) -> Tensor:
        size = x.abs().amax(1, keepdim=True).clamp_(min=1e-8) / _HALF
        scaled = x / size
        coarse = scaled.round()
        halves = torch.cat([coarse, (scaled - coarse) * (2 * _HALF)])
        # Whole numbers between -63 and 63, so that the processor's sums of byte products cannot run over.
        sums: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            halves, 1.0, _HALF + 1, self._packed
        )
        y = sums[: len(x)].add_(sums[len(x) :], alpha=0.5 / _HALF).mul_(size)
        best = y.topk(SURE, 1).indices
        return y.scatter_(1, best, torch.einsum("nd,nkd->nk", x, self.weight[best]))


SURE = 16
_HALF = 63


def emulated(precision: str, device: str) -> bool:
    """Whether the processor lacks the instructions for it, so that layers in it are many times slower than float32's.

    tiny.en with AVX2 alone: an encoder in bfloat16 takes 9 times as long, a prefill of the decoder in int8 14 times.
    """
    if device != "cpu":
        return False
    if precision == "bfloat16":
        return not torch.ops.mkldnn._is_mkldnn_bf16_supported()
    x86 = torch.backends.quantized.engine in ("x86", "fbgemm")
    return precision == "int8" and x86 and not torch.cpu._is_vnni_supported()


def scans(device: str) -> bool:
    """Whether `Scanned` pays: where int8 as a whole is slow."""
    return emulated("int8", device)


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
