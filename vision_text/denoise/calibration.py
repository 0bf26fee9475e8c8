"""What MagCache has to know of a model: how much less, from step to step, its blocks add.

The library's own calibration prints this to the standard output.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from vision_text.denoise.backend import DenoiseBackend
from vision_text.denoise.options import Options
from vision_text.denoise.request import Asked
from vision_text.denoise.tree import Tree
from vision_text.numerics.linear import blocks_of


@dataclass(frozen=True, slots=True)
class Calibration:
    """`ratios`: one for each step, the first 1. They are of that model, scheduler, number of steps, size and guidance:
    whoever keeps them keeps `identity` with them and measures again when any of it changes."""

    ratios: tuple[float, ...]
    identity: Mapping[str, str]

    def option(self, threshold: float) -> tuple[Any, ...]:
        """The value of `step_cache`."""
        return "magcache", threshold, self.ratios


def calibrate(backend: DenoiseBackend, requests: Sequence[Asked]) -> Calibration:
    """The mean over requests of one size, guidance and number of steps; some fifty different ones make it steady.

    Draws them exactly on the calling thread: not while the device of that backend draws others. Raises ValueError when
    they differ, BackendFailed.
    """
    kinds = {(one.width, one.height, one.frames, one.guidance, one.steps) for one in requests}
    if len(kinds) != 1:
        raise ValueError("a calibration is of one size, frames, guidance and steps; give requests of one kind")
    tree = Tree(backend.pipeline.transformer, Options(), requests[0].steps, Counter())
    blocks = list(blocks_of(tree.model).values())
    entry: list[Tensor] = []
    added: list[Tensor] = []
    at = 0 if type(blocks[-1]).__name__ == "CogVideoXBlock" else 1

    def enter(_block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        entry[:] = [kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]]

    def leave(_block: nn.Module, _args: Any, made: tuple[Tensor, Tensor]) -> None:
        added.append((made[at] - entry[0]).float().norm(dim=-1))

    blocks[0].register_forward_pre_hook(enter, with_kwargs=True)
    blocks[-1].register_forward_hook(leave)
    totals = torch.zeros(requests[0].steps, dtype=torch.float64)
    for asked in requests:
        added.clear()
        _draw(backend, tree, replace(asked, exact=True, previews=0))
        ratios = [1.0, *(float((now / (before + 1e-8)).mean()) for before, now in itertools.pairwise(added))]
        totals += torch.tensor(ratios, dtype=torch.float64)
    scheduler = backend.pipeline.scheduler
    width, height, frames, guidance, steps = kinds.pop()
    identity = {
        "model": backend.spec.model,
        "revision": backend.spec.revision,
        "scheduler": f"{type(scheduler).__name__} {sorted(dict(scheduler.config).items())}",
        "size": f"{width}x{height}x{frames}",
        "guidance": str(guidance),
        "steps": str(steps),
    }
    return Calibration(tuple(round(float(one), 6) for one in totals / len(requests)), identity)


def _draw(backend: DenoiseBackend, tree: Tree, asked: Asked) -> None:
    state = backend.open(asked)
    try:
        while state.phase != "decode":
            result = backend.step([state])[0]
            if isinstance(result, Exception):
                raise result
            state.tree = tree
    finally:
        backend.discard(state)
