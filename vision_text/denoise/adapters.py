"""What differs between classes of models: how a prompt is encoded, what the transformer is called with, what its
latents are. Everything that a pipeline of the library has a method for is done by that method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from vision_text.denoise.request import Asked, Frames
from vision_text.denoise.samplers import scheduler_for
from workers.errors import InputInvalid, InputTooLarge

Conditions = Mapping[str, Tensor]
"""What a branch of guidance is called with, (1, ...) each."""


@dataclass(slots=True)
class Course:
    """A scheduler on its way through one request. `memory` is what its step hands to the next, if anything."""

    scheduler: Any
    timesteps: Tensor
    memory: Tensor | None = None

    def __len__(self) -> int:
        return len(self.timesteps)


class Adapter(Protocol):
    """One class of pipelines. Shapes: latents (1, ...), rows of several requests along the first axis."""

    pipeline: Any
    default_guidance: float
    max_frames: int
    default_frames: int
    default_size: tuple[int, int]
    multiple: int

    def check(self, asked: Asked) -> None:
        """Raises InputInvalid for what this class cannot make."""

    def tokens(self, asked: Asked) -> int:
        """Of the latents, as the transformer counts them: what a step costs."""

    def guided(self, asked: Asked) -> bool:
        """Whether guidance takes a second branch."""

    def encode(self, asked: Asked) -> tuple[Conditions, Conditions | None]:
        """The branch with the prompt, and the one without."""

    def noise(self, asked: Asked, generator: torch.Generator) -> Tensor: ...

    def course(self, asked: Asked, steps: int, sampler: str, latents: Tensor) -> Course:
        """Raises InputInvalid for a sampler that the model does not go with."""

    def call(self, latents: Tensor, timesteps: Tensor, branch: Conditions, asked: Asked) -> dict[str, Any]:
        """Arguments of the transformer for rows of requests of one size."""

    def advance(
        self, course: Course, step: int, predicted: Tensor, latents: Tensor, generator: torch.Generator
    ) -> Tensor:
        """The latents after the step."""

    def guess(self, course: Course, step: int, predicted: Tensor, latents: Tensor) -> Tensor:
        """What they would be at the end, seen from here."""

    def decode(self, latents: Tensor, asked: Asked) -> Frames | None:
        """Pixels; None when they are no numbers."""


def together(branches: Sequence[Conditions]) -> Conditions:
    """Rows of several."""
    return {name: torch.cat([branch[name] for branch in branches]) for name in branches[0]}


_BY_ROW = frozenset({"hidden_states", "timestep", "encoder_hidden_states", "pooled_projections", "guidance"})


def some_rows(call: dict[str, Any], rows: Sequence[int]) -> dict[str, Any]:
    """The same call for a part of its rows. What has none (positions) is the same for all."""
    places = list(rows)
    return {name: value[places] if name in _BY_ROW else value for name, value in call.items()}


class FluxAdapter:
    """`FluxPipeline`: two text encoders, latents packed to (1, tokens, channels), flow matching. Of a model with its
    guidance built in (`guidance_embeds`) the scale is an input, and there is no second branch."""

    max_frames = default_frames = 1

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline
        self.built_in: bool = pipeline.transformer.config.guidance_embeds
        self.default_guidance = 3.5
        self.multiple: int = pipeline.vae_scale_factor * 2
        side = int(pipeline.vae.config.sample_size)
        self.default_size = side, side
        self._device = pipeline.device
        self._ids: dict[tuple[int, int], Tensor] = {}

    def check(self, asked: Asked) -> None:
        _check_sides(asked, self.multiple)
        if asked.frames != 1:
            raise InputInvalid(f"frames is {asked.frames}; this model makes pictures, give 1", param="frames")
        if self.built_in and asked.negative:
            raise InputInvalid("this model has its guidance built in; leave negative out", param="negative")

    def tokens(self, asked: Asked) -> int:
        return (asked.width // self.multiple) * (asked.height // self.multiple)

    def guided(self, asked: Asked) -> bool:
        return asked.guidance > 1 and not self.built_in

    def encode(self, asked: Asked) -> tuple[Conditions, Conditions | None]:
        branch = self._encode(asked.prompt, "prompt", asked)
        return branch, self._encode(asked.negative, "negative", asked) if self.guided(asked) else None

    def _encode(self, text: str, param: str, asked: Asked) -> Conditions:
        longest = min(512, int(self.pipeline.tokenizer_2.model_max_length))
        _check_length(self.pipeline.tokenizer_2, text, param, longest)
        embeds, pooled, _ = self.pipeline.encode_prompt(text, None, device=self._device, max_sequence_length=longest)
        found = {"encoder_hidden_states": embeds, "pooled_projections": pooled}
        if self.built_in:
            found["guidance"] = torch.full((1,), asked.guidance, device=self._device, dtype=torch.float32)
        return found

    def noise(self, asked: Asked, generator: torch.Generator) -> Tensor:
        latents, ids = self.pipeline.prepare_latents(
            1, self.pipeline.transformer.config.in_channels // 4, asked.height, asked.width,
            self.pipeline.transformer.dtype, self._device, generator,
        )  # fmt: skip
        if len(self._ids) >= 64:
            self._ids.clear()
        self._ids[asked.width, asked.height] = ids
        return latents  # type: ignore[no-any-return]

    def course(self, asked: Asked, steps: int, sampler: str, latents: Tensor) -> Course:
        from diffusers.pipelines.flux.pipeline_flux import calculate_shift, retrieve_timesteps

        scheduler = scheduler_for(self.pipeline.scheduler, sampler)
        if sampler in ("model", "euler"):
            config = scheduler.config
            mu = calculate_shift(
                latents.shape[1],
                config.get("base_image_seq_len", 256),
                config.get("max_image_seq_len", 4096),
                config.get("base_shift", 0.5),
                config.get("max_shift", 1.15),
            )
            sigmas = (
                None if config.get("use_flow_sigmas") else [float(one) for one in np.linspace(1.0, 1 / steps, steps)]
            )
            timesteps, _ = retrieve_timesteps(scheduler, steps, self._device, sigmas=sigmas, mu=mu)
        else:
            scheduler.set_timesteps(steps, device=self._device)
            timesteps = scheduler.timesteps
        scheduler.set_begin_index(0)
        return Course(scheduler, timesteps)

    def call(self, latents: Tensor, timesteps: Tensor, branch: Conditions, asked: Asked) -> dict[str, Any]:
        text = branch["encoder_hidden_states"]
        return dict(branch) | {
            "hidden_states": latents,
            "timestep": timesteps.to(latents.dtype) / 1000,
            "txt_ids": torch.zeros(text.shape[1], 3, device=text.device, dtype=text.dtype),
            "img_ids": self._ids[asked.width, asked.height],
            "return_dict": False,
        }

    def advance(
        self, course: Course, step: int, predicted: Tensor, latents: Tensor, generator: torch.Generator
    ) -> Tensor:
        made = course.scheduler.step(predicted, course.timesteps[step], latents, return_dict=False)[0]
        return made.to(latents.dtype)  # type: ignore[no-any-return]

    def guess(self, course: Course, step: int, predicted: Tensor, latents: Tensor) -> Tensor:
        sigma = course.timesteps[step].to(latents.dtype) / course.scheduler.config.num_train_timesteps
        found: Tensor = latents - sigma * predicted
        return found

    def decode(self, latents: Tensor, asked: Asked) -> Frames | None:
        pipeline = self.pipeline
        unpacked = pipeline._unpack_latents(latents, asked.height, asked.width, pipeline.vae_scale_factor)
        unpacked = unpacked / pipeline.vae.config.scaling_factor + pipeline.vae.config.shift_factor
        return _pixels(pipeline.vae.decode(unpacked.to(pipeline.vae.dtype), return_dict=False)[0])


class CogVideoXAdapter:
    """`CogVideoXPipeline`: latents (1, frames, channels, height, width), epsilon or velocity over a cosine course."""

    def __init__(self, pipeline: Any) -> None:
        config: Any = pipeline.transformer.config
        self.pipeline = pipeline
        self.default_guidance = 6.0
        self._device = pipeline.device
        self._patch: int = config.patch_size
        self._patch_t: int = config.patch_size_t or 1
        self._scale: int = pipeline.vae_scale_factor_spatial
        self._scale_t: int = pipeline.vae_scale_factor_temporal
        self.multiple: int = self._scale * self._patch
        self.default_size = config.sample_width * self._scale, config.sample_height * self._scale
        self.default_frames = self.max_frames = int(config.sample_frames)
        self._rotary: dict[tuple[int, int, int], Any] = {}

    def check(self, asked: Asked) -> None:
        _check_sides(asked, self.multiple)
        config = self.pipeline.transformer.config
        if asked.frames > self.max_frames:
            raise InputInvalid(f"frames is {asked.frames}; this model makes up to {self.max_frames}", param="frames")
        if (asked.frames - 1) % self._scale_t:
            raise InputInvalid(
                f"frames is {asked.frames}; give one more than a multiple of {self._scale_t}", param="frames"
            )
        if config.use_learned_positional_embeddings and (asked.width, asked.height) != self.default_size:
            width, height = self.default_size
            raise InputInvalid(f"this model makes clips of {width}x{height} alone", param="width")

    def _latent_frames(self, asked: Asked) -> tuple[int, int]:
        """How many there are, and how many of them only fill up the last patch."""
        frames = (asked.frames - 1) // self._scale_t + 1
        return frames, -frames % self._patch_t

    def tokens(self, asked: Asked) -> int:
        frames, more = self._latent_frames(asked)
        return (frames + more) // self._patch_t * (asked.width // self.multiple) * (asked.height // self.multiple)

    def guided(self, asked: Asked) -> bool:
        return asked.guidance > 1

    def encode(self, asked: Asked) -> tuple[Conditions, Conditions | None]:
        pipeline = self.pipeline
        longest = int(pipeline.transformer.config.max_text_seq_length)
        for param in ("prompt", "negative"):
            _check_length(pipeline.tokenizer, getattr(asked, param), param, longest)
        found, without = pipeline.encode_prompt(
            asked.prompt, asked.negative, self.guided(asked), device=self._device,
            max_sequence_length=longest,
        )  # fmt: skip
        other = None if without is None else {"encoder_hidden_states": without}
        return {"encoder_hidden_states": found}, other

    def noise(self, asked: Asked, generator: torch.Generator) -> Tensor:
        _, more = self._latent_frames(asked)
        latents: Tensor = self.pipeline.prepare_latents(
            1, self.pipeline.transformer.config.in_channels, asked.frames + more * self._scale_t, asked.height,
            asked.width, self.pipeline.transformer.dtype, self._device, generator,
        )  # fmt: skip
        if self.pipeline.transformer.config.use_rotary_positional_embeddings:
            if len(self._rotary) >= 64:
                self._rotary.clear()
            self._rotary[asked.width, asked.height, asked.frames] = self.pipeline._prepare_rotary_positional_embeddings(
                asked.height, asked.width, latents.shape[1], self._device
            )
        return latents

    def course(self, asked: Asked, steps: int, sampler: str, latents: Tensor) -> Course:
        scheduler = scheduler_for(self.pipeline.scheduler, sampler)
        scheduler.set_timesteps(steps, device=self._device)
        return Course(scheduler, scheduler.timesteps)

    def call(self, latents: Tensor, timesteps: Tensor, branch: Conditions, asked: Asked) -> dict[str, Any]:
        return dict(branch) | {
            "hidden_states": latents,
            "timestep": timesteps,
            "image_rotary_emb": self._rotary.get((asked.width, asked.height, asked.frames)),
            "return_dict": False,
        }

    def advance(
        self, course: Course, step: int, predicted: Tensor, latents: Tensor, generator: torch.Generator
    ) -> Tensor:
        scheduler, time, predicted = course.scheduler, course.timesteps[step], predicted.float()
        if type(scheduler).__name__ == "CogVideoXDPMScheduler":
            before = course.timesteps[step - 1] if step else None
            made, course.memory = scheduler.step(
                predicted, course.memory, time, before, latents, generator=generator, return_dict=False
            )
        else:
            made = scheduler.step(predicted, time, latents, return_dict=False)[0]
        return made.to(latents.dtype)  # type: ignore[no-any-return]

    def guess(self, course: Course, step: int, predicted: Tensor, latents: Tensor) -> Tensor:
        kept = course.scheduler.alphas_cumprod[int(course.timesteps[step])].to(latents.device)
        kind = course.scheduler.config.prediction_type
        if kind == "sample":
            return predicted
        velocity = kept**0.5 * latents - (1 - kept) ** 0.5 * predicted
        found: Tensor = velocity if kind == "v_prediction" else (latents - (1 - kept) ** 0.5 * predicted) / kept**0.5
        return found

    def decode(self, latents: Tensor, asked: Asked) -> Frames | None:
        _, more = self._latent_frames(asked)
        video = self.pipeline.decode_latents(latents[:, more:].to(self.pipeline.vae.dtype))
        return _pixels(video[0].transpose(0, 1))


def _check_length(tokeniser: Any, text: str, param: str, longest: int) -> None:
    """The library would leave out the rest without a word to whoever asked."""
    count = len(tokeniser(text, padding=False, truncation=False, verbose=False).input_ids)
    if count > longest:
        raise InputTooLarge(
            f"{param} has {count} tokens; this model reads {longest}, so its end would be left out; say it shorter",
            param=param,
        )


def _check_sides(asked: Asked, multiple: int) -> None:
    for name in ("width", "height"):
        if getattr(asked, name) % multiple:
            raise InputInvalid(f"{name} is {getattr(asked, name)}; give a multiple of {multiple}", param=name)


def _pixels(made: Tensor) -> Frames | None:
    """(frames, 3, height, width) around -1 to 1 to uint8 (frames, height, width, 3), as the library's processors."""
    if not torch.isfinite(made).all():
        return None
    shares = (made.float() * 0.5 + 0.5).clamp(0, 1).permute(0, 2, 3, 1).cpu().numpy()
    return (shares * 255).round().astype(np.uint8)


_ADAPTERS: dict[str, Callable[[Any], Adapter]] = {"FluxPipeline": FluxAdapter, "CogVideoXPipeline": CogVideoXAdapter}


def adapter_for(pipeline: Any) -> Adapter:
    """Raises ValueError for a class that has none."""
    name = type(pipeline).__name__
    if name not in _ADAPTERS:
        raise ValueError(f"{name} is no pipeline that is served here; there is {', '.join(_ADAPTERS)}")
    return _ADAPTERS[name](pipeline)
