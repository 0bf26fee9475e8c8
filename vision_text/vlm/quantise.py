"""Keys and values in few bits: each head's vector of each token on its own, so that a cache is the same whatever
pieces it was filled in, and a prefix of it can be shared."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

GROUP = 32
"""Numbers that share a scale in 4 bits."""


@dataclass(frozen=True, slots=True)
class Coding:
    """How vectors of `width` numbers are kept: `bits` each, 32 for as they are."""

    bits: int
    width: int
    dtype: torch.dtype

    @property
    def group(self) -> int:
        """Numbers that share a scale."""
        return GROUP if self.bits == 4 and self.width % GROUP == 0 else self.width

    def parts(self) -> tuple[tuple[int, torch.dtype], ...]:
        """Width and type of each tensor that stands for one vector."""
        groups = self.width // self.group
        if self.bits == 32:
            return ((self.width, self.dtype),)
        if self.bits == 8:
            return (self.width, torch.int8), (1, torch.float16)
        if self.bits == 4:
            return ((self.width + 1) // 2, torch.uint8), (groups, torch.float16), (groups, torch.float16)
        return ((self.width + 7) // 8, torch.uint8), (1, torch.float16)

    @property
    def bytes(self) -> int:
        """Of one vector."""
        return sum(width * dtype.itemsize for width, dtype in self.parts())

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """(..., width) to the parts, each (..., its width)."""
        if self.bits == 32:
            return (x,)
        x = x.float()
        if self.bits == 8:
            scale = _half(x.abs().amax(-1, keepdim=True) / 127)
            return torch.round(x / _divisor(scale)).clamp_(-127, 127).to(torch.int8), scale
        if self.bits == 4:
            grouped = x.unflatten(-1, (-1, self.group))
            low = _half(grouped.amin(-1, keepdim=True))
            scale = _half((grouped.amax(-1, keepdim=True) - low.float()) / 15)
            codes = torch.round((grouped - low.float()) / _divisor(scale)).clamp_(0, 15).to(torch.uint8).flatten(-2)
            return _pack(codes, 4), scale.squeeze(-1), low.squeeze(-1)
        return _pack((x >= 0).to(torch.uint8), 1), _half(x.abs().mean(-1, keepdim=True))

    def decode(self, parts: tuple[Tensor, ...]) -> Tensor:
        """What is left of the vectors, (..., width)."""
        if self.bits == 32:
            return parts[0]
        if self.bits == 8:
            return (parts[0].float() * parts[1].float()).to(self.dtype)
        if self.bits == 4:
            codes = _unpack(parts[0], 4, self.width).float().unflatten(-1, (-1, self.group))
            grouped: Tensor = codes * parts[1].float().unsqueeze(-1) + parts[2].float().unsqueeze(-1)
            return grouped.flatten(-2).to(self.dtype)
        signs = _unpack(parts[0], 1, self.width).float() * 2 - 1
        return (signs * parts[1].float()).to(self.dtype)


def _half(x: Tensor) -> Tensor:
    """Scales are kept in half precision, and codes made with them as they are kept."""
    return x.clamp(-65504, 65504).to(torch.float16)


def _divisor(scale: Tensor) -> Tensor:
    plain = scale.float()
    return torch.where(plain == 0, torch.ones_like(plain), plain)


def _pack(codes: Tensor, bits: int) -> Tensor:
    each = 8 // bits
    if missing := -codes.shape[-1] % each:
        codes = torch.nn.functional.pad(codes, (0, missing))
    codes = codes.unflatten(-1, (-1, each))
    shifts = torch.arange(0, 8, bits, device=codes.device, dtype=torch.uint8)
    packed: Tensor = torch.bitwise_left_shift(codes, shifts).sum(-1, dtype=torch.uint8)
    return packed


def _unpack(packed: Tensor, bits: int, width: int) -> Tensor:
    shifts = torch.arange(0, 8, bits, device=packed.device, dtype=torch.uint8)
    codes: Tensor = torch.bitwise_right_shift(packed.unsqueeze(-1), shifts) & ((1 << bits) - 1)
    return codes.flatten(-2)[..., :width]
