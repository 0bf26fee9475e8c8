"""Number formats of matrix products: what each does to a tensor, simulated in float32, and where it is real.

Every scale belongs to a row (a token, an output channel) or to a block of a row, never to a whole tensor: a scale over
a batch would make an item's result depend on what it shares the batch with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

Format = Literal["float32", "bf16", "int8", "fp8", "mxfp8", "int4"]
FORMATS: tuple[Format, ...] = get_args(Format)

BLOCK = 32
"""Numbers that share a scale in mxfp8 (OCP microscaling) and in a weight of int4."""
_FP8_LARGEST = torch.finfo(torch.float8_e4m3fn).max
_SMALLEST_SCALE = 1e-12


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A format as a device computes it. `emulated`: rounded to the format and multiplied in float32."""

    format: Format
    emulated: bool

    def __str__(self) -> str:
        return f"{self.format} (emulated)" if self.emulated else self.format


def parse(name: str) -> Format:
    """The format of that name. Raises ValueError with those there are."""
    for known in FORMATS:
        if name == known:
            return known
    raise ValueError(f"there is no precision {name[:40]!r}; there is {', '.join(FORMATS)}")


def real_on(format: Format, device: str) -> bool:
    """Whether the device multiplies in this format through a kernel that is installed here.

    bf16 and int8 run everywhere (on a CPU without instructions for them many times slower than float32), fp8 from
    compute capability 8.9, int4 from 8.0, mxfp8 from 10.0.
    """
    if format in ("float32", "bf16", "int8"):
        return True
    if not device.startswith("cuda") or not torch.cuda.is_available():
        return False
    capability = torch.cuda.get_device_capability(torch.device(device))
    return capability >= {"fp8": (8, 9), "int4": (8, 0), "mxfp8": (10, 0)}[format]


def arithmetic(format: Format, device: str, *, real: bool | None = None) -> Arithmetic:
    """How the format is computed there. `real` None: real on an accelerator that has it, emulated on a CPU, where real
    low precision is slower than float32 and gives the same quality. True raises ValueError where it does not exist."""
    if format == "float32":
        return Arithmetic(format, emulated=False)
    exists = real_on(format, device)
    if real and not exists:
        raise ValueError(f"{device} does not multiply in {format}; it can be emulated there, which is no faster")
    return Arithmetic(format, emulated=not (exists and (real if real is not None else device != "cpu")))


def rounded(x: Tensor, format: Format) -> Tensor:
    """Activations (..., features) as the format holds them, in x's dtype. int4 is a format of weights alone: the
    activations beside it stay as they are."""
    if format in ("float32", "int4"):
        return x
    if format == "bf16":
        return x.to(torch.bfloat16).to(x.dtype)
    if format == "int8":
        return _integers(x, 127)
    return _fp8(x) if format == "fp8" else _mxfp8(x)


def rounded_weight(weight: Tensor, format: Format) -> Tensor:
    """A weight (outputs, inputs) as the format holds it: a scale for each output, or for each block of its inputs."""
    if format == "int4":
        return _in_blocks(weight, lambda blocks: _integers(blocks, 7))
    return rounded(weight, format)


def _integers(x: Tensor, largest: int) -> Tensor:
    scale = (x.abs().amax(-1, keepdim=True) / largest).clamp_min(_SMALLEST_SCALE)
    return (x / scale).round().clamp_(-largest, largest) * scale


def _fp8(x: Tensor) -> Tensor:
    scale = (x.abs().amax(-1, keepdim=True) / _FP8_LARGEST).clamp_min(_SMALLEST_SCALE)
    return (x / scale).to(torch.float8_e4m3fn).to(x.dtype) * scale


def _mxfp8(x: Tensor) -> Tensor:
    return _in_blocks(x, _mx)


def _mx(blocks: Tensor) -> Tensor:
    from torchao.prototype.mx_formats.mx_tensor import MXTensor

    wide = blocks if blocks.dtype in (torch.float32, torch.bfloat16) else blocks.float()
    made: Tensor = MXTensor.to_mx(wide.contiguous(), torch.float8_e4m3fn, BLOCK).dequantize()
    return made.to(blocks.dtype)


def _in_blocks(x: Tensor, function: object) -> Tensor:
    """The function on (..., blocks, BLOCK); a last block that is not full is filled with zeros meanwhile."""
    length = x.shape[-1]
    filled = functional.pad(x, (0, -length % BLOCK))
    made = function(filled.unflatten(-1, (-1, BLOCK)))  # type: ignore[operator]
    whole: Tensor = made.flatten(-2)
    return whole[..., :length]
