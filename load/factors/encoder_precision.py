"""Shorter numbers in the encoder's dense layers, by torch: they pay where the processor multiplies them."""

from __future__ import annotations

import torch

from load.factors.encoder_engines import with_encoder
from load.factors.factor import Absent, Base, Factor
from load.factors.live import Engine
from speech.dense import Int8
from speech.whisper.encoder import Encoder
from speech.whisper.weights import Checkpoint


class Mixed(Encoder):
    """Feed-forward in int8, attention in bfloat16."""

    def __init__(self, weights: Checkpoint, precision: str, device: str, probes: int = 0) -> None:
        super().__init__(weights, precision, device, probes)
        for i in range(self.layers):
            for name in ("ffn/linear_0", "ffn/linear_1"):
                prefix = f"encoder/layer_{i}/{name}/"
                layer = Int8(weights.tensors[prefix + "weight"], weights.tensors[prefix + "bias"])
                self._dense[f"{i}/{name}"] = lambda x, layer=layer: layer(x.float())


def _needs(*flags: str) -> None:
    """Raises Absent where torch does not find these instructions: emulated, they take ten times as long."""
    have = torch.cpu._is_vnni_supported() if "vnni" in flags else True
    if not have:
        raise Absent("the processor does not multiply bytes (VNNI)")
    if "bfloat16" in flags and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        raise Absent("the processor has no bfloat16")


def _bytes(base: Base) -> Engine:
    _needs("vnni")
    return with_encoder(base, Encoder, "int8")


def _mixed(base: Base) -> Engine:
    _needs("vnni", "bfloat16")
    return with_encoder(base, Mixed, "bfloat16")


FACTORS = (
    Factor("encoder in int8", "encoder", "all dense layers, a scale for each row", _bytes),
    Factor("feed-forward in int8", "encoder", "attention in bfloat16", _mixed),
)
