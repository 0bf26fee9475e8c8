"""A pipeline of the library, by a small model's name, a path or the hub, through the same code."""

from __future__ import annotations

import logging
from typing import Any

import torch

from vision_text.denoise.adapters import Adapter, adapter_for
from vision_text.models import Found, ModelUnusable, read_json, resolve

DEFAULTS = {"shapes-image": (50, 2.5), "shapes-video": (20, 2.0)}
"""Steps and guidance that the small models' scores were measured with."""
STEPS = 50


def read_pipeline(name: str, *, allow_download: bool = False) -> tuple[Found, Any]:
    """Its files are found and its class is one that is served, before anything is loaded; then it is, in float32 on the
    CPU. Raises ModelUnusable."""
    found = resolve(name, allow_download=allow_download)
    index = read_json(found.directory / "model_index.json")
    kind = index.get("_class_name") if isinstance(index, dict) else None
    if kind not in ("FluxPipeline", "CogVideoXPipeline"):
        raise ModelUnusable(
            f"{found.name} is {kind or 'no pipeline of diffusers'}; pictures and clips are made by FluxPipeline and "
            "CogVideoXPipeline"
        )
    import diffusers

    try:
        pipeline = getattr(diffusers, kind).from_pretrained(
            found.directory, local_files_only=True, dtype=torch.float32, use_safetensors=True
        )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        raise ModelUnusable(f"{found.name} cannot be loaded: {error}") from error
    return found, pipeline


def adapt(pipeline: Any, device: str, dtype: torch.dtype) -> Adapter:
    """On the device. The decoder of pixels stays in float32: in half precision it may come to NaN, which is black."""
    pipeline.set_progress_bar_config(disable=True)
    # The library warns with the words of prompts in it, which are nobody's but the user's.
    logging.getLogger(type(pipeline).__module__).setLevel(logging.ERROR)
    pipeline.to(device)
    if pipeline.transformer.dtype != dtype:
        pipeline.to(dtype=dtype)
        pipeline.vae.to(dtype=torch.float32)
    for part in pipeline.components.values():
        if isinstance(part, torch.nn.Module):
            part.eval().requires_grad_(False)
    return adapter_for(pipeline)
