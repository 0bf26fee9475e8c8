"""Untrained transformers of the classes that production uses, small enough for a test."""

from __future__ import annotations

from typing import Any

import torch


def cogvideox(layers: int = 2) -> Any:
    """Clips of 8 frames, 8 x 8 latents of 4 channels in patches of 2; 8 tokens of text of 32 channels."""
    from diffusers import CogVideoXTransformer3DModel

    torch.manual_seed(0)
    model = CogVideoXTransformer3DModel(
        num_attention_heads=4, attention_head_dim=24, in_channels=4, out_channels=4, time_embed_dim=64,
        text_embed_dim=32, num_layers=layers, sample_width=8, sample_height=8, sample_frames=8, patch_size=2,
        temporal_compression_ratio=1, max_text_seq_length=8,
    )  # fmt: skip
    return model.eval().requires_grad_(False)


def inputs(rows: int = 2, seed: int = 1) -> dict[str, Any]:
    """What the model is called with."""
    made = torch.Generator().manual_seed(seed)
    return {
        "hidden_states": torch.randn(rows, 8, 4, 8, 8, generator=made),
        "encoder_hidden_states": torch.randn(rows, 8, 32, generator=made),
        "timestep": torch.full((rows,), 500),
        "image_rotary_emb": None,
    }


def flux() -> Any:
    """36 tokens of 12 channels; two blocks with two streams and one with one."""
    from diffusers import FluxTransformer2DModel

    torch.manual_seed(0)
    model = FluxTransformer2DModel(
        patch_size=1, in_channels=12, num_layers=2, num_single_layers=1, attention_head_dim=24, num_attention_heads=4,
        joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=(8, 8, 8), guidance_embeds=False,
    )  # fmt: skip
    return model.eval().requires_grad_(False)


def flux_inputs(rows: int = 2, seed: int = 1) -> dict[str, Any]:
    """What it is called with."""
    made = torch.Generator().manual_seed(seed)
    return {
        "hidden_states": torch.randn(rows, 36, 12, generator=made),
        "encoder_hidden_states": torch.randn(rows, 8, 32, generator=made),
        "pooled_projections": torch.randn(rows, 32, generator=made),
        "timestep": torch.full((rows,), 0.5),
        "img_ids": torch.cartesian_prod(torch.zeros(1), torch.arange(6.0), torch.arange(6.0)),
        "txt_ids": torch.zeros(8, 3),
    }
