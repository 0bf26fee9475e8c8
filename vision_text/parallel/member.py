"""One process of a group: loads the model, waits for inputs, computes its part."""

from __future__ import annotations

import json
import os
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np

Mode = Literal["guidance", "ulysses", "ring"]
_TYPED = {"hidden_states", "encoder_hidden_states", "pooled_projections"}
"""Inputs in the model's own type; times and positions are more exact."""
_BY_BRANCH = _TYPED | {"timestep", "guidance"}
"""Inputs with a row for each branch; positions are the same for all."""


@dataclass(frozen=True, slots=True)
class Membership:
    """`directory`: a transformer in diffusers' form. `meeting`: a file that all ranks can write, for finding each
    other. `device`: the rank's own, "cpu" or "cuda:1"."""

    directory: str
    rank: int
    ranks: int
    meeting: str
    device: str
    dtype: str
    threads: int
    timeout: float


@dataclass(frozen=True, slots=True)
class Part:
    """What a rank answers. `made` is whole on every rank, and sent by the first alone."""

    made: Any
    seconds: float
    sent: Mapping[str, int]
    calls: Mapping[str, int]


def serve(membership: Membership, pipe: Connection) -> None:
    """The life of a rank: ready, then answer after answer until the pipe closes."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(membership.threads)
    backend = "gloo"
    if membership.device.startswith("cuda"):
        backend = "nccl"
        torch.cuda.set_device(torch.device(membership.device))
    else:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        dist.init_process_group(
            backend,
            init_method=f"file://{membership.meeting}",
            rank=membership.rank,
            world_size=membership.ranks,
            timeout=timedelta(seconds=membership.timeout),
        )
        loaded = load_transformer(membership.directory).to(dtype=getattr(torch, membership.dtype))
        if membership.device.startswith("cuda"):
            loaded = loaded.to(membership.device)
        models: dict[bool, Any] = {}  # over the same weights
        pipe.send(("ready", None))
        while True:
            mode, inputs = pipe.recv()
            split = mode != "guidance"
            if split not in models:
                models[split] = _model(loaded, membership, mode)
            pipe.send(("made", _part(models[split], membership, mode, inputs)))
    except EOFError:
        pass
    except Exception:
        pipe.send(("failed", traceback.format_exc(limit=4)))
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _model(loaded: Any, membership: Membership, mode: Mode) -> Any:
    model = steadied(loaded)
    if mode != "guidance":
        from vision_text.parallel.context import enable_context_parallel

        enable_context_parallel(model, **{mode: membership.ranks})
    return model


def steadied(model: Any) -> Any:
    """As the denoising loop runs it on one device, so that a row's numbers are the same here and there."""
    from vision_text.denoise.options import Options
    from vision_text.denoise.tree import Tree

    return Tree(model, Options(), 1, Counter()).model


def load_transformer(directory: str) -> Any:
    """A diffusers model by the class that its config names. Raises ValueError."""
    import diffusers

    name = json.loads(Path(directory, "config.json").read_text("utf-8")).get("_class_name")
    kind = getattr(diffusers, str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, diffusers.ModelMixin)):
        raise ValueError(f"{Path(directory).name}: there is no model of the class {name!r}")
    load: Any = kind.from_pretrained
    return load(directory, local_files_only=True).eval().requires_grad_(False)


def _part(model: Any, membership: Membership, mode: Mode, inputs: Mapping[str, Any]) -> Part:
    import torch
    import torch.distributed as dist
    from torch.distributed import _functional_collectives as functional_collectives

    from vision_text.parallel.traffic import Traffic

    device = next(model.parameters()).device
    given = {name: _tensors(value, device) for name, value in inputs.items()}
    for name in _TYPED & given.keys():
        given[name] = given[name].to(model.dtype)
    traffic = Traffic(membership.ranks)
    begun = perf_counter()
    with torch.inference_mode(), traffic:
        if mode == "guidance":
            own = {name: _branch(name, value, membership.rank) for name, value in given.items()}
            part = model(**own, return_dict=False)[0].contiguous()
            whole = functional_collectives.all_gather_tensor(part, 0, dist.distributed_c10d._get_default_group())
            whole = functional_collectives.wait_tensor(whole)
        else:
            whole = model(**given, return_dict=False)[0]
    seconds = perf_counter() - begun
    made = whole.float().cpu().numpy() if membership.rank == 0 else None
    return Part(made, seconds, dict(traffic.sent), dict(traffic.calls))


def _tensors(value: Any, device: Any) -> Any:
    import torch

    if isinstance(value, np.ndarray):
        return torch.from_numpy(value).to(device)
    return tuple(_tensors(one, device) for one in value) if isinstance(value, tuple) else value


def _branch(name: str, value: Any, rank: int) -> Any:
    """The rank's own of what has a row for each branch."""
    return value[rank : rank + 1] if name in _BY_BRANCH and value is not None else value
