"""Scores an image model on scenes that it was not trained on: python -m vision_text.training.images_score DIRECTORY

The pictures are made by FluxPipeline itself and judged by the exact checker.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import FluxPipeline

from vision_text.scenes.pictures import SIZE, Checked, Picture, Scene, check, prompt, random_scene

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
    pipeline: Any = FluxPipeline.from_pretrained(directory)  # type: ignore[no-untyped-call]
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


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
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("directory", type=Path)
    options.add_argument("--count", type=int, default=COUNT)
    options.add_argument("--steps", type=int, nargs="+", default=[STEPS])
    options.add_argument("--guidance", type=float, nargs="+", default=[GUIDANCE])
    chosen = options.parse_args()
    torch.set_num_threads(1)
    pipeline, scenes = load(chosen.directory), held_out_scenes(chosen.count)
    for guidance in chosen.guidance:
        for steps in chosen.steps:
            began = time.process_time()
            found = score(paint(pipeline, scenes, steps=steps, guidance=guidance), scenes)
            print(
                f"steps {steps:3d} guidance {guidance:.1f}: all right {found.all:.3f}, colours {found.colours:.3f}, "
                f"shapes {found.shapes:.3f}, places {found.places:.3f} of {found.count} held out, "
                f"{time.process_time() - began:.0f} CPU s",
                flush=True,
            )


if __name__ == "__main__":
    main()
