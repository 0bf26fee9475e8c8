"""What the scores of models that draw have in common: a pipeline that is quiet, and steps and guidance side by side."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def quiet(pipeline_class: Any, directory: Path) -> Any:
    """A pipeline of the library, without its bars."""
    pipeline = pipeline_class.from_pretrained(directory)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def side_by_side(
    about: str | None,
    count: int,
    steps: int,
    guidance: float,
    prepare: Callable[[Path, int], Callable[[int, float], str]],
) -> None:
    """The command line: `prepare` gets the directory and how many scenes, and gives what scores them in words. The
    numbers are its defaults."""
    options = argparse.ArgumentParser(description=about)
    options.add_argument("directory", type=Path)
    options.add_argument("--count", type=int, default=count)
    options.add_argument("--steps", type=int, nargs="+", default=[steps])
    options.add_argument("--guidance", type=float, nargs="+", default=[guidance])
    chosen = options.parse_args()
    torch.set_num_threads(1)
    found = prepare(chosen.directory, chosen.count)
    for weight in chosen.guidance:
        for number in chosen.steps:
            began = time.process_time()
            said = found(number, weight)
            print(
                f"steps {number:3d} guidance {weight:.1f}: {said}, {time.process_time() - began:.0f} CPU s", flush=True
            )
