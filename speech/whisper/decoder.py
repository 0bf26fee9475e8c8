"""Whisper's decoder with caches of its own, stepping many sequences at once.

A sequence keeps its self-attention keys and values and the cross-attention ones of its utterance, so a step costs the
new tokens only. One step may feed one token to some sequences and twenty to others (a prompt, a stable prefix, a
draft to verify): rows are packed for the dense layers, and each sequence attends over its own caches.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from speech.dense import Scanned, dense, scans
from speech.whisper.weights import Checkpoint

CONTEXT = 448
"""Positions of the decoder: prompt and text together."""

_GROW = 64


class Sequence:
    """Tokens fed so far and what attention needs of them. `cross` is (layers, 2, heads, 1500, head)."""

    __slots__ = ("cross", "ids", "kv", "queries")

    def __init__(self, decoder: Decoder, cross: Tensor) -> None:
        self.ids: list[int] = []
        self.cross = cross
        self.kv = decoder.empty_kv(_GROW)
        self.queries = decoder.empty_queries(_GROW)

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        del self.ids[length:]

    def reserve(self, more: int) -> None:
        """Make room for `more` tokens after those fed."""
        need = len(self.ids) + more
        have = self.kv.shape[3]
        if need > have:
            pad = max(need - have, _GROW)
            self.kv = F.pad(self.kv, (0, 0, 0, pad))
            self.queries = F.pad(self.queries, (0, 0, 0, pad))


@dataclass(slots=True)
class Feed:
    """Tokens for one sequence in a step; logits come back for the rows of `ids` numbered in `want`."""

    sequence: Sequence
    ids: list[int]
    want: list[int]


class Decoder:
    """The decoder of one checkpoint on one device."""

    def __init__(self, weights: Checkpoint, precision: str, device: str) -> None:
        w = {name: t.to(device) for name, t in weights.tensors.items() if name.startswith("decoder/")}
        self.layers, self.heads, self.dim = weights.decoder_layers, weights.heads, weights.dim
        self.head = self.dim // self.heads
        self.device = device
        self.alignment = weights.alignment_heads or tuple(
            (layer, head) for layer in range(self.layers // 2, self.layers) for head in range(self.heads)
        )
        names = [
            f"decoder/layer_{i}/{part}"
            for i in range(self.layers)
            for part in (
                "self_attention/linear_0",
                "self_attention/linear_1",
                "attention/linear_0",
                "attention/linear_2",
                "ffn/linear_0",
                "ffn/linear_1",
            )
        ] + ["decoder/projection"]
        self._dense = {n: dense(precision, w[n + "/weight"], w.get(n + "/bias")) for n in names}
        if precision == "float32" and scans(device):
            self._dense["decoder/projection"] = Scanned(w["decoder/projection/weight"])
        self._w = {
            name: t for name, t in w.items() if "layer_norm" in name or "embeddings" in name or "position" in name
        }
        # A token step reads all keys and values of every utterance once: what short weights save there, they save too.
        self.cross_dtype = torch.float32 if precision == "float32" else torch.bfloat16
        if device != "cpu":
            self.cross_dtype = self._w["decoder/position_encodings/encodings"].dtype
        # Projecting the encoder's states is as arithmetic-bound as the encoder: hundreds of rows, once.
        projection = precision if precision != "int8" else "float32"
        self._project = [
            dense(
                projection,
                w[f"decoder/layer_{i}/attention/linear_1/weight"],
                w[f"decoder/layer_{i}/attention/linear_1/bias"],
            )
            for i in range(self.layers)
        ]

    def empty_kv(self, tokens: int) -> Tensor:
        """Room for `tokens` self-attention keys and values: (layers, 2, heads, tokens, head)."""
        return torch.zeros(self.layers, 2, self.heads, tokens, self.head, device=self.device)

    def empty_queries(self, tokens: int) -> Tensor:
        """Room for the cross-attention queries of the alignment heads: (alignment heads, tokens, head)."""
        return torch.zeros(len(self.alignment), tokens, self.head, device=self.device)

    def cross(self, states: Tensor) -> Tensor:
        """Cross-attention keys and values (layers, 2, heads, n, head) of encoder states (n, dim)."""
        return torch.stack(
            [
                project(states).to(self.cross_dtype).view(-1, 2, self.heads, self.head).permute(1, 2, 0, 3)
                for project in self._project
            ]
        )

    def step(self, feeds: Seq[Feed]) -> list[Tensor]:
        """Feed every sequence its tokens; (rows wanted, vocabulary) logits in float32 for each."""
        w = self._w
        sizes = [len(f.ids) for f in feeds]
        for f in feeds:
            f.sequence.reserve(len(f.ids))
        ids = torch.tensor([t for f in feeds for t in f.ids], device=self.device)
        places = torch.tensor([len(f.sequence.ids) + j for f in feeds for j in range(len(f.ids))], device=self.device)
        x = w["decoder/embeddings/weight"][ids] + w["decoder/position_encodings/encodings"][places]
        for i in range(self.layers):
            x = self._layer(i, x, feeds, sizes)
        for f in feeds:
            f.sequence.ids.extend(f.ids)
        starts = [sum(sizes[:j]) for j in range(len(feeds))]
        rows = torch.tensor([s + r for s, f in zip(starts, feeds, strict=True) for r in f.want], device=self.device)
        logits = self._dense["decoder/projection"](self._norm(x[rows], "decoder/layer_norm"))
        return list(logits.float().split([len(f.want) for f in feeds]))

    def alignment_scores(self, sequence: Sequence, rows: list[int], frames: int) -> Tensor:
        """Attention (alignment heads, len(rows), frames) of fed tokens over the first encoder frames alone."""
        q = sequence.queries[:, rows]
        k = torch.stack([sequence.cross[layer, 0, head, :frames] for layer, head in self.alignment]).to(q.dtype)
        return torch.softmax(q @ k.transpose(1, 2) * self.head**-0.5, -1)

    def _layer(self, i: int, x: Tensor, feeds: Seq[Feed], sizes: list[int]) -> Tensor:
        p, d = f"decoder/layer_{i}/", self._dense
        qkv = d[p + "self_attention/linear_0"](self._norm(x, p + "self_attention/layer_norm"))
        mixed = [
            self._self_attention(i, f, rows.view(-1, 3, self.heads, self.head))
            for f, rows in zip(feeds, qkv.split(sizes), strict=True)
        ]
        x = x + d[p + "self_attention/linear_1"](torch.cat(mixed))
        q = d[p + "attention/linear_0"](self._norm(x, p + "attention/layer_norm"))
        mixed = [
            self._cross_attention(i, f, rows.view(-1, self.heads, self.head))
            for f, rows in zip(feeds, q.split(sizes), strict=True)
        ]
        x = x + d[p + "attention/linear_2"](torch.cat(mixed))
        h = F.gelu(d[p + "ffn/linear_0"](self._norm(x, p + "ffn/layer_norm")))
        return x + d[p + "ffn/linear_1"](h)

    def _self_attention(self, i: int, f: Feed, qkv: Tensor) -> Tensor:
        at, n = len(f.sequence.ids), len(f.ids)
        q, k, v = qkv.permute(1, 2, 0, 3)
        kv = f.sequence.kv[i]
        kv[0, :, at : at + n] = k
        kv[1, :, at : at + n] = v
        # Row r sees the tokens before it and itself; one new token sees them all.
        mask = None if n == 1 else torch.ones(n, at + n, dtype=torch.bool, device=q.device).tril(at)
        out = F.scaled_dot_product_attention(q[None], kv[None, 0, :, : at + n], kv[None, 1, :, : at + n], mask)
        return out[0].transpose(0, 1).reshape(n, self.dim)

    def _cross_attention(self, i: int, f: Feed, q: Tensor) -> Tensor:
        at, n = len(f.sequence.ids), len(f.ids)
        q = q.transpose(0, 1)
        for slot, (layer, head) in enumerate(self.alignment):
            if layer == i:
                f.sequence.queries[slot, at : at + n] = q[head]
        k, v = f.sequence.cross[i]
        if k.dtype == torch.bfloat16:
            # Two products beat the fused kernel, which converts keys and values on every call.
            scores = (q.to(k.dtype) * self.head**-0.5) @ k.transpose(1, 2)
            out: Tensor = (torch.softmax(scores, -1, torch.float32).to(v.dtype) @ v).float()
        else:
            out = F.scaled_dot_product_attention(q[None], k[None], v[None])[0]
        return out.transpose(0, 1).reshape(n, self.dim)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (self.dim,), self._w[name + "/gamma"], self._w[name + "/beta"])
