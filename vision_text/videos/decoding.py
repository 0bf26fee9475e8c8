"""Pixels of a clip a few frames at a time: a step each, so that nobody live waits for the whole of it.

The library's decoder goes through a clip in such parts anyway, each with what its convolutions remember of the one
before; here the loop between them is the device's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from vision_text.denoise.adapters import CogVideoXAdapter, _pixels
from vision_text.denoise.request import Asked, Frames


class Decoding:
    """One clip on its way to pixels. `latents` (1, channels, frames, height, width), as the autoencoder takes them."""

    def __init__(self, vae: Any, latents: Tensor) -> None:
        self._vae, self._latents = vae, latents
        frames, each = latents.shape[2], int(vae.num_latent_frames_batch_size)
        first = frames % each + each if frames >= each else frames
        self._ends = [first, *range(first + each, frames + 1, each)]
        self._memory: Any = None
        self._made: list[Tensor] = []

    def advance(self) -> bool:
        """Decode the next part. True when it was the last."""
        begin = self._ends[len(self._made) - 1] if self._made else 0
        part = self._latents[:, :, begin : self._ends[len(self._made)]]
        if self._vae.post_quant_conv is not None:
            part = self._vae.post_quant_conv(part)
        made, self._memory = self._vae.decoder(part, conv_cache=self._memory)
        self._made.append(made)
        return len(self._made) == len(self._ends)

    @property
    def video(self) -> Tensor:
        """(1, 3, frames, height, width) of what is decoded."""
        return torch.cat(self._made, dim=2)


class ClipAdapter(CogVideoXAdapter):
    """The same, with pixels that have been decoded in parts."""

    finished: Tensor | None = None

    def decoding(self, latents: Tensor, asked: Asked) -> Decoding | None:
        """The parts of this clip; None where the autoencoder goes by tiles, which it does by itself."""
        vae = self.pipeline.vae
        if vae.use_tiling:
            return None
        _, more = self._latent_frames(asked)
        plain = latents[:, more:].to(vae.dtype).permute(0, 2, 1, 3, 4)
        return Decoding(vae, 1 / self.pipeline.vae_scaling_factor_image * plain)

    def decode(self, latents: Tensor, asked: Asked) -> Frames | None:
        if self.finished is None:
            return super().decode(latents, asked)
        return _pixels(self.finished[0].transpose(0, 1))
