"""Random numbers that are a function of a key and a counter, so that they depend on no batch, no window and no order.

A request's key comes from its seed; the counter is the place that the number is for (a token, a sample of a layer).
"""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor

PLACES = 16
"""Numbers for one position: 0 is the draw of a token, 1 + n the noise of the codec's layer n."""

_GAMMA = -7046029254386353131  # 2**64 / golden ratio, as a signed integer
_FIRST, _SECOND = -4658895280553007687, -7723592293110705685


def key(seed: int, index: int) -> int:
    """A signed 64-bit key for segment `index` of a request."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{index}".encode(), digest_size=8).digest(), "big", signed=True)


def uniform(keys: Tensor, positions: Tensor, place: int = 0) -> Tensor:
    """Numbers in [0, 1), float32, for int64 keys and positions (broadcast)."""
    return (_shift(_bits(keys, positions, place), 40)).float() * 2.0**-24


def normal(keys: Tensor, positions: Tensor, place: int) -> Tensor:
    """Standard normal numbers, float32 (Box-Muller on the two halves of one hash)."""
    bits = _bits(keys, positions, place)
    first = ((bits & 0xFFFFFFFF).float() + 0.5) * 2.0**-32
    second = _shift(bits, 32).float() * 2.0**-32
    return torch.sqrt(-2 * torch.log(first.clamp(max=1.0))) * torch.cos(2 * math.pi * second)


def _bits(keys: Tensor, positions: Tensor, place: int) -> Tensor:
    return _mix(keys ^ _mix((positions * PLACES + place) * _GAMMA))


def _mix(x: Tensor) -> Tensor:
    """The finaliser of splitmix64; int64 multiplication wraps as unsigned does."""
    x = (x ^ _shift(x, 30)) * _FIRST
    x = (x ^ _shift(x, 27)) * _SECOND
    return x ^ _shift(x, 31)


def _shift(x: Tensor, by: int) -> Tensor:
    """Logical shift to the right."""
    return (x >> by) & ((1 << (64 - by)) - 1)
