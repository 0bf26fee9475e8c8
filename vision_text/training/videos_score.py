"""Scores a video model on scenes that it was not trained on: python -m vision_text.training.videos_score DIRECTORY

The clips are made by CogVideoXPipeline itself and judged by the exact checker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import CogVideoXPipeline

from vision_text.scenes.clips import FRAMES, SIZE, Checked, Frames, Scene, check, prompt, random_scene
from vision_text.training.scoring import quiet, side_by_side

STEPS, GUIDANCE = 20, 2.0
"""What the expected score is for: steps, and the weight of the prompt against no prompt."""
COUNT = 200
_BATCH = 25


@dataclass(frozen=True, slots=True)
class Score:
    """Shares of clips that are right, 0..1. `asked`: colour and direction both; `all`: pace and roundness too."""

    count: int
    wholes: float
    colours: float
    directions: float
    paces: float
    asked: float
    all: float


def held_out_scenes(count: int, seed: int = 1) -> list[Scene]:
    """The same for the same seed."""
    rng = np.random.default_rng(seed)
    return [random_scene(rng, held_out=True) for _ in range(count)]


def load(directory: Path) -> Any:
    """The pipeline, quiet. Its type is CogVideoXPipeline."""
    return quiet(CogVideoXPipeline, directory)


def film(pipeline: Any, scenes: Sequence[Scene], *, steps: int, guidance: float, seed: int = 0) -> list[Frames]:
    """One clip for each scene, with the seeds `seed`, `seed + 1`, ..."""
    made: list[Frames] = []
    for first in range(0, len(scenes), _BATCH):
        batch = scenes[first : first + _BATCH]
        shown = pipeline(
            [prompt(scene) for scene in batch],
            height=SIZE,
            width=SIZE,
            num_frames=FRAMES,
            num_inference_steps=steps,
            guidance_scale=guidance,
            max_sequence_length=pipeline.tokenizer.model_max_length,
            generator=[torch.Generator().manual_seed(seed + first + place) for place in range(len(batch))],
            output_type="np",
        ).frames
        made += list((shown * 255).round().astype(np.uint8))
    return made


def score(clips: Sequence[Frames], scenes: Sequence[Scene]) -> Score:
    """Of clips against their scenes."""
    checked: list[Checked] = [check(clip, scene) for clip, scene in zip(clips, scenes, strict=True)]

    def share(field: str) -> float:
        return float(np.mean([getattr(one, field) for one in checked]))

    return Score(
        len(checked),
        wholes=share("whole"),
        colours=share("colour_right"),
        directions=share("direction_right"),
        paces=share("pace_right"),
        asked=float(np.mean([one.colour_right and one.direction_right for one in checked])),
        all=share("all_right"),
    )


def main() -> None:
    """As the module says."""

    def prepare(directory: Path, count: int) -> Callable[[int, float], str]:
        pipeline, scenes = load(directory), held_out_scenes(count)

        def scored(steps: int, guidance: float) -> str:
            found = score(film(pipeline, scenes, steps=steps, guidance=guidance), scenes)
            return (
                f"colour and direction {found.asked:.3f}, all right {found.all:.3f}; whole {found.wholes:.3f}, "
                f"colour {found.colours:.3f}, direction {found.directions:.3f}, pace {found.paces:.3f} "
                f"of {found.count} held out"
            )

        return scored

    side_by_side(__doc__, COUNT, STEPS, GUIDANCE, prepare)


if __name__ == "__main__":
    main()
