"""What the tests of the loop share: requests, and several of them drawn side by side as the step loop would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from vision_text.denoise.backend import DenoiseBackend
from vision_text.denoise.request import Asked, Made
from workers.backend import Done

PROMPTS = ("a red circle left, a blue square right", "a green triangle right", "a yellow square left")


def asked(steps: int = 6, /, **given: Any) -> Asked:
    given = {"prompt": PROMPTS[0], "width": 48, "height": 48, "guidance": 2.5, "seed": 3} | given
    return Asked(steps=steps, **given)


def draw(backend: DenoiseBackend, wanted: Asked) -> Made:
    made = backend.run(wanted)[-1]
    assert isinstance(made, Made)
    return made


def side_by_side(
    backend: DenoiseBackend, wanted: Sequence[Asked], late: int = 0
) -> tuple[list[Made], list[Tensor], int]:
    """All but the first begin `late` steps later. Pictures, their last latents, and the largest batch of a step."""
    states = [backend.open(one) for one in wanted]
    live, made, latents = list(range(len(states))), dict[int, Made](), dict[int, Tensor]()
    largest = turn = 0
    while live:
        groups: dict[object, list[int]] = {}
        for n in live:
            if n == 0 or turn >= late:
                groups.setdefault(backend.demand(states[n]).bucket, []).append(n)
        for group in groups.values():
            if states[group[0]].phase == "denoise":
                largest = max(largest, len(group))
            for n, result in zip(group, backend.step([states[n] for n in group]), strict=True):
                assert not isinstance(result, Exception), result
                if states[n].phase == "decode":
                    latents[n] = states[n].latents
                if isinstance(result, Done):
                    made[n] = result.output
                    live.remove(n)
        turn += 1
    for state in states:
        backend.discard(state)
    order = range(len(states))
    return [made[n] for n in order], [latents[n] for n in order], largest


def same(a: Made, b: Made) -> bool:
    return np.array_equal(a.frames, b.frames)
