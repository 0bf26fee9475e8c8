"""Attention in eight bits, simulated in float32, chosen for one model and never for the process.

Queries and keys as integers with a scale for each block of tokens and head, the keys first without their mean, which
the softmax does not see and which carries most of their outliers; what the softmax gives and the values in fp8, a scale
for each channel of the values. This is the arithmetic of the kernels that quantise attention on GPUs; here it says what
they cost in quality. A processor of any class keeps doing what it does: only its one call of the product is replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from vision_text.numerics.linear import blocks_of
from workers.errors import InputInvalid

AttentionFormat = Literal["float32", "int8", "fp8"]
ATTENTION_FORMATS: tuple[AttentionFormat, ...] = get_args(AttentionFormat)

QUERY_BLOCK, KEY_BLOCK = 128, 64
"""Tokens that share a scale."""
_FP8 = torch.float8_e4m3fn
_FP8_LARGEST = torch.finfo(_FP8).max
_SMALLEST_SCALE = 1e-12


def quantised_attention(
    query: Tensor, key: Tensor, value: Tensor, format: AttentionFormat, *, scale: float | None = None
) -> Tensor:
    """Full attention over (batch, heads, tokens, channels). "int8": queries and keys int8, the rest fp8; "fp8": all of
    it fp8."""
    key = key - key.mean(-2, keepdim=True)
    factor = scale if scale is not None else query.shape[-1] ** -0.5
    near = _near_int8 if format == "int8" else _near_fp8
    logits = near(query, QUERY_BLOCK) @ near(key, KEY_BLOCK).transpose(-1, -2) * factor
    weights = (logits - logits.amax(-1, keepdim=True)).exp()  # at most 1, so that one scale does for all of them
    total = weights.sum(-1, keepdim=True)
    weights = (weights * _FP8_LARGEST).to(_FP8).to(weights.dtype) / _FP8_LARGEST
    unit = (value.abs().amax(-2, keepdim=True) / _FP8_LARGEST).clamp_min(_SMALLEST_SCALE)
    made: Tensor = weights @ ((value / unit).to(_FP8).to(value.dtype) * unit) / total
    return made


def _near_int8(x: Tensor, block: int) -> Tensor:
    scale = _block_scale(x, block, 127)
    return (x / scale).round().clamp_(-127, 127) * scale


def _near_fp8(x: Tensor, block: int) -> Tensor:
    scale = _block_scale(x, block, _FP8_LARGEST)
    return (x / scale).to(_FP8).to(x.dtype) * scale


def _block_scale(x: Tensor, block: int, largest: float) -> Tensor:
    """For each token that of its block, (..., tokens, 1)."""
    tokens = x.shape[-2]
    highest = functional.pad(x.abs().amax(-1), (0, -tokens % block)).unflatten(-1, (-1, block)).amax(-1)
    scale: Tensor = (highest / largest).clamp_min(_SMALLEST_SCALE)
    return scale.repeat_interleave(block, -1)[..., :tokens].unsqueeze(-1)


class _Replaced(TorchFunctionMode):
    """While it is entered, on this thread, the product of attention is the quantised one."""

    def __init__(self, format: AttentionFormat, counters: Counter[str]) -> None:
        super().__init__()
        self.format, self.counters = format, counters

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is not functional.scaled_dot_product_attention:
            return func(*args, **kwargs)
        named = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False)) | kwargs
        if named.get("attn_mask") is not None or named.get("is_causal"):
            raise ValueError("quantised attention is for full attention without a mask")
        self.counters[_effect(self.format)] += 1
        return quantised_attention(named["query"], named["key"], named["value"], self.format, scale=named.get("scale"))


def _effect(format: AttentionFormat) -> str:
    return f"attention.{format} (emulated)"


class QuantisedProcessor:
    """An attention processor that does what `inner` does, with the product in `format`."""

    def __init__(self, inner: Any, counters: Counter[str]) -> None:
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "format", "float32")
        object.__setattr__(self, "counters", counters)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "inner"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        """What the library keeps on a processor (its kernel, its part of a group) belongs to the inner one."""
        if name == "format":
            object.__setattr__(self, name, value)
        else:
            setattr(self.inner, name, value)

    def __call__(
        self,
        attn: nn.Module,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        image_rotary_emb: Any = None,
    ) -> Any:
        # The names are spelt out because the library drops arguments that it does not see in the signature.
        given = attn, hidden_states, encoder_hidden_states, attention_mask, image_rotary_emb
        if self.format == "float32":
            return self.inner(*given)
        before = self.counters[_effect(self.format)]
        with _Replaced(self.format, self.counters):
            made = self.inner(*given)
        if self.counters[_effect(self.format)] == before:
            raise InputInvalid(
                f"attention in {self.format} had no effect: the kernel that was chosen does not go through torch's "
                "product of attention; take the native one",
                param="options.attention_precision",
            )
        return made


class LoweredAttention:
    """A transformer whose blocks can each attend in another precision, changed between any two steps."""

    def __init__(self, model: nn.Module, *, counters: Counter[str] | None = None) -> None:
        self.counters: Counter[str] = Counter() if counters is None else counters
        self._processors: dict[str, list[tuple[Any, QuantisedProcessor]]] = {}
        for name, block in blocks_of(model).items():
            found = [module for module in block.modules() if hasattr(module, "processor")]
            self._processors[name] = [(module, self._wrap(module)) for module in found]
        self.layers = tuple(self._processors)
        self._active: tuple[str, ...] = ("float32",) * len(self.layers)

    def _wrap(self, module: Any) -> QuantisedProcessor:
        module.processor = QuantisedProcessor(module.processor, self.counters)
        wrapped: QuantisedProcessor = module.processor
        return wrapped

    def use(self, formats: Sequence[AttentionFormat]) -> None:
        """From now on block n attends in formats[n]. Raises ValueError for another number of blocks than there is."""
        if tuple(formats) == self._active:
            return
        if len(formats) != len(self.layers):
            raise ValueError(f"the plan is of {len(formats)} blocks, the model has {len(self.layers)}")
        for layer, format in zip(self.layers, formats, strict=True):
            if format not in ATTENTION_FORMATS:
                raise ValueError(f"attention has no precision {format!r}; there is {', '.join(ATTENTION_FORMATS)}")
            for _, processor in self._processors[layer]:
                processor.format = format
        self._active = tuple(formats)

    def close(self) -> None:
        """Put the processors back that were there."""
        for pairs in self._processors.values():
            for module, wrapped in pairs:
                module.processor = wrapped.inner
        self._processors = {}
