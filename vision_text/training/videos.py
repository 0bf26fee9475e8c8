"""Trains the small video model "shapes-video": python -m vision_text.training.videos WORK

Three parts in the layout that CogVideoXPipeline loads: a causal autoencoder of clips, a transformer that moves latents
from noise to clips, and, trained with it, the encoder of the prompt. All weights start from SEED; what is drawn is
drawn anew for each step, scenes that are held out excepted. About six minutes of one core.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import (
    AutoencoderKLCogVideoX,
    CogVideoXDDIMScheduler,
    CogVideoXPipeline,
    CogVideoXTransformer3DModel,
)
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast, T5Config, T5EncoderModel

from vision_text.scenes.clips import FRAMES, SIZE, WORDS, draw, prompt, random_scene
from vision_text.scenes.pictures import GROUND
from vision_text.training.words import tokenizer

SEED = 7
WORDS_LENGTH = 8
"""Tokens of a prompt: six words, the end, and one to spare."""
UNTOLD = 0.1
"""Share of the clips whose prompt is left out, for guidance."""
BATCH = 16
_LATENTS = 4
_BALL = 4.0
"""How much more a ball's pixels count in the autoencoder's error."""
_FORGIVEN = 0.07
"""Noise in latents that the decoder learns to overlook."""


def autoencoder() -> Any:
    """AutoencoderKLCogVideoX, 24 x 24 pixels to 4 x 12 x 12 latents; as many latents as frames in time."""
    return AutoencoderKLCogVideoX(  # type: ignore[no-untyped-call]
        down_block_types=("CogVideoXDownBlock3D",) * 2,
        up_block_types=("CogVideoXUpBlock3D",) * 2,
        block_out_channels=(8, 16),
        layers_per_block=1,
        latent_channels=_LATENTS,
        norm_num_groups=1,  # more would each take a ball's strength of colour away
        temporal_compression_ratio=1,
        sample_height=SIZE,
        sample_width=SIZE,
        scaling_factor=1.0,
    )


def transformer() -> Any:
    """CogVideoXTransformer3DModel: 4 blocks, 4 heads of 24; a frame is 3 x 3 tokens of 8 x 8 pixels."""
    model: Any = CogVideoXTransformer3DModel(  # type: ignore[no-untyped-call]
        num_attention_heads=4,
        attention_head_dim=24,
        in_channels=_LATENTS,
        out_channels=_LATENTS,
        time_embed_dim=96,
        text_embed_dim=64,
        num_layers=4,
        sample_width=SIZE // 2,
        sample_height=SIZE // 2,
        sample_frames=FRAMES,
        patch_size=4,
        temporal_compression_ratio=1,
        max_text_seq_length=WORDS_LENGTH,
        spatial_interpolation_scale=1.0,
    )
    nn.init.normal_(model.proj_out.weight, std=0.002)
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and name.endswith(("norm1.linear", "norm2.linear", "norm_out.linear")):
            nn.init.normal_(layer.weight, std=0.002)
            nn.init.zeros_(layer.bias)
            if "norm_out" not in name:  # shift, scale, gate of the clip, then of the words: gates begin half open
                layer.bias.data.view(2, 3, -1)[:, 2] = 0.5
    return model


def words_encoder() -> T5EncoderModel:
    """What the transformer attends to."""
    return T5EncoderModel(
        T5Config(
            vocab_size=len(WORDS) + 3, d_model=64, d_kv=16, d_ff=128, num_layers=1, num_heads=4, dropout_rate=0.0,
            relative_attention_num_buckets=16, relative_attention_max_distance=16,
            pad_token_id=0, eos_token_id=1,
        )
    )  # fmt: skip


def scheduler() -> Any:
    """CogVideoXDDIMScheduler as the large models have it: velocity is predicted, the last step is noise alone."""
    return CogVideoXDDIMScheduler(  # type: ignore[no-untyped-call]
        beta_schedule="scaled_linear",
        prediction_type="v_prediction",
        rescale_betas_zero_snr=True,
        snr_shift_scale=2.0,
        timestep_spacing="trailing",
        clip_sample=False,
        set_alpha_to_one=True,
    )


def clips(rng: np.random.Generator, count: int) -> tuple[list[str], Tensor]:
    """Prompts and clips (count, 3, frames, 24, 24) in [-1, 1], none held out."""
    scenes = [random_scene(rng, held_out=False) for _ in range(count)]
    pixels = np.stack([draw(scene) for scene in scenes])
    return [prompt(scene) for scene in scenes], torch.from_numpy(pixels).permute(0, 4, 1, 2, 3).float() / 127.5 - 1


def train_autoencoder(work: Path, steps: int) -> Any:
    """Pixels by absolute and squared error, those of balls above the rest; latents are held uncorrelated, of variance
    1, and noised a little.

    Four frames of a clip at a time: the decoder takes two after two, so this has a first pair and one that follows.
    """
    torch.manual_seed(SEED)
    model, rng = autoencoder(), np.random.default_rng(SEED)
    optimiser = torch.optim.AdamW(model.parameters(), 4e-3, betas=(0.9, 0.98), weight_decay=0.0)
    plan = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, steps))
    unit = torch.eye(_LATENTS)
    for step in range(steps):
        first = int(rng.integers(FRAMES - 3))
        x = clips(rng, 8)[1][:, :, first : first + 4]
        mean = model.encode(x).latent_dist.mean
        off = model.decode(mean + _FORGIVEN * torch.randn_like(mean)).sample - x
        loss = _error(off, x)
        flat = mean.transpose(0, 1).flatten(1)
        loss = loss + 0.05 * ((torch.cov(flat) - unit).square().mean() + flat.mean(1).square().mean())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        plan.step()
        if step % 20 == 0 or step == steps - 1:
            print(
                f"autoencoder {step} pixels off {off.abs().mean().item():.4f} CPU {time.process_time():.0f} s",
                flush=True,
            )
    model.eval()
    with torch.no_grad():
        x = clips(rng, 64)[1]
        mean = model.encode(x).latent_dist.mean
        model.register_to_config(scaling_factor=round(1 / mean.std().item(), 4))
        off = (model.decode(mean).sample - x).abs()
    spread = mean.std((0, 2, 3, 4)).tolist()
    print(f"latents {spread}, pixels off by {off.mean():.4f}, at most {off.max():.3f}", flush=True)
    model.save_pretrained(work / "vae")
    return model


def train_decoder(work: Path, model: Any, steps: int) -> None:
    """The encoder, and with it the latents, stay; the decoder goes on, and overlooks more: up to 0.3 of the spread."""
    torch.manual_seed(SEED)
    rng, spread = np.random.default_rng(SEED + 2), 1 / model.config.scaling_factor
    optimiser = torch.optim.AdamW(model.decoder.parameters(), 3e-3, betas=(0.9, 0.98), weight_decay=0.0)
    plan = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, steps))
    for step in range(steps):
        x = clips(rng, 8)[1]
        with torch.no_grad():
            mean = model.encode(x).latent_dist.mean
        first = 2 * int(rng.integers(FRAMES // 2 - 1))
        x, mean = x[:, :, first : first + 4], mean[:, :, first : first + 4]
        noised = mean + 0.3 * spread * torch.rand(len(x), 1, 1, 1, 1) * torch.randn_like(mean)
        off = model.decode(noised).sample - x
        optimiser.zero_grad()
        _error(off, x).backward()
        nn.utils.clip_grad_norm_(model.decoder.parameters(), 1.0)
        optimiser.step()
        plan.step()
        if step % 20 == 0 or step == steps - 1:
            print(
                f"decoder {step} pixels off {off.abs().mean().item():.4f} CPU {time.process_time():.0f} s", flush=True
            )
    model.save_pretrained(work / "vae")


def _error(off: Tensor, x: Tensor) -> Tensor:
    """Of pixels (N, 3, frames, height, width): absolute and squared, those of balls above the ground."""
    ground = torch.tensor(GROUND).view(1, 3, 1, 1, 1) / 127.5 - 1
    weight = 1 + _BALL * (x - ground).abs().amax(1, keepdim=True)
    return (weight * (off.abs() + off.square())).mean()


def _rate(step: int, steps: int) -> float:
    """Warm, then down to nothing along a cosine."""
    return min(1.0, (step + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))


@torch.no_grad()
def encoded(vae: Any, count: int) -> tuple[list[str], Tensor]:
    """Prompts and latents (count, frames, channels, height, width), of unit size, as the pipeline lays them out."""
    rng = np.random.default_rng(SEED + 1)
    prompts: list[str] = []
    latents: list[Tensor] = []
    while len(prompts) < count:
        told, x = clips(rng, 50)
        prompts += told
        latents.append(vae.encode(x).latent_dist.mean.transpose(1, 2) * vae.config.scaling_factor)
    return prompts, torch.cat(latents)


def train_filmer(work: Path, vae: Any, steps: int, *, until: int | None = None, kept: int = 2000) -> None:
    """Diffusion of `kept` clips' latents, velocity predicted. What is saved is a running mean of the weights.

    Rates are planned for `steps`; `until` ends it sooner, which the running mean makes up for.
    """
    torch.manual_seed(SEED)
    words, plan_of_noise = tokenizer(WORDS, length=WORDS_LENGTH), scheduler()
    prompts, data = encoded(vae, kept)
    ids = words([*prompts, ""], padding="max_length", return_tensors="pt").input_ids
    untold = len(prompts)
    print(f"{kept} clips as latents {tuple(data.shape)}, CPU {time.process_time():.0f} s", flush=True)

    parts = nn.ModuleDict({"transformer": transformer(), "text_encoder": words_encoder()})
    optimiser = torch.optim.AdamW(parts.parameters(), 2e-3, betas=(0.9, 0.98), weight_decay=0.01)
    plan = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, steps))
    mean = copy.deepcopy(parts).requires_grad_(False)
    weights: list[Tensor] = list(parts.parameters())
    means: list[Tensor] = list(mean.parameters())
    total = 0.0
    end = min(steps, until or steps)
    for step in range(end):
        chosen = torch.randint(len(data), (BATCH,))
        x = data[chosen]
        told = ids[torch.where(torch.rand(BATCH) < UNTOLD, untold, chosen)]
        noise = torch.randn_like(x)
        level = ((torch.rand(BATCH) + torch.arange(BATCH)) * (1000 / BATCH)).long()  # even over all noise levels
        guess = parts["transformer"](
            hidden_states=plan_of_noise.add_noise(x, noise, level),
            encoder_hidden_states=parts["text_encoder"](told)[0],
            timestep=level,
            return_dict=False,
        )[0]
        loss = F.mse_loss(guess, plan_of_noise.get_velocity(x, noise, level))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        plan.step()
        torch._foreach_lerp_(means, weights, 1 - min(0.995, (step + 1) / (step + 20)))
        total += loss.item()
        if (step + 1) % 50 == 0:
            print(f"filmer {step + 1} loss {total / 50:.4f} CPU {time.process_time():.0f} s", flush=True)
            total = 0.0
        if (step + 1) % 250 == 0 or step + 1 == end:
            save(work / "pipeline", vae, mean, words)


def save(out: Path, vae: Any, parts: nn.ModuleDict, words: PreTrainedTokenizerFast) -> None:
    """The directory that CogVideoXPipeline loads."""
    pipeline: Any = CogVideoXPipeline(  # type: ignore[no-untyped-call]
        tokenizer=words,
        text_encoder=parts["text_encoder"],
        vae=vae,
        transformer=parts["transformer"],
        scheduler=scheduler(),
    )
    pipeline.save_pretrained(out)


def main() -> None:
    """As the module says."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", type=Path)
    options.add_argument("--autoencoder-steps", type=int, default=600)
    options.add_argument("--decoder-steps", type=int, default=400)
    options.add_argument("--steps", type=int, default=2000)
    options.add_argument("--until", type=int, default=1000, help="end after so many of the steps; what is shipped did")
    options.add_argument("--publish", action="store_true", help="score what WORK holds and put it into the package")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    if chosen.publish:
        _publish(chosen.work / "pipeline")
        return
    kept = chosen.work / "vae"
    if not kept.is_dir():
        trained = train_autoencoder(chosen.work, chosen.autoencoder_steps)
        train_decoder(chosen.work, trained, chosen.decoder_steps)
    vae: Any = AutoencoderKLCogVideoX.from_pretrained(kept)  # type: ignore[no-untyped-call]
    train_filmer(chosen.work, vae.eval(), chosen.steps, until=chosen.until)


def _publish(trained: Path) -> None:
    from vision_text.training import videos_score
    from vision_text.training.publish import publish

    scenes = videos_score.held_out_scenes(videos_score.COUNT)
    steps, guidance = videos_score.STEPS, videos_score.GUIDANCE
    made = videos_score.film(videos_score.load(trained), scenes, steps=steps, guidance=guidance)
    found = videos_score.score(made, scenes)
    publish(
        "shapes-video", trained, task="video", script="vision_text.training.videos", seed=SEED, score=found.asked,
        measure=f"colour and direction right of {found.count} held-out scenes, {steps} steps, guidance {guidance}",
    )  # fmt: skip
    print(found)


if __name__ == "__main__":
    main()
