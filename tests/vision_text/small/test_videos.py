"""The small video model, through CogVideoXPipeline itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKLCogVideoX, CogVideoXDDIMScheduler, CogVideoXTransformer3DModel

from vision_text.models import resolve
from vision_text.scenes.clips import FRAMES, SIZE, WORDS, combinations, draw, prompt, see
from vision_text.small import small_model
from vision_text.training.videos import autoencoder, train_filmer
from vision_text.training.videos_score import GUIDANCE, film, held_out_scenes, load, score

NAME = "shapes-video"


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def pipeline() -> Any:
    return load(small_model(NAME))


def test_it_films_what_it_is_told_though_it_never_learned_these_scenes(pipeline: Any) -> None:
    scenes = held_out_scenes(16, seed=9)
    found = score(film(pipeline, scenes, steps=12, guidance=GUIDANCE), scenes)
    assert found.asked >= 0.8, found


def test_the_same_seed_gives_the_same_clip_and_another_one_another(pipeline: Any) -> None:
    scenes = held_out_scenes(1)
    first, again, other = (film(pipeline, scenes, steps=2, guidance=GUIDANCE, seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_called_with_nothing_but_words_it_makes_a_clip_of_the_size_that_it_learned(pipeline: Any) -> None:
    (clip,) = pipeline("a red ball moves left quickly", num_inference_steps=1, max_sequence_length=8).frames
    assert len(clip) == FRAMES
    assert {frame.size for frame in clip} == {(SIZE, SIZE)}


def test_all_words_of_scenes_are_known(pipeline: Any) -> None:
    tokens = pipeline.tokenizer
    assert tokens.model_max_length == pipeline.transformer.config.max_text_seq_length == 8
    ids = tokens([*WORDS, *map(prompt, combinations())], padding="max_length").input_ids
    assert {len(row) for row in ids} == {8}
    assert not any(tokens.unk_token_id in row for row in ids)
    assert all(tokens.eos_token_id in row for row in ids)
    assert tokens.unk_token_id in tokens("a purple giraffe").input_ids


def test_it_is_of_the_classes_of_the_large_ones_in_single_precision_and_a_clip_is_72_tokens(pipeline: Any) -> None:
    assert type(pipeline.vae) is AutoencoderKLCogVideoX
    assert type(pipeline.transformer) is CogVideoXTransformer3DModel
    assert type(pipeline.scheduler) is CogVideoXDDIMScheduler
    config = pipeline.transformer.config
    side = SIZE // pipeline.vae_scale_factor_spatial
    assert (config.sample_height, config.sample_width, config.sample_frames) == (side, side, FRAMES)
    assert FRAMES * (side // config.patch_size) ** 2 == 72
    assert {weight.dtype for part in pipeline.components.values() if isinstance(part, torch.nn.Module)
            for weight in part.parameters()} == {torch.float32}  # fmt: skip


@torch.no_grad()
def test_its_autoencoder_keeps_what_a_clip_shows_and_mostly_the_roundness(pipeline: Any) -> None:
    whole = 0
    for scene in held_out_scenes(10):
        clip = torch.from_numpy(draw(scene)).permute(3, 0, 1, 2)[None].float() / 127.5 - 1
        again = pipeline.vae.decode(pipeline.vae.encode(clip).latent_dist.mean).sample
        assert again.shape == clip.shape
        seen = see(((again[0].permute(1, 2, 3, 0) + 1) * 127.5).round().clamp(0, 255).to(torch.uint8).numpy())
        assert (seen.colour, seen.direction, seen.pace) == (scene.colour, scene.direction, scene.pace)
        whole += seen.whole
    assert whole >= 8


def test_it_resolves_by_name() -> None:
    found = resolve(NAME)
    assert (found.name, found.directory, found.origin) == (NAME, small_model(NAME), "package")
    assert found.revision == resolve(str(found.directory)).revision


def test_training_leaves_a_directory_that_the_library_loads(tmp_path: Path) -> None:
    train_filmer(tmp_path, autoencoder().eval(), steps=2, kept=50)
    (clip,) = film(load(tmp_path / "pipeline"), held_out_scenes(1), steps=1, guidance=1.0)
    assert clip.shape == (FRAMES, SIZE, SIZE, 3)
