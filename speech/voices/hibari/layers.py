"""The layers hibari is made of. Sequences are [..., frames, channels], so that a row is a frame."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from speech.dense import dense
from speech.voices.hibari.weights import Weights

HEADS = 2


class Block:
    """Depthwise convolution over frames, then two linear layers with a GELU between them, added to the input.

    Maps [..., frames + 2 * radius, channels] to [..., frames, channels]: the caller gives the frames around.
    """

    def __init__(self, weights: Weights, name: str, device: str, dilation: int = 1, precision: str = "float32") -> None:
        def get(part: str) -> Tensor:
            return weights[f"{name}.{part}"]

        kernel = get("dw.weight")  # [channels, 1, taps]
        gamma = get("gamma")
        self.taps = kernel[:, 0].t().contiguous().to(device)
        self.dilation = dilation
        self.radius = dilation * (kernel.shape[-1] // 2)
        self.bias = get("dw.bias").to(device)
        self.norm = get("norm.weight").to(device), get("norm.bias").to(device)
        self.up = dense(precision, get("pw1.weight").to(device), get("pw1.bias").to(device))
        # The layer's scale is folded into its last matrix.
        down = get("pw2.weight") * gamma[:, None]
        self.down = dense(precision, down.to(device), (get("pw2.bias") * gamma).to(device))
        self.cost = 2 * down.numel() / 1e6
        """Millions of multiplications per frame."""

    def __call__(self, x: Tensor) -> Tensor:
        frames = x.shape[-2] - 2 * self.radius
        # A sum of shifted products: for a window's few frames faster than conv1d, and without its transposes.
        y = torch.addcmul(self.bias, x[..., :frames, :], self.taps[0])
        for tap in range(1, len(self.taps)):
            y.addcmul_(x[..., tap * self.dilation : tap * self.dilation + frames, :], self.taps[tap])
        y = self.down(functional.gelu(self.up(norm(y, *self.norm).flatten(0, -2))))
        middle = x[..., self.radius : self.radius + frames, :]
        return middle + y.view(middle.shape)

    def whole(self, x: Tensor) -> Tensor:
        """A whole sequence [frames, channels] to one of the same length, with silence (zeros) around it."""
        return self(functional.pad(x, (0, 0, self.radius, self.radius)))


class TextEncoder:
    """Symbols to features: an embedding, convolutions, then one attention layer that is run several times."""

    def __init__(self, weights: Weights, name: str, device: str, loops: int, precision: str = "float32") -> None:
        def get(part: str) -> Tensor:
            return weights[f"{name}.{part}"].to(device)

        def pair(part: str, joint: str = ".") -> tuple[Tensor, Tensor]:
            return get(f"{part}{joint}weight"), get(f"{part}{joint}bias")

        self.embedding = get("emb.weight")
        self.dim = self.embedding.shape[1]
        self.blocks = [Block(weights, f"{name}.convs.{n}", device, precision=precision) for n in range(2)]
        self.norm1, self.norm2, self.last = pair("attn.norm1"), pair("attn.norm2"), pair("norm")
        self.qkv = dense(precision, *pair("attn.self_attn.in_proj", "_"))
        self.out = dense(precision, *pair("attn.self_attn.out_proj"))
        self.linear1, self.linear2 = dense(precision, *pair("attn.linear1")), dense(precision, *pair("attn.linear2"))
        self.loops = loops

    def begin(self, ids: Tensor) -> Tensor:
        """Symbols [n] to the input of the first layer [n, dim]."""
        return functional.embedding(ids, self.embedding)

    @property
    def layers(self) -> list[Callable[[Tensor], Tensor]]:
        """What the input goes through in order, each [n, dim] to [n, dim]."""
        return [*(block.whole for block in self.blocks), *[self._attend] * self.loops, self._end]

    def _attend(self, x: Tensor) -> Tensor:
        n = len(x)
        q, k, v = self.qkv(norm(x, *self.norm1)).view(n, 3, HEADS, -1).permute(1, 2, 0, 3)
        mixed = functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
        x = x + self.out(mixed.permute(1, 0, 2).reshape(n, -1))
        return x + self.linear2(functional.gelu(self.linear1(norm(x, *self.norm2))))

    def _end(self, x: Tensor) -> Tensor:
        return norm(x, *self.last)


def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer normalisation over channels."""
    return functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)
