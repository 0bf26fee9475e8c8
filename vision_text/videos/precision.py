"""The plan of precisions for a model that draws: scanned over steps and blocks, on clips as they come out.

python -m vision_text.videos.precision MODEL [--low mxfp8] [--floor 30] [--bands 4] --prompt TEXT
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from vision_text.denoise.backend import DenoiseBackend
from vision_text.denoise.request import Asked, Made
from vision_text.numerics.formats import FORMATS, Format
from vision_text.numerics.linear import blocks_of
from vision_text.numerics.plan import PrecisionPlan
from vision_text.numerics.scan import Chosen, Sensitivity, choose, scan


def find_plan(
    backend: DenoiseBackend, asked: Sequence[Asked], low: Format, *, bands: int = 4, floor_db: float = 30.0
) -> tuple[Sensitivity, Chosen]:
    """Which blocks may compute in `low` in which part of the steps, with the worst of these clips at `floor_db` PSNR or
    above. Makes every one of them bands times blocks and some more times: use a few, of the steps that are served.

    On the calling thread; the backend is loaded and serves nobody meanwhile.
    """

    def run(plan: PrecisionPlan) -> npt.NDArray[np.floating[Any]]:
        made = [_frames(backend, replace(one, options=dict(one.options) | {"precision": plan})) for one in asked]
        backend._trees.clear()  # of each plan there would be modules, with weights in every format
        return np.stack(made) / np.float32(255)

    layers = tuple(blocks_of(backend.pipeline.transformer))
    found = scan(run, layers, low, bands=bands)
    return found, choose(found, run, floor_db=floor_db)


def _frames(backend: DenoiseBackend, asked: Asked) -> npt.NDArray[np.uint8]:
    made = backend.run(asked)[-1]
    assert isinstance(made, Made)
    if made.approximation.fallback is not None:
        raise ValueError(
            f"the clip of seed {asked.seed} had to be made again exactly ({made.approximation.fallback}): it says "
            "nothing of the plan"
        )
    return made.frames


def table(found: Sensitivity, chosen: Chosen) -> str:
    """For a terminal: what each cell alone costs, in decibels, and the candidates."""
    lines = [f"PSNR with one cell in {found.low}: rows are parts of the steps, columns blocks"]
    lines += ["  ".join(f"{value:6.1f}" for value in row) for row in found.decibels()]
    for name, one in {"scan": chosen.best, **chosen.others}.items():
        lines.append(f"{name:>10}: {one.low_cells} cells low, {one.db:.1f} dB, the worst {one.worst_db:.1f} dB")
    return "\n".join(lines)


def main() -> None:
    """As the module says."""
    import torch

    from vision_text.denoise.loading import read_pipeline
    from vision_text.videos.backend import FilmBackend

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("model")
    parser.add_argument("--low", choices=FORMATS[1:], default="mxfp8")
    parser.add_argument("--floor", type=float, default=30.0, help="dB PSNR of the worst clip")
    parser.add_argument("--bands", type=int, default=4)
    parser.add_argument("--prompt", action="append", required=True, help="several times for several clips")
    parser.add_argument("--steps", type=int)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found, pipeline = read_pipeline(given.model)
    backend = FilmBackend("video", found, pipeline)
    backend.load("cpu")
    info = backend.info
    width, height = info.default_size
    asked = [
        Asked(
            prompt, width=width, height=height, frames=info.default_frames, seed=n,
            steps=given.steps or info.default_steps, guidance=info.default_guidance,
        )
        for n, prompt in enumerate(given.prompt)
    ]  # fmt: skip
    sensitivity, chosen = find_plan(backend, asked, cast(Format, given.low), bands=given.bands, floor_db=given.floor)
    sys.stdout.write(f"{table(sensitivity, chosen)}\n{json.dumps(chosen.as_dict())}\n")


if __name__ == "__main__":
    main()
