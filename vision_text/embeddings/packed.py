"""The encoder of BERT, RoBERTa and XLM-RoBERTa on texts laid end to end: no padding is computed, and it can pause
between any two layers.

Only attention needs to know where a text ends. Texts come sorted by length, so that those of one length attend in one
call without a mask, and no text's numbers depend on what else is in the batch but for rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vision_text.embeddings.linear import ROWS, Activation, Dense, dense
from vision_text.embeddings.tokens import Ids

_ACTIVATIONS: dict[str, Activation] = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
_FIRST_POSITION = {
    "bert": 0,
    "roberta": None,
    "xlm-roberta": None,
    "camembert": None,
}  # None: after that of the padding


def can_pack(config: Mapping[str, Any]) -> bool:
    """Whether this is one of the architectures that are computed here."""
    return (
        config.get("model_type") in _FIRST_POSITION
        and config.get("position_embedding_type", "absolute") == "absolute"
        and config.get("hidden_act") in _ACTIVATIONS
        and not config.get("is_decoder")
    )


class Spans:
    """Where texts lie: `groups` of (first row, texts, length), for each run of texts of one length; `rows` in all."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.groups: list[tuple[int, int, int]] = []
        self.rows = 0
        for length, same in groupby(lengths):
            count = len(list(same))
            self.groups.append((self.rows, count, length))
            self.rows += count * length

    @classmethod
    def together(cls, spans: Sequence[Spans]) -> Spans:
        """Those of batches laid end to end."""
        joined = cls([])
        for one in spans:
            joined.groups += [(joined.rows + row, count, length) for row, count, length in one.groups]
            joined.rows += one.rows
        return joined


class PackedEncoder:
    """`layers` steps, each from (rows, width) to (rows, width)."""

    def __init__(
        self, config: Mapping[str, Any], weights: Mapping[str, Tensor], dtype: torch.dtype, device: str
    ) -> None:
        weights = {name.removeprefix("bert.").removeprefix("roberta."): tensor for name, tensor in weights.items()}
        offset = _FIRST_POSITION[config["model_type"]]
        self.width: int = config["hidden_size"]
        self.layers: int = config["num_hidden_layers"]
        self._heads: int = config["num_attention_heads"]
        self._eps: float = config["layer_norm_eps"]
        self._first = int(config.get("pad_token_id", 1)) + 1 if offset is None else offset
        self._device = device

        def get(name: str) -> Tensor:
            return weights[name].float().to(device)

        self._words = get("embeddings.word_embeddings.weight")
        positions = get("embeddings.position_embeddings.weight")[self._first :]
        self._positions = positions + get("embeddings.token_type_embeddings.weight")[0]
        self._norm = _norm(get, "embeddings.LayerNorm")
        self.most_tokens = len(positions)
        self.vocabulary = len(self._words)
        activation = _ACTIVATIONS[config["hidden_act"]]
        self._layers = [_Layer(get, f"encoder.layer.{n}.", dtype, activation) for n in range(self.layers)]

    def begin(self, texts: Sequence[Ids]) -> tuple[Tensor, Spans]:
        """The embedded tokens of texts of ascending lengths, end to end, and some rows of nothing after them."""
        spans = Spans([len(ids) for ids in texts])
        taken, spans.rows = spans.rows, -(-spans.rows // ROWS) * ROWS
        ids, places = np.zeros(spans.rows, np.int64), np.zeros(spans.rows, np.int64)
        ids[:taken] = np.concatenate(texts)
        for first, count, length in spans.groups:
            places[first : first + count * length] = np.tile(np.arange(length), count)
        x = self._words[torch.from_numpy(ids).to(self._device)]
        x += self._positions[torch.from_numpy(places).to(self._device)]
        return F.layer_norm(x, (self.width,), *self._norm, self._eps), spans

    def run(self, x: Tensor, spans: Spans, first: int, count: int) -> Tensor:
        """Layers `first` to `first + count`."""
        for layer in self._layers[first : first + count]:
            x = layer.norm_attention(x, layer.out(self._attend(layer.qkv(x), spans)), self.width, self._eps)
            x = layer.norm_output(x, layer.down(layer.up(x)), self.width, self._eps)
        return x

    def _attend(self, qkv: Tensor, spans: Spans) -> Tensor:
        heads, size = self._heads, self.width // self._heads
        mixed = qkv.new_zeros((len(qkv), self.width))
        for first, count, length in spans.groups:
            rows = slice(first, first + count * length)
            q, k, v = qkv[rows].view(count, length, 3, heads, size).permute(2, 0, 3, 1, 4)
            found = F.scaled_dot_product_attention(q, k, v)
            mixed[rows].view(count, length, heads, size).copy_(found.transpose(1, 2))
        return mixed


class _Layer:
    """One of them; query, key and value in one product."""

    def __init__(self, get: Any, prefix: str, dtype: torch.dtype, activation: Activation) -> None:
        def linear(*names: str, after: Activation = "") -> Dense:
            weight = torch.cat([get(f"{prefix}{name}.weight") for name in names])
            bias = torch.cat([get(f"{prefix}{name}.bias") for name in names])
            return dense(weight.to(dtype), bias.to(dtype), after)

        self.qkv = linear("attention.self.query", "attention.self.key", "attention.self.value")
        self.out = linear("attention.output.dense")
        self.up = linear("intermediate.dense", after=activation)
        self.down = linear("output.dense")
        self._first = _norm(get, f"{prefix}attention.output.LayerNorm")
        self._second = _norm(get, f"{prefix}output.LayerNorm")

    def norm_attention(self, x: Tensor, change: Tensor, width: int, eps: float) -> Tensor:
        return F.layer_norm(x + change, (width,), *self._first, eps)

    def norm_output(self, x: Tensor, change: Tensor, width: int, eps: float) -> Tensor:
        return F.layer_norm(x + change, (width,), *self._second, eps)


def _norm(get: Any, name: str) -> tuple[Tensor, Tensor]:
    return get(f"{name}.weight"), get(f"{name}.bias")
