"""A language model over the tokens of several requests at once, each with a cache of its own.

The model is the library's, unchanged; only its attention is ours, registered the way the library provides for. Tokens
of all requests lie in one row, and each attends to its own request's cache. So nothing is padded to the longest, and
no request sees another's numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

from vision_text.models import ModelUnusable
from vision_text.vlm.kv import KV, Shape

ATTENTION = "speechlane_rows"
LEAST_ROWS = 8
"""A matrix product of one or two rows is made by another kernel, with other roundings, than one of many: fewer rows
are filled up, so that a request's numbers are the same bits alone and among others."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The next tokens of one request: `embeddings` (tokens, width), `positions` (axes, tokens)."""

    kv: KV
    embeddings: Tensor
    positions: Tensor


@dataclass(frozen=True, slots=True)
class _Packed:
    caches: tuple[KV, ...]
    counts: tuple[int, ...]


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **given: Any
) -> tuple[Tensor, None]:
    """(1, heads, tokens, width) each; the result is (1, tokens, heads, width), as the library wants it."""
    packed: _Packed = given["packed_rows"]
    if given.get("sliding_window") is not None or given.get("softcap") is not None:
        raise ModelUnusable("this model attends in a way that is not served here; choose another")
    layer, scale = int(module.layer_idx), given.get("scaling")  # type: ignore[arg-type]
    groups = query.shape[1] != key.shape[1]
    made, start = [], 0
    for kv, count in zip(packed.caches, packed.counts, strict=True):
        part = slice(start, start + count)
        keys, values = kv.extend(layer, key[0, :, part], value[0, :, part])
        mask = None
        if 1 < count < keys.shape[1]:
            mask = torch.ones(count, keys.shape[1], dtype=torch.bool, device=query.device).tril_(kv.length)
        made.append(
            F.scaled_dot_product_attention(
                query[:, :, part],
                keys[None],
                values[None],
                attn_mask=mask,
                is_causal=count > 1 and mask is None,
                scale=scale,
                enable_gqa=groups,
            )
        )
        start += count
    if missing := query.shape[2] - start:
        made.append(query.new_zeros(1, query.shape[1], missing, value.shape[-1]))
    return torch.cat(made, 2).transpose(1, 2), None


AttentionInterface.register(ATTENTION, _attend)


class TextCore:
    """`text` is the library's decoder without its head. It keeps nothing of a step, so that devices may share it."""

    def __init__(self, text: nn.Module, head: nn.Module, device: torch.device, counters: Counter[str]) -> None:
        config: Any = text.config
        kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"}:
            raise ModelUnusable(f"models with layers of {', '.join(sorted(map(str, kinds)))} are not served here")
        config._attn_implementation = ATTENTION
        self.text, self.head, self.device, self.counters = text, head, device, counters
        self.embed: nn.Module = text.get_input_embeddings()  # type: ignore[operator]
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        weight: Tensor = self.embed.weight
        self.shape = Shape(config.num_hidden_layers, heads, width, weight.dtype)
        self.context = int(getattr(config, "max_position_embeddings", 0) or 4096)
        self.vocabulary = weight.shape[0]

    @property
    def parameters(self) -> int:
        """That take part in a token's computation."""
        return sum(one.numel() for one in self.text.parameters()) - self.embed.weight.numel()  # type: ignore[operator]

    @property
    def bytes(self) -> int:
        """Of the weights."""
        return sum({one.data_ptr(): one.nbytes for one in (*self.text.parameters(), *self.head.parameters())}.values())

    def cache(self, kind: str) -> KV:
        return KV(self.shape, kind, self.device, self.counters)

    def embedded(self, ids: Sequence[int]) -> Tensor:
        """(tokens, width)."""
        made: Tensor = self.embed(torch.tensor(list(ids), device=self.device))
        return made

    def run(self, rows: Sequence[Rows]) -> list[Tensor]:
        """The hidden states (tokens, width) of each request's tokens. Their keys and values are in the caches and
        count from here on."""
        counts = tuple(len(one.embeddings) for one in rows)
        for one, count in zip(rows, counts, strict=True):
            one.kv.reserve(one.kv.length + count)
        embeddings = torch.cat([one.embeddings for one in rows])
        positions = torch.cat([one.positions for one in rows], 1).to(self.device)
        if (missing := LEAST_ROWS - len(embeddings)) > 0:
            embeddings = F.pad(embeddings, (0, 0, 0, missing))
            positions = F.pad(positions, (0, missing))
        axes = positions[0:1] if positions.shape[0] == 1 else positions.unsqueeze(1)
        made = self.text(
            inputs_embeds=embeddings.unsqueeze(0),
            position_ids=axes,
            use_cache=False,
            packed_rows=_Packed(tuple(one.kv for one in rows), counts),
        ).last_hidden_state[0]
        for one, count in zip(rows, counts, strict=True):
            one.kv.commit(count)
        return list(made[: sum(counts)].split(list(counts)))

    def logits(self, hidden: Tensor) -> Tensor:
        """(tokens, vocabulary) float32."""
        missing = LEAST_ROWS - len(hidden)
        padded = F.pad(hidden, (0, 0, 0, missing)) if missing > 0 else hidden
        made: Tensor = self.head(padded)[: len(hidden)].float()
        return made
