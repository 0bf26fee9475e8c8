"""A decoder-only language model of the Llama kind: RMS norm, rotary positions, grouped queries, SwiGLU.

It keeps no state. Keys and values lie in the caller's memory, a row for each sequence, and `forward` writes only in
rows that are active. It takes either several tokens of one row or one token of many rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

_ROUND = 64
"""Attention over many rows reads this many positions at a time."""


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """Llama 3's stretch of the low frequencies."""

    factor: float
    low: float
    high: float
    original: int


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Sizes of the model."""

    dim: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    vocabulary: int
    positions: int
    eps: float
    theta: float
    scaling: RopeScaling | None
    tied: bool

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight, as published checkpoints name them."""
        q, kv = self.heads * self.head, self.kv_heads * self.head
        shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (self.vocabulary, self.dim)}
        for i in range(self.layers):
            layer = f"model.layers.{i}."
            shapes |= {
                f"{layer}input_layernorm.weight": (self.dim,),
                f"{layer}self_attn.q_proj.weight": (q, self.dim),
                f"{layer}self_attn.k_proj.weight": (kv, self.dim),
                f"{layer}self_attn.v_proj.weight": (kv, self.dim),
                f"{layer}self_attn.o_proj.weight": (self.dim, q),
                f"{layer}post_attention_layernorm.weight": (self.dim,),
                f"{layer}mlp.gate_proj.weight": (self.ffn, self.dim),
                f"{layer}mlp.up_proj.weight": (self.ffn, self.dim),
                f"{layer}mlp.down_proj.weight": (self.dim, self.ffn),
            }
        shapes["model.norm.weight"] = (self.dim,)
        if not self.tied:
            shapes["lm_head.weight"] = (self.vocabulary, self.dim)
        return shapes


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weights of a layer; those that read the same input are one matrix."""

    before: Tensor
    qkv: Tensor
    out: Tensor
    between: Tensor
    gate_up: Tensor
    down: Tensor


class Llama:
    """The model on one device. `outputs` are the tokens whose logits are wanted at all."""

    def __init__(self, config: LlamaConfig, weights: Mapping[str, Tensor], outputs: Tensor, capacity: int) -> None:
        self.config = config
        self._embed = weights["model.embed_tokens.weight"]
        self._norm = weights["model.norm.weight"]
        head = self._embed if config.tied else weights["lm_head.weight"]
        self._head = head[outputs.to(head.device)].contiguous()
        self._layers = [_layer(weights, f"model.layers.{i}.") for i in range(config.layers)]
        self._cos, self._sin = _rotary(config, capacity, self._embed.device)

    @property
    def dtype(self) -> torch.dtype:
        return self._embed.dtype

    def memory(self, rows: int, capacity: int) -> Tensor:
        """Room for keys and values: [layers, 2, rows, kv heads, capacity, head]."""
        c = self.config
        shape = (c.layers, 2, rows, c.kv_heads, capacity, c.head)
        return torch.zeros(shape, dtype=self.dtype, device=self._embed.device)

    def forward(self, ids: Tensor, at: list[int], memory: Tensor, active: list[int]) -> Tensor:
        """States [rows, dim] after the last token of each row.

        `ids` int64 [rows, tokens], one row or one token; `at` is the position of each row's first token, `memory` that
        of these rows, and `active` the rows that count: only they are written, the others' states mean nothing.
        """
        many = len(at) > 1
        tokens = ids.shape[1]
        device = ids.device
        places = torch.tensor(at, device=device)[:, None] + torch.arange(tokens, device=device)
        mask: Tensor | None = None
        if many:
            until = min(memory.shape[4], -(-(max(at[row] for row in active) + 1) // _ROUND) * _ROUND)
            mask = (torch.arange(until, device=device) <= places)[:, None, None]
        else:
            until = at[0] + tokens
            if tokens > 1:
                mask = torch.ones(tokens, until, dtype=torch.bool, device=device).tril(at[0])
        rows = torch.tensor(active, device=device)
        x = self._embed[ids]
        cos, sin = self._cos[places][:, None], self._sin[places][:, None]
        for layer, kv in zip(self._layers, memory, strict=True):
            q, k, v = self._heads(F.linear(self._rms(x, layer.before), layer.qkv))
            q, k = _turn(q, cos, sin), _turn(k, cos, sin)
            if many:
                kv[0][rows, :, places[rows, 0]] = k[rows, :, 0]
                kv[1][rows, :, places[rows, 0]] = v[rows, :, 0]
            else:
                kv[0, :, :, at[0] : until] = k
                kv[1, :, :, at[0] : until] = v
            mixed = F.scaled_dot_product_attention(q, kv[0, :, :, :until], kv[1, :, :, :until], mask, enable_gqa=True)
            x = x + F.linear(mixed.transpose(1, 2).flatten(2), layer.out)
            gate, up = F.linear(self._rms(x, layer.between), layer.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        return self._rms(x[:, -1], self._norm)

    def logits(self, states: Tensor) -> Tensor:
        """Float32 logits [rows, outputs] of states [rows, dim]."""
        return F.linear(states, self._head).float()

    def _heads(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        c = self.config
        parts = qkv.unflatten(-1, (-1, c.head)).transpose(1, 2)
        q, k, v = parts.split([c.heads, c.kv_heads, c.kv_heads], 1)
        return q, k, v

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        return weight * F.rms_norm(x.float(), (self.config.dim,), eps=self.config.eps).to(x.dtype)


def _layer(weights: Mapping[str, Tensor], prefix: str) -> _Layer:
    def of(*names: str) -> Tensor:
        parts = [weights[f"{prefix}{name}.weight"] for name in names]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    return _Layer(
        before=of("input_layernorm"),
        qkv=of("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        out=of("self_attn.o_proj"),
        between=of("post_attention_layernorm"),
        gate_up=of("mlp.gate_proj", "mlp.up_proj"),
        down=of("mlp.down_proj"),
    )


def _rotary(config: LlamaConfig, positions: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines [positions, head] in float32."""
    powers = torch.arange(0, config.head, 2, dtype=torch.float64) / config.head
    frequencies = config.theta**-powers
    if config.scaling is not None:
        s = config.scaling
        turns = s.original * frequencies / (2 * math.pi)  # over the original context
        share = ((turns - s.low) / (s.high - s.low)).clamp(0, 1)
        frequencies = frequencies * (share + (1 - share) / s.factor)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * frequencies
    angles = torch.cat([angles, angles], 1)
    return angles.cos().float().to(device), angles.sin().float().to(device)


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position of x [rows, heads, tokens, head]: the two halves of a head are the parts of complex numbers."""
    low, high = x.chunk(2, -1)
    return (x * cos + torch.cat([-high, low], -1) * sin).to(x.dtype)
