"""Scores an image model on scenes that it was not trained on: python -m vision_text.training.images_score DIRECTORY

The pictures are made by FluxPipeline itself and judged by the exact checker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import FluxPipeline

from vision_text.scenes.pictures import SIZE, Checked, Picture, Scene, check, prompt, random_scene
from vision_text.training.scoring import quiet, side_by_side

STEPS, GUIDANCE = 50, 2.5
"""What the expected score is for: steps, and the weight of the prompt against no prompt."""
COUNT = 320
_BATCH = 32


@dataclass(frozen=True, slots=True)
class Score:
    """Shares of pictures that are right, 0..1."""

    count: int
    colours: float
    shapes: float
    places: float
    all: float


def held_out_scenes(count: int, seed: int = 1) -> list[Scene]:
    """The same for the same seed."""
    rng = np.random.default_rng(seed)
    return [random_scene(rng, held_out=True) for _ in range(count)]


def load(directory: Path) -> Any:
    """The pipeline, quiet. Its type is FluxPipeline."""
    return quiet(FluxPipeline, directory)


def paint(pipeline: Any, scenes: Sequence[Scene], *, steps: int, guidance: float, seed: int = 0) -> list[Picture]:
    """One picture for each scene, with the seeds `seed`, `seed + 1`, ..."""
    made: list[Picture] = []
    for first in range(0, len(scenes), _BATCH):
        batch = scenes[first : first + _BATCH]
        shown = pipeline(
            [prompt(scene) for scene in batch],
            negative_prompt=[""] * len(batch),
            true_cfg_scale=guidance,
            height=SIZE,
            width=SIZE,
            num_inference_steps=steps,
            max_sequence_length=pipeline.tokenizer_2.model_max_length,
            generator=[torch.Generator().manual_seed(seed + first + place) for place in range(len(batch))],
            output_type="np",
        ).images
        made += list((shown * 255).round().astype(np.uint8))
    return made


def score(pictures: Sequence[Picture], scenes: Sequence[Scene]) -> Score:
    """Of pictures against their scenes."""
    checked: list[Checked] = [check(picture, scene) for picture, scene in zip(pictures, scenes, strict=True)]

    def share(field: str) -> float:
        return float(np.mean([getattr(one, field) for one in checked]))

    shares = [share(field) for field in ("colours_right", "shapes_right", "places_right", "all_right")]
    return Score(len(checked), *shares)


def main() -> None:
    """As the module says."""

    def prepare(directory: Path, count: int) -> Callable[[int, float], str]:
        pipeline, scenes = load(directory), held_out_scenes(count)

        def scored(steps: int, guidance: float) -> str:
            found = score(paint(pipeline, scenes, steps=steps, guidance=guidance), scenes)
            return (
                f"all right {found.all:.3f}, colours {found.colours:.3f}, shapes {found.shapes:.3f}, "
                f"places {found.places:.3f} of {found.count} held out"
            )

        return scored

    side_by_side(__doc__, COUNT, STEPS, GUIDANCE, prepare)


if __name__ == "__main__":
    main()
