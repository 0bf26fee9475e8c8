"""The decoder of a SNAC codec: codes on three levels in, samples out, many windows in one call.

All of it is convolutions, so a sample depends on a bounded stretch of codes (`context`): a window decoded with that
much on both sides is what a decode of the whole gives. The noise the model mixes in is a function of the request's key
and of the sample's place in its segment, so it is the same in every window that covers it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from speech.voices.codec import randoms

_KERNEL = 7
_DILATIONS = (1, 3, 9)


@dataclass(frozen=True, slots=True)
class SnacConfig:
    """Sizes of the codec. `rates` are the decoder's upsampling factors, `strides` latents for a code of each level."""

    rate: int
    latent: int
    dim: int
    rates: tuple[int, ...]
    strides: tuple[int, ...]
    codebook: int
    codebook_dim: int
    noise: bool
    depthwise: bool

    @property
    def frame(self) -> int:
        """Samples of one frame."""
        return math.prod(self.rates) * self.strides[0]

    @property
    def context(self) -> int:
        """Frames on either side of a window that its samples depend on."""
        reach = _KERNEL // 2
        for stride in reversed(self.rates):
            reach += _KERNEL // 2 * sum(_DILATIONS)
            reach = -(-reach // stride) + 1
        return -(-(reach + _KERNEL // 2) // self.strides[0])

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight the decoder needs, weight norm folded in."""
        shapes: dict[str, tuple[int, ...]] = {}

        def conv(name: str, out: int, into: int, kernel: int, bias: int | None = None) -> None:
            shapes[f"{name}.weight"] = (out, into, kernel)
            if bias is not None:
                shapes[f"{name}.bias"] = (bias,)

        for level in range(len(self.strides)):
            quantizer = f"quantizer.quantizers.{level}."
            shapes[f"{quantizer}codebook.weight"] = (self.codebook, self.codebook_dim)
            conv(f"{quantizer}out_proj", self.latent, self.codebook_dim, 1, self.latent)
        if self.depthwise:
            conv("decoder.model.0", self.latent, 1, _KERNEL, self.latent)
            conv("decoder.model.1", self.dim, self.latent, 1, self.dim)
        else:
            conv("decoder.model.0", self.dim, self.latent, _KERNEL, self.dim)
        for n, stride in enumerate(self.rates):
            block, into, out = f"{self.block(n)}block.", self.dim >> n, self.dim >> (n + 1)
            shapes[f"{block}0.alpha"] = (1, into, 1)
            conv(f"{block}1", into, out, 2 * stride, out)
            if self.noise:
                conv(f"{block}2.linear", out, out, 1)
            for unit in range(len(_DILATIONS)):
                residual = f"{block}{2 + self.noise + unit}.block."
                shapes[f"{residual}0.alpha"] = shapes[f"{residual}2.alpha"] = (1, out, 1)
                conv(f"{residual}1", out, 1 if self.depthwise else out, _KERNEL, out)
                conv(f"{residual}3", out, out, 1, out)
        last, out = self.blocks_from + len(self.rates), self.dim >> len(self.rates)
        shapes[f"decoder.model.{last}.alpha"] = (1, out, 1)
        conv(f"decoder.model.{last + 1}", 1, out, _KERNEL, 1)
        return shapes

    @property
    def blocks_from(self) -> int:
        return 2 if self.depthwise else 1

    def block(self, n: int) -> str:
        return f"decoder.model.{self.blocks_from + n}."


class SnacDecoder:
    """The decoder on one device, in float32."""

    def __init__(self, config: SnacConfig, weights: Mapping[str, Tensor]) -> None:
        self.config = config
        self._w = {name: weights[name] for name in config.shapes()}

    def decode(self, levels: Sequence[Tensor], keys: Tensor, begin: Tensor) -> Tensor:
        """Samples [rows, frames * frame] of codes int64 [rows, frames * codes of the level], for each level.

        `keys` int64 [rows] of the requests, `begin` int64 [rows] the frame of its segment that each row begins with.
        """
        c, w = self.config, self._w
        x = torch.zeros((), device=keys.device)
        for level, (codes, stride) in enumerate(zip(levels, c.strides, strict=True)):
            quantizer = f"quantizer.quantizers.{level}."
            latent = self._conv(w[f"{quantizer}codebook.weight"][codes].transpose(1, 2), f"{quantizer}out_proj")
            x = x + latent.repeat_interleave(stride, 2)
        x = self._conv(x, "decoder.model.0", groups=c.latent if c.depthwise else 1)
        if c.depthwise:
            x = self._conv(x, "decoder.model.1")
        per_frame = c.strides[0]
        for n, stride in enumerate(c.rates):
            block = f"{c.block(n)}block."
            per_frame *= stride
            x = F.conv_transpose1d(
                self._snake(x, f"{block}0"),
                w[f"{block}1.weight"],
                w[f"{block}1.bias"],
                stride=stride,
                padding=math.ceil(stride / 2),
                output_padding=stride % 2,
            )
            if c.noise:
                places = begin[:, None] * per_frame + torch.arange(x.shape[2], device=x.device)
                noise = randoms.normal(keys[:, None], places, 1 + n)
                x = x + noise[:, None] * self._conv(x, f"{block}2.linear")
            for unit, dilation in enumerate(_DILATIONS):
                residual = f"{block}{2 + c.noise + unit}.block."
                groups = x.shape[1] if c.depthwise else 1
                y = self._conv(self._snake(x, f"{residual}0"), f"{residual}1", dilation=dilation, groups=groups)
                x = x + self._conv(self._snake(y, f"{residual}2"), f"{residual}3")
        last = c.blocks_from + len(c.rates)
        x = self._conv(self._snake(x, f"decoder.model.{last}"), f"decoder.model.{last + 1}")
        return torch.tanh(x)[:, 0]

    def _conv(self, x: Tensor, name: str, *, dilation: int = 1, groups: int = 1) -> Tensor:
        weight = self._w[f"{name}.weight"]
        padding = weight.shape[2] // 2 * dilation
        return F.conv1d(x, weight, self._w.get(f"{name}.bias"), padding=padding, dilation=dilation, groups=groups)

    def _snake(self, x: Tensor, name: str) -> Tensor:
        alpha = self._w[f"{name}.alpha"]
        return x + torch.sin(alpha * x).pow(2) / (alpha + 1e-9)
