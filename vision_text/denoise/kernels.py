"""The kernel of attention, by the library's name, for the processors of one tree of modules and nobody else.

The library's own switch is for the whole process and is not undone by its reset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from workers.errors import InputInvalid

NATIVE = "native"
_SHORT = {"math": "_native_math"}
_TOKENS = 16
_NEAR = 2e-2
"""How far a kernel may be from the exact one on random numbers: those that quantise are about half of it away, one that
is broken (NaN, zeros) is further."""


def library_name(kernel: str) -> Any:
    """Raises InputInvalid for one that the library does not have."""
    from diffusers.models.attention_dispatch import AttentionBackendName

    try:
        return AttentionBackendName(_SHORT.get(kernel, kernel))
    except ValueError:
        known = ", ".join(["math", *(one.value for one in AttentionBackendName if not one.value.startswith("_"))])
        raise InputInvalid(
            f"there is no attention kernel {kernel!r}; there is {known}", param="options.attention"
        ) from None


def check_kernel(kernel: str, model: nn.Module) -> None:
    """Run it once on this model's device and compare. Raises InputInvalid when it is not here or gives other
    numbers."""
    if kernel == NATIVE:
        return
    name = library_name(kernel)
    if name.value.endswith("_hub"):
        raise InputInvalid(
            f"the attention kernel {kernel} would be downloaded; install the package it is in and name that",
            param="options.attention",
        )
    weight = next(model.parameters())
    generator = torch.Generator().manual_seed(0)
    width = int(model.config.attention_head_dim)  # type: ignore[union-attr, arg-type]
    query, key, value = (
        torch.randn(1, _TOKENS, 2, width, generator=generator).to(weight.device, weight.dtype) for _ in range(3)
    )
    try:
        made = _dispatch(query, key, value, name)
        exact = _dispatch(query, key, value, library_name(NATIVE))
    except Exception as error:  # whatever a kernel that is not for this machine does
        raise InputInvalid(
            f"the attention kernel {kernel} does not run on this machine: {str(error)[:200]}", param="options.attention"
        ) from error
    if not torch.allclose(made.float(), exact.float(), atol=_NEAR):
        raise InputInvalid(
            f"the attention kernel {kernel} gives other numbers than the exact one here", param="options.attention"
        )


def use_kernel(kernel: str, model: nn.Module) -> None:
    """From now on, for the processors of these modules."""
    name = library_name(kernel)
    module: Any
    for module in model.modules():
        processor = getattr(module, "processor", None)
        if processor is None:
            continue
        if hasattr(processor, "_attention_backend"):
            processor._attention_backend = name
        elif kernel != NATIVE:
            module.processor = DispatchedProcessor(processor, name)


def _dispatch(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, name: Any, **given: Any) -> torch.Tensor:
    """(batch, tokens, heads, channels)."""
    from diffusers.models.attention_dispatch import dispatch_attention_fn

    made: torch.Tensor = dispatch_attention_fn(query, key, value, backend=name, **given)
    return made


class _Dispatched(TorchFunctionMode):
    def __init__(self, name: Any) -> None:
        super().__init__()
        self.name = name

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is not functional.scaled_dot_product_attention:
            return func(*args, **kwargs)
        named = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False)) | kwargs
        swapped = [named.pop(name).transpose(1, 2) for name in ("query", "key", "value")]
        with torch._C.DisableTorchFunction():  # the kernel itself may end in the function that is replaced here
            query, key, value = swapped
            return _dispatch(query, key, value, self.name, **named).transpose(1, 2)


class DispatchedProcessor:
    """For processors that call the product of attention themselves: the same, through the library's dispatcher."""

    def __init__(self, inner: Any, name: Any) -> None:
        self.inner, self.name = inner, name

    def __call__(
        self,
        attn: nn.Module,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        image_rotary_emb: Any = None,
    ) -> Any:
        # The names are spelt out because the library drops arguments that it does not see in the signature.
        with _Dispatched(self.name):
            return self.inner(attn, hidden_states, encoder_hidden_states, attention_mask, image_rotary_emb)
