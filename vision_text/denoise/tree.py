"""The modules of a transformer as one set of options wants them, over the same weights.

The library sets caches, kernels and norms on a model as a whole. Requests with other options are in the making at the
same time, so each set of options has modules of its own; parameters and buffers are those of the model.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from vision_text.denoise.caches import Cache, GuessedCalls, cache_for
from vision_text.denoise.kernels import check_kernel, use_kernel
from vision_text.denoise.options import Options
from vision_text.numerics.attention import LoweredAttention
from vision_text.numerics.formats import Format, arithmetic
from vision_text.numerics.linear import Lowering, blocks_of
from vision_text.numerics.plan import PrecisionPlan
from workers.errors import InputInvalid

ROWS = 8
"""Kernels choose their order of summing by the number of rows when these are few, as they are in linear layers over one
vector of each request. With always a multiple of this, a request's numbers do not depend on who shares the step."""
MANY_ROWS = 64

_numbers = itertools.count()


class Tree:
    """`model` is called as the transformer is. Belongs to one thread; `counters` are shared with the others."""

    cache: Cache | None = None

    def __init__(self, transformer: nn.Module, options: Options, steps: int, counters: Counter[str]) -> None:
        self.number = next(_numbers)
        self.counters = counters
        self.model = _with_the_same_weights(transformer)
        weight = next(transformer.parameters())
        self._device = str(weight.device)
        self._own = "bf16" if weight.dtype == torch.bfloat16 else str(weight.dtype).removeprefix("torch.")
        check_kernel(options.attention, self.model)
        use_kernel(options.attention, self.model)
        self.fused_norms = _fuse_norms(self.model) if options.fused_norm else 0
        self._attention = self._lowered_attention(options)
        self._plan = self._read_plan(options)
        self._lowering = Lowering(self.model, counters=self.counters) if self._plan is not None else None
        self._count_modules(options.compile)
        if not options.compile:
            _steady(self.model)
        if options.step_cache is not None:
            self.cache = cache_for(self.model, options.step_cache, steps)

    def _lowered_attention(self, options: Options) -> LoweredAttention | None:
        if options.attention_precision == "float32":
            return None
        lowered = LoweredAttention(self.model)
        lowered.counters = self.counters
        lowered.use((options.attention_precision,) * len(lowered.layers))  # type: ignore[arg-type]
        for pairs in lowered._processors.values():
            for _, processor in pairs:
                object.__setattr__(processor, "counters", self.counters)
        return lowered

    def _read_plan(self, options: Options) -> PrecisionPlan | None:
        if options.precision == "float32":
            return None
        layers = tuple(blocks_of(self.model))
        if isinstance(options.precision, str):
            return PrecisionPlan.uniform(cast(Format, options.precision), layers)
        if options.precision.layers != layers:
            raise InputInvalid(
                "the plan of precisions is of other blocks than this model has; scan it again",
                param="options.precision",
            )
        return options.precision

    def _count_modules(self, compiled: bool) -> None:
        """Rows that each class of block computed, and those that the model was called with. Compiled are the blocks one
        by one: that is quicker than the whole, and what counts and skips them stays outside. For any number of rows and
        tokens, because compiling again would stop the device for as long."""
        for block in blocks_of(self.model).values():
            block.forward = self._counted(
                block, torch.compile(block.forward, dynamic=True) if compiled else block.forward
            )
        self.model.register_forward_pre_hook(self._call, with_kwargs=True)

    def _counted(self, block: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        name, counters = f"computed.{type(block).__name__}", self.counters

        @functools.wraps(forward)
        def counted(*args: Any, **kwargs: Any) -> Any:
            counters[name] += len(kwargs["hidden_states"] if "hidden_states" in kwargs else args[0])
            return forward(*args, **kwargs)

        return counted

    def _call(self, _module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        self.counters["evaluations"] += len(kwargs["hidden_states"])
        self.counters["calls"] += 1

    def formats(self, step: int, steps: int) -> tuple[Format, ...]:
        """Precision of the blocks in that step: requests share a call when it is equal. () is float32 everywhere."""
        return self._plan.at(step, steps) if self._plan is not None else ()

    @property
    def precision(self) -> str:
        """In words."""
        if self._plan is None:
            return self._own
        shares = self._plan.shares()
        named = [(str(arithmetic(cast(Format, name), self._device)), share) for name, share in shares.items()]
        return named[0][0] if len(named) == 1 else ", ".join(f"{share:.0%} {name}" for name, share in named)

    def evaluate(
        self, call: dict[str, Any], contexts: Sequence[str], formats: tuple[Format, ...]
    ) -> tuple[Tensor, list[bool]]:
        """The prediction for each row, and whether blocks were left out for it. `contexts` names the state of each row:
        a request's branch."""
        if self._lowering is not None:
            self._lowering.use(formats)
        if self.cache is None:
            return self.model(**call)[0], [False] * len(contexts)
        made, cached = self.cache.evaluate(self.model, call, contexts)
        self.counters["cached"] += sum(cached)
        return made, cached

    @property
    def guesses(self) -> bool:
        """Whether rows for which something is left out do not call the model at all."""
        return isinstance(self.cache, GuessedCalls)

    def forget(self, contexts: Sequence[str]) -> None:
        """Drop what a cache has kept for these."""
        if self.cache is not None:
            self.cache.forget(contexts)


def _with_the_same_weights(model: nn.Module) -> nn.Module:
    kept: dict[int, Any] = {id(one): one for one in itertools.chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, kept)


def _steady(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(_fill_rows)
            module.register_forward_hook(_cut_rows)


def _fill_rows(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
    x = args[0]
    rows = x.shape[:-1].numel()
    if rows >= MANY_ROWS or rows % ROWS == 0:
        return None
    module._speechlane_rows = x.shape[:-1]  # type: ignore[assignment]
    return (functional.pad(x.reshape(rows, -1), (0, 0, 0, -rows % ROWS)),)


def _cut_rows(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
    shape = module.__dict__.pop("_speechlane_rows", None)
    return None if shape is None else output[: shape.numel()].view(*shape, -1)


def _fuse_norms(model: nn.Module) -> int:
    """The library's RMSNorm, which is several operations, becomes torch's, which is one. How many there were."""
    from diffusers.models.normalization import RMSNorm

    fused = 0
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, RMSNorm) and child.bias is None:
                made = nn.RMSNorm(tuple(child.dim), child.eps, elementwise_affine=child.weight is not None)
                if child.weight is not None:
                    made.weight = child.weight
                setattr(parent, name, made.train(child.training))
                fused += 1
    return fused
