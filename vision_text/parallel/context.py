"""Context parallelism for one model: the library's own for classes that bring a plan, and the plan for CogVideoX.

Each rank holds a part of the tokens; for attention the parts are exchanged for all tokens of a part of the heads, and
back afterwards (Ulysses). Ring attention needs a kernel that gives the softmax's sum, which a CPU has not.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


def enable_context_parallel(model: Any, *, ulysses: int = 1, ring: int = 1) -> None:
    """Split the model's context over the process group that is initialised. Raises ValueError for a class without a
    plan, or a kernel that cannot."""
    from diffusers import ContextParallelConfig

    plan = _plan_of(model)
    device = next(model.parameters()).device
    if ring > 1 and device.type == "cpu":
        raise ValueError("ring attention needs a kernel that gives the softmax's sum; on a CPU there is Ulysses alone")
    if type(model).__name__ == "CogVideoXTransformer3DModel":
        model.set_attn_processor(ContextAttention())
    if device.type == "cpu":
        _prepare_on_cpu(model)
    _wrap_gathered(model, plan)
    config = ContextParallelConfig(ulysses_degree=ulysses, ring_degree=ring)  # type: ignore[no-untyped-call]
    model.enable_parallelism(config=config, cp_plan=plan)


def obstacle(config: Any, *, text: int, tokens: int, ranks: int) -> str | None:
    """Why so many tokens cannot be split over so many ranks, or None. Each rank gets an equal part of the heads, of the
    text and of what is made."""
    heads = config["num_attention_heads"]
    for count, what in ((heads, "heads"), (text, "tokens of text"), (tokens, "tokens")):
        if count % ranks:
            return f"{count} {what} cannot be shared equally by {ranks} ranks"
    return None


def tokens_of(config: Any, hidden: Tensor) -> int:
    """Tokens that latents become: (batch, tokens, channels), or (batch, frames, channels, height, width)."""
    if hidden.dim() == 3:
        return int(hidden.shape[1])
    frames, height, width = (hidden.shape[n] for n in (1, 3, 4))
    patch, patch_t = config["patch_size"], config.get("patch_size_t") or 1
    return int(frames // patch_t * (height // patch) * (width // patch))


def _plan_of(model: Any) -> dict[str, Any]:
    from diffusers.models._modeling_parallel import ContextParallelInput, ContextParallelOutput

    if getattr(model, "_cp_plan", None):
        plan: dict[str, Any] = model._cp_plan
        return plan
    if type(model).__name__ != "CogVideoXTransformer3DModel":
        raise ValueError(f"there is no plan for the context of {type(model).__name__}")
    whole = ContextParallelInput(split_dim=1, expected_dims=3)
    rotary = ContextParallelInput(split_dim=0, expected_dims=2)
    # Positions are added to text and latents together, so they are split only where the first block takes them.
    return {
        "": {"image_rotary_emb": (rotary, rotary)},
        "transformer_blocks.0": {"hidden_states": whole, "encoder_hidden_states": whole},
        "proj_out": ContextParallelOutput(gather_dim=1, expected_dims=3),
    }


def _wrap_gathered(model: Any, plan: dict[str, Any]) -> None:
    """What is gathered of a linear layer is gathered around it: the library works inside of a module's hooks, and those
    of the denoising loop lay the rows of a linear layer out anew between them."""
    for name in plan:
        parent, _, last = name.rpartition(".")
        if name and isinstance(layer := model.get_submodule(name), nn.Linear):
            setattr(model.get_submodule(parent), last, nn.Sequential(layer))


def _prepare_on_cpu(model: Any) -> None:
    """The library takes a rank's device from the number of accelerators, of which a CPU has none."""

    def resolve(config: Any) -> Any:
        from diffusers import ParallelConfig

        inner = config
        config = ParallelConfig(context_parallel_config=inner)  # type: ignore[no-untyped-call]
        mesh = dist.device_mesh.init_device_mesh("cpu", inner.mesh_shape, mesh_dim_names=inner.mesh_dim_names)
        config.setup(dist.get_rank(), dist.get_world_size(), torch.device("cpu"), mesh=mesh)
        model._parallel_config = config
        return config

    model._resolve_parallel_config = resolve


class ContextAttention:
    """CogVideoX's joint attention through the library's dispatch, which exchanges tokens for heads. (The class's own
    processor calls the product directly, so that a plan would leave each rank with its own tokens alone.)"""

    _attention_backend: Any = None
    _parallel_config: Any = None

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        image_rotary_emb: Any = None,
    ) -> tuple[Tensor, Tensor]:
        from diffusers.models.attention_dispatch import dispatch_attention_fn
        from diffusers.models.embeddings import apply_rotary_emb

        text = encoder_hidden_states.size(1)
        joint = torch.cat([encoder_hidden_states, hidden_states], dim=1)
        query, key, value = (
            projection(joint).unflatten(-1, (attn.heads, -1)) for projection in (attn.to_q, attn.to_k, attn.to_v)
        )
        query, key = _normed(attn.norm_q, query), _normed(attn.norm_k, key)
        if image_rotary_emb is not None:
            turn: Any = apply_rotary_emb
            query, key = (
                torch.cat([x[:, :text], turn(x[:, text:].transpose(1, 2), image_rotary_emb).transpose(1, 2)], dim=1)
                for x in (query, key)
            )
        made = dispatch_attention_fn(
            query, key, value, backend=self._attention_backend, parallel_config=self._parallel_config
        ).flatten(2)
        for layer in attn.to_out:
            made = layer(made)
        return made[:, text:], made[:, :text]


def _normed(norm: nn.Module | None, x: Tensor) -> Tensor:
    return x if norm is None else norm(x)
