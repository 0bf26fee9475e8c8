"""What the tests of the model that sees share: questions about grids, and answers read to their end."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from vision_text.scenes import grids
from vision_text.vlm import Answered, ChatAsked, Clip, Picture, Seer, TextDelta, Turn

torch.set_num_threads(1)
MODEL = "shapes-vlm"


def picture(seed: int) -> Picture:
    return Picture(grids.draw(grids.random_grid(np.random.default_rng(seed), held_out=True)))


def crowded() -> Picture:
    """With so many objects that telling them takes many words."""
    rng = np.random.default_rng(0)
    return Picture(grids.draw(next(grid for _ in range(100) if len((grid := grids.random_grid(rng)).objects) >= 4)))


def clip(seed: int, frames: int = 3) -> Clip:
    return Clip(grids.draw_clip(grids.random_clip(np.random.default_rng(seed)), frames), 1.0)


def question(seed: int) -> str:
    rng = np.random.default_rng(seed)
    return grids.ask(rng, grids.questions(grids.random_grid(rng, held_out=True)), 1)[0].text


def asked(seed: int = 0, /, *parts: Any, **given: Any) -> ChatAsked:
    """A picture and a question about it, unless `parts` say otherwise."""
    given.setdefault("max_tokens", 20)
    return ChatAsked((Turn("user", parts or (picture(seed), question(seed))),), **given)


async def answer(seer: Seer, wanted: ChatAsked) -> Answered:
    """The end; the text that came before it is the same."""
    text = ""
    async for output in seer.answer(wanted):
        if isinstance(output, TextDelta):
            assert output.text
            text += output.text
        else:
            assert output.text == text
            return output
    raise AssertionError("the answer has no end")
