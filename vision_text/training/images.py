"""Trains the small image model: python -m vision_text.training.images WORK

An autoencoder first, then a Flux transformer with its two text encoders on the autoencoder's latents, by flow matching,
in two stages. What a stage made stays in a folder of its own in WORK, and a stage whose folder is there is not done
again. WORK/captions is what `FluxPipeline` loads; with --publish it is scored and replaces the model in the package.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
from torch import Tensor, nn
from transformers import CLIPTextConfig, CLIPTextModel, PreTrainedTokenizerFast, T5Config, T5EncoderModel

from vision_text.scenes.pictures import COLOURS, PLACES, SHAPES, SIZE, WORDS, Scene, draw, prompt, random_scene
from vision_text.training.words import tokenizer

SEED = 7
WORDS_LENGTH = 12
"""Tokens of a prompt: two objects of five words, the comma, the end."""
SHIFT = 2.0
"""Of the noise levels towards much noise, in training and in the scheduler."""
UNTOLD = 0.1
"""Share of the pictures whose prompt is left out, for guidance."""
BATCH = 32
_LATENTS = 4


def autoencoder() -> Any:
    """AutoencoderKL, 48 x 48 pixels to 4 x 12 x 12 latents. The 1 x 1 convolutions at its waist are for whitening."""
    return AutoencoderKL(  # type: ignore[no-untyped-call]
        down_block_types=["DownEncoderBlock2D"] * 3,
        up_block_types=["UpDecoderBlock2D"] * 3,
        block_out_channels=(16, 32, 48),
        layers_per_block=1,
        latent_channels=_LATENTS,
        norm_num_groups=4,
        sample_size=SIZE,
        scaling_factor=1.0,
        shift_factor=0.0,
        mid_block_add_attention=False,
    )


def transformer() -> Any:
    """FluxTransformer2DModel. Two blocks with streams of their own for words and picture, four with one for both."""
    model: Any = FluxTransformer2DModel(  # type: ignore[no-untyped-call]
        patch_size=1,
        in_channels=4 * _LATENTS,
        num_layers=2,
        num_single_layers=4,
        attention_head_dim=24,
        num_attention_heads=4,
        joint_attention_dim=64,
        pooled_projection_dim=32,
        guidance_embeds=False,
        axes_dims_rope=(8, 8, 8),
    )
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and (".norm" in name or name in ("norm_out.linear", "proj_out")):
            nn.init.normal_(layer.weight, std=0.002)
            nn.init.zeros_(layer.bias)
            if ".norm" in name:
                _open_gates(layer.bias)
    return model


def _open_gates(bias: Tensor) -> None:
    """A modulation is (shift, scale, gate), once or twice: its gates begin half open."""
    width = 96
    for start in range(2 * width, len(bias), 3 * width):
        bias.data[start : start + width] = 0.5


def words_encoder() -> T5EncoderModel:
    """What the transformer attends to."""
    return T5EncoderModel(
        T5Config(
            vocab_size=len(WORDS) + 3, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, dropout_rate=0.0,
            relative_attention_num_buckets=16, relative_attention_max_distance=16,
            pad_token_id=0, eos_token_id=1,
        )
    )  # fmt: skip


def pooled_encoder() -> CLIPTextModel:
    """What modulates the transformer's layers: one vector of the whole prompt."""
    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(WORDS) + 3, hidden_size=32, intermediate_size=64, projection_dim=32, num_hidden_layers=1,
            num_attention_heads=2, max_position_embeddings=WORDS_LENGTH, pad_token_id=0, bos_token_id=1, eos_token_id=1,
        )
    )  # fmt: skip


def pictures(rng: np.random.Generator, count: int) -> tuple[list[Scene], Tensor]:
    """Scenes and their pictures (count, 3, 48, 48) in [-1, 1], none held out."""
    scenes = [random_scene(rng, held_out=False) for _ in range(count)]
    pixels = np.stack([draw(scene) for scene in scenes])
    return scenes, torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1


def mistold(rng: np.random.Generator, scene: Scene) -> Scene:
    """With something else for the colour, the shape or the place of one object; what it becomes is not held out."""
    while True:
        objects = list(scene.objects)
        number = int(rng.integers(len(objects)))
        changes: tuple[dict[str, Any], ...] = (
            {"colour": str(rng.choice(list(COLOURS)))},
            {"shape": str(rng.choice(SHAPES))},
            {"place": str(rng.choice(list(PLACES)))},
        )
        objects[number] = replace(objects[number], **changes[rng.integers(3)])
        if len({one.place for one in objects}) == len(objects):
            told = Scene(tuple(objects))
            if not told.held_out and prompt(told) != prompt(scene):
                return told


def train_autoencoder(work: Path, steps: int) -> Any:
    """Pixels by absolute error, latents held near a unit normal and noised a little, so that decoding forgives."""
    torch.manual_seed(SEED)
    model, rng = autoencoder().to(memory_format=torch.channels_last), np.random.default_rng(SEED)
    optimiser = torch.optim.AdamW(model.parameters(), 2e-3, betas=(0.9, 0.95), weight_decay=0.0)
    plan = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, steps))
    for step in range(steps):
        _, x = pictures(rng, 16)
        latent = model.encode(x.contiguous(memory_format=torch.channels_last)).latent_dist
        mean = latent.mean
        again = model.decode(mean + 0.1 * torch.randn_like(mean)).sample
        error = F.l1_loss(again, x) + F.mse_loss(again, x)
        loss = error + 2e-3 * (mean.pow(2) - 1).relu().mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        plan.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"autoencoder {step} error {error.item():.4f} spread {mean.std().item():.2f}", flush=True)
    _whiten(model, pictures(rng, 512)[1])
    model = model.to(memory_format=torch.contiguous_format).eval()
    model.save_pretrained(work / "vae")
    return model


@torch.no_grad()
def _whiten(model: Any, x: Tensor) -> None:
    """Makes the latents' channels uncorrelated, of mean 0 and variance 1, by the two 1 x 1 convolutions alone."""
    means = model.encode(x).latent_dist.mean.permute(0, 2, 3, 1).reshape(-1, _LATENTS)
    centre = means.mean(0)
    values, vectors = torch.linalg.eigh(torch.cov((means - centre).T))
    forward = vectors.T / values.sqrt()[:, None]
    back = vectors * values.sqrt()
    enter, leave = model.quant_conv, model.post_quant_conv
    weight = enter.weight[:_LATENTS, :, 0, 0].clone()
    enter.weight[:_LATENTS, :, 0, 0] = forward @ weight
    enter.bias[:_LATENTS] = forward @ (enter.bias[:_LATENTS] - centre)
    weight = leave.weight[:, :, 0, 0].clone()
    leave.bias += weight @ centre
    leave.weight[:, :, 0, 0] = weight @ back
    spread = model.encode(x).latent_dist.mean
    print(f"white: mean {spread.mean((0, 2, 3)).tolist()}, variance {spread.var((0, 2, 3)).tolist()}")
    again = model.decode(spread).sample
    print(f"worst pixel {(again - x).abs().amax().item():.3f}, mean {(again - x).abs().mean().item():.4f}", flush=True)


def _rate(step: int, steps: int) -> float:
    """Warm, then down to nothing along a cosine."""
    return min(1.0, (step + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))


@dataclass(frozen=True, slots=True)
class Stage:
    """`steps` of a plan of `planned` steps, along which the rate falls from `rate` to nothing."""

    name: str
    steps: int
    planned: int
    rate: float
    mistold: float
    """Share of the pictures whose prompt is wrong in colour, shape or place of one object."""


STAGES = (
    Stage("words", steps=3000, planned=7000, rate=2e-3, mistold=0.0),
    Stage("captions", steps=1000, planned=1000, rate=1e-3, mistold=0.3),
)
"""First what the words mean; then that they are not always right, as captions in the wild are not."""


def train_painter(work: Path, vae: Any, stage: Stage, before: Path | None = None, *, kept: int = 20000) -> Path:
    """Flow matching on `kept` pictures' latents, from the pipeline `before` on. Saves a running mean of the weights."""
    torch.manual_seed(SEED)
    rng, errors = np.random.default_rng(SEED + 1), np.random.default_rng(SEED + 2)
    words = tokenizer(WORDS, length=WORDS_LENGTH)
    prompts: list[str] = []
    latents: list[Tensor] = []
    with torch.no_grad():
        while len(prompts) < kept:
            scenes, x = pictures(rng, 50)
            prompts += [prompt(mistold(errors, one) if errors.random() < stage.mistold else one) for one in scenes]
            latents.append(pack(vae.encode(x).latent_dist.mean))
    data = torch.cat(latents)
    ids = words([*prompts, ""], padding="max_length", return_tensors="pt").input_ids
    untold = len(prompts)
    print(f"{kept} pictures as latents {tuple(data.shape)}", flush=True)

    parts = nn.ModuleDict(
        {"transformer": transformer(), "text_encoder": pooled_encoder(), "text_encoder_2": words_encoder()}
    )
    if before is not None:
        made: Any = FluxPipeline.from_pretrained(before)  # type: ignore[no-untyped-call]
        for name, part in parts.items():
            part.load_state_dict(getattr(made, name).state_dict())
    optimiser = torch.optim.AdamW(parts.parameters(), stage.rate, betas=(0.9, 0.98), weight_decay=0.01)
    plan = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, stage.planned))
    mean = copy.deepcopy(parts).requires_grad_(False)
    weights: list[Tensor] = list(parts.parameters())
    means: list[Tensor] = list(mean.parameters())
    text_ids, image_ids = torch.zeros(WORDS_LENGTH, 3), places(data.shape[1])
    total = 0.0
    for step in range(stage.steps):
        chosen = torch.randint(kept, (BATCH,))
        x = data[chosen]
        told = ids[torch.where(torch.rand(BATCH) < UNTOLD, untold, chosen)]
        noise, level = torch.randn_like(x), torch.rand(BATCH)
        level = SHIFT * level / (1 + (SHIFT - 1) * level)
        guess = parts["transformer"](
            hidden_states=torch.lerp(x, noise, level[:, None, None]),
            timestep=level,
            pooled_projections=parts["text_encoder"](told).pooler_output,
            encoder_hidden_states=parts["text_encoder_2"](told)[0],
            txt_ids=text_ids,
            img_ids=image_ids,
            return_dict=False,
        )[0]
        loss = F.mse_loss(guess, noise - x)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        plan.step()
        torch._foreach_lerp_(means, weights, 1 - min(0.998, (step + 1) / (step + 20)))
        total += loss.item()
        if (step + 1) % 100 == 0:
            print(f"{stage.name} {step + 1} loss {total / 100:.4f} CPU {time.process_time():.0f} s", flush=True)
            total = 0.0
        if (step + 1) % 500 == 0 or step + 1 == stage.steps:
            save(work / f"{stage.name}.part", vae, mean, words)
    return (work / f"{stage.name}.part").rename(work / stage.name)


def pack(latents: Tensor) -> Tensor:
    """(N, C, H, W) to the tokens of FluxPipeline (N, H/2 * W/2, 4C)."""
    count, channels, height, width = latents.shape
    cut = latents.reshape(count, channels, height // 2, 2, width // 2, 2).permute(0, 2, 4, 1, 3, 5)
    return cut.reshape(count, height * width // 4, channels * 4)


def places(tokens: int) -> Tensor:
    """(tokens, 3) ids of a square picture's tokens: 0, row, column."""
    side = math.isqrt(tokens)
    row, column = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    return torch.stack([torch.zeros(side, side), row, column], -1).reshape(tokens, 3).float()


def save(out: Path, vae: Any, parts: nn.ModuleDict, words: PreTrainedTokenizerFast) -> None:
    """The directory that FluxPipeline loads."""
    pipeline: Any = FluxPipeline(  # type: ignore[no-untyped-call]
        scheduler=FlowMatchEulerDiscreteScheduler(shift=SHIFT),  # type: ignore[no-untyped-call]
        vae=vae,
        text_encoder=parts["text_encoder"],
        tokenizer=words,
        text_encoder_2=parts["text_encoder_2"],
        tokenizer_2=words,
        transformer=parts["transformer"],
    )
    pipeline.save_pretrained(out)


def main() -> None:
    """As the module says."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", type=Path)
    options.add_argument("--autoencoder-steps", type=int, default=550)
    options.add_argument("--publish", action="store_true", help="score what WORK holds and put it into the package")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    if chosen.publish:
        _publish(chosen.work / STAGES[-1].name)
        return
    kept = chosen.work / "vae"
    if not kept.is_dir():
        train_autoencoder(chosen.work, chosen.autoencoder_steps)
    vae: Any = AutoencoderKL.from_pretrained(kept)  # type: ignore[no-untyped-call]
    before = None
    for stage in STAGES:
        done = chosen.work / stage.name
        before = done if done.is_dir() else train_painter(chosen.work, vae.eval(), stage, before)


def _publish(trained: Path) -> None:
    from vision_text.training import images_score
    from vision_text.training.publish import publish

    scenes = images_score.held_out_scenes(images_score.COUNT)
    made = images_score.paint(
        images_score.load(trained), scenes, steps=images_score.STEPS, guidance=images_score.GUIDANCE
    )
    found = images_score.score(made, scenes)
    measure = (
        f"all right of {found.count} held-out scenes, {images_score.STEPS} steps, guidance {images_score.GUIDANCE}"
    )
    publish(
        "shapes-image", trained, task="image", script="vision_text.training.images", seed=SEED, score=found.all,
        measure=measure,
    )  # fmt: skip
    print(found)


if __name__ == "__main__":
    main()
