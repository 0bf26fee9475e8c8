"""What every rank needs; imported, nothing is started and no device is touched."""

from __future__ import annotations

import diffusers
from diffusers import CogVideoXTransformer3DModel, FluxTransformer2DModel

from vision_text.denoise.tree import Tree

__all__ = ["CogVideoXTransformer3DModel", "FluxTransformer2DModel", "Tree", "diffusers"]
