"""The library's caches of steps and blocks, with a state for each branch of each request.

The library keeps what its hooks remember under the name of a context. Here the name is the request's and the branch's,
each row goes through by itself (the library decides for a batch by its mean), and a name is dropped when its request
has ended, however it did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from vision_text.denoise.options import StepCache
from vision_text.numerics.linear import blocks_of
from workers.errors import InputInvalid

WARM_UP = 3
"""Steps that TaylorSeer computes before it guesses."""


class StepCacheOn:
    """Switched on for `model` until that is gone. `steps`: of the requests, which MagCache has to know.

    Raises InputInvalid when the library has no such cache for this class, or hooks nothing.
    """

    def __init__(self, model: Any, cache: StepCache, steps: int) -> None:
        self._model = model
        try:
            _apply(model, cache, steps)
        except (ValueError, IndexError, AttributeError) as error:
            raise InputInvalid(
                f"step_cache {cache[0]} does not go with {type(model).__name__}: {error}", param="options.step_cache"
            ) from error
        from diffusers.hooks import HookRegistry

        registry = HookRegistry.check_if_exists_or_initialize(model)
        registry.invalidate_child_registries_cache()
        self._managers = {id(one): one for one in _managers(model)}.values()
        if not self._managers:
            raise InputInvalid(
                f"step_cache {cache[0]} finds nothing to hook in {type(model).__name__}", param="options.step_cache"
            )

    def context(self, name: str) -> AbstractContextManager[None]:
        """What is computed inside has the state of that name."""
        made: AbstractContextManager[None] = self._model.cache_context(name)
        return made

    def forget(self, names: Sequence[str]) -> None:
        """Drop these states."""
        for manager in self._managers:
            for name in names:
                manager._state_cache.pop(name, None)

    def held(self) -> set[str]:
        """Names that there are states of."""
        return {name for manager in self._managers for name in manager._state_cache}


def _apply(model: Any, cache: StepCache, steps: int) -> None:
    from diffusers import FirstBlockCacheConfig, MagCacheConfig, TaylorSeerCacheConfig

    kind = cache[0]
    if kind == "first_block":
        model.enable_cache(FirstBlockCacheConfig(threshold=cache[1]))
    elif kind == "magcache":
        ratios = torch.tensor(cache[2])
        model.enable_cache(MagCacheConfig(mag_ratios=ratios, num_inference_steps=steps, threshold=cache[1]))
    elif kind == "taylor":
        # Blocks are left out altogether and only the model's last projection is guessed: attention alone, which is the
        # library's default, saves a fraction, and its patterns find none in some classes.
        blocks = [name.replace(".", r"\.") for name in blocks_of(model)]
        model.enable_cache(
            TaylorSeerCacheConfig(
                cache_interval=cache[1],
                max_order=cache[2],
                disable_cache_before_step=WARM_UP,
                taylor_factors_dtype=torch.float32,
                skip_predict_identifiers=blocks,
                cache_identifiers=["proj_out"],
            )
        )
    else:
        _apply_between(model, *cache[1:])


def _apply_between(model: nn.Module, threshold: float, first: int, last: int) -> None:
    """First-block caching with more blocks that are always computed: `first` decide, `last` mend."""
    from diffusers.hooks.first_block_cache import (
        FBCSharedBlockState,
        _apply_fbc_block_hook,
        _apply_fbc_head_block_hook,
    )
    from diffusers.hooks.hooks import StateManager

    blocks = list(blocks_of(model).values())
    if first + last > len(blocks) - 1:
        raise ValueError(f"it has {len(blocks)} blocks; {first} and {last} leave none to skip")
    manager = StateManager(FBCSharedBlockState, (), {})
    middle = blocks[first : len(blocks) - last]
    _apply_fbc_head_block_hook(blocks[first - 1], manager, threshold)
    for block in middle[:-1]:
        _apply_fbc_block_hook(block, manager)
    _apply_fbc_block_hook(middle[-1], manager, is_tail=True)


def _managers(model: nn.Module) -> Iterator[Any]:
    from diffusers.hooks.hooks import StateManager

    for module in model.modules():
        registry = getattr(module, "_diffusers_hook", None)
        for hook in registry.hooks.values() if registry is not None else ():
            for value in vars(hook).values():
                if isinstance(value, StateManager):
                    yield value
