"""Conversations about pictures and clips, as batches that the small vision-language model learns from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from vision_text.scenes.grids import (
    Clip,
    Question,
    ask,
    draw,
    draw_clip,
    questions,
    questions_of_clip,
    questions_of_several,
    random_clip,
    random_grid,
)
from vision_text.training.vlm_words import CLIP_INTRODUCED, FRAME_INTRODUCED, Writer

PATCH, SCALE = 6, 2
"""Pixels of a patch's side, and patches along each side of what becomes one visual token."""
COUNTED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight")
"""As the processor for clips writes how many frames there are."""


def visual_tokens(size: int) -> int:
    """Of a square picture of that many pixels a side."""
    return (size // (PATCH * SCALE)) ** 2


def pixels(pictures: NDArray[np.uint8], size: int) -> Tensor:
    """(N, H, W, 3) of 0 to 255 -> (N, 3, size, size) of -1 to 1, made smaller as the processor does."""
    values = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 127.5 - 1
    if size == values.shape[-1]:
        return values
    return functional.interpolate(values, (size, size), mode="bicubic", antialias=True).clamp(-1, 1)


@dataclass(frozen=True, slots=True)
class Lesson:
    """One conversation: its pictures in order, and its turns."""

    pictures: NDArray[np.uint8]
    turns: list[tuple[list[int], str]]
    kinds: list[str]


class Teacher:
    """Makes conversations of one layout: `pictures` of `size` pixels each."""

    def __init__(self, writer: Writer, size: int, pictures: int, rng: np.random.Generator, *, held_out: bool) -> None:
        self._writer, self._rng, self._held_out = writer, rng, held_out
        self._pictures = pictures
        self._shown = writer.picture(visual_tokens(size))

    def of_pictures(self, turns: int) -> Lesson:
        rng, grids = self._rng, [random_grid(self._rng, held_out=self._held_out) for _ in range(self._pictures)]
        among = questions(grids[0]) if len(grids) == 1 else questions_of_several(grids)
        asked = ask(rng, among, turns)
        asked.sort(key=lambda question: question.kind.startswith("describe"))  # later answers must not copy from it
        said = [self._spoken(question) for question in asked]
        shown = self._shown * len(grids)
        said[0] = said[0] + shown if rng.random() < 0.25 else shown + said[0]
        return Lesson(
            np.stack([draw(grid) for grid in grids]), _turns(said, asked), [question.kind for question in asked]
        )

    def of_clip(self, turns: int) -> Lesson:
        rng, clip = self._rng, random_clip(self._rng, held_out=self._held_out)
        asked = ask(rng, questions_of_clip(clip), turns)
        said = [self._spoken(question) for question in asked]
        said[0] = self.frames(clip, self._pictures, introduced=bool(rng.random() < 0.5)) + said[0]
        return Lesson(draw_clip(clip, self._pictures), _turns(said, asked), [question.kind for question in asked])

    def frames(self, clip: Clip, frames: int, *, introduced: bool) -> list[int]:
        """Plain pictures in order, or with the words that the processor for clips puts around them."""
        if not introduced:
            return self._shown * frames
        ids, apart = self._writer.ids, int(self._rng.integers(1, 4))
        last = apart * (frames - 1)
        written = [*ids(CLIP_INTRODUCED.format(frames=COUNTED[frames], duration=f"0:00:{last:02d}"))]
        for frame in range(frames):
            written += [*ids(FRAME_INTRODUCED.format(at=f"00:{apart * frame:02d}")), *self._shown]
        return written

    def _spoken(self, question: Question) -> list[int]:
        """People leave out the mark at the end now and then."""
        text = question.text if self._rng.random() < 0.85 else question.text.rstrip("?.")
        return self._writer.ids(text)


def _turns(said: Sequence[list[int]], asked: Sequence[Question]) -> list[tuple[list[int], str]]:
    return [(words, question.answer) for words, question in zip(said, asked, strict=True)]


def batch(lessons: Sequence[Lesson], writer: Writer, size: int) -> dict[str, Tensor]:
    """Padded on the right; answers alone have labels."""
    written = [writer.conversation(lesson.turns) for lesson in lessons]
    longest = max(len(ids) for ids, _ in written)
    ids = torch.zeros(len(written), longest, dtype=torch.long)
    labels = torch.full_like(ids, -100)
    for row, (line, learned) in enumerate(written):
        ids[row, : len(line)] = torch.tensor(line)
        labels[row, : len(line)] = torch.where(torch.tensor(learned), ids[row, : len(line)], -100)
    shown = np.concatenate([lesson.pictures for lesson in lessons])
    values = pixels(shown, size)
    return {"input_ids": ids, "labels": labels, "pixel_values": values.unflatten(0, (len(lessons), -1))}
