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
    KINDS,
    PLACES,
    Clip,
    Grid,
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
from vision_text.scenes.pictures import COLOURS
from vision_text.training.vlm_words import CLIP_INTRODUCED, END, FRAME_INTRODUCED, START, Writer

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
        later = len(grids) == 2 and turns > 1 and rng.random() < 0.25  # the second picture comes with a later turn
        begun = ask(rng, questions(grids[0]), turns // 2) if later else []
        asked = [*begun, *_descriptions_last(ask(rng, among, turns - len(begun)))]
        said = [self._spoken(question) for question in asked]
        for turn, pictures in ((0, 1), (len(begun), 1)) if later else ((0, len(grids)),):
            shown = self._shown * pictures
            said[turn] = said[turn] + shown if rng.random() < 0.25 else shown + said[turn]
        return Lesson(np.stack([draw(grid) for grid in grids]), _turns(said, asked), _kinds(asked))

    def of_clip(self, turns: int) -> Lesson:
        rng, clip = self._rng, random_clip(self._rng, held_out=self._held_out)
        asked = ask(rng, questions_of_clip(clip), turns)
        said = [self._spoken(question) for question in asked]
        said[0] = self.frames(clip, self._pictures, introduced=bool(rng.random() < 0.5)) + said[0]
        return Lesson(draw_clip(clip, self._pictures), _turns(said, asked), _kinds(asked))

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


def recital(grids: Sequence[Grid], rng: np.random.Generator, writer: Writer, size: int) -> dict[str, Tensor]:
    """Places with what lies there, objects with where they lie, counts, in any order; what comes second is learned.

    An answer needs a place found in the picture by its name. Here the name is the word before, not a question that
    lies several words back, so this is learned in a tenth of the time, and the questions then build on it.
    """
    written = []
    for grid in grids:
        pairs = _facts(grid, rng)
        ids = [*writer.ids(START + "user:"), *writer.picture(visual_tokens(size)), *writer.ids(END + "assistant:")]
        learned = [False] * len(ids)
        for pair in rng.permutation(len(pairs)).tolist():
            asked, told = writer.ids(pairs[pair][0]), writer.ids(pairs[pair][1])
            ids += [*asked, *writer.ids(":"), *told]
            learned += [False] * (len(asked) + 1) + [True] * len(told)
        written.append((ids, learned))
    return padded(written, pixels(np.stack([draw(grid) for grid in grids]), size)[:, None])


def _facts(grid: Grid, rng: np.random.Generator) -> list[tuple[str, str]]:
    """All about objects that there are, a little about what there is not."""
    kinds = [f"{colour} {shape}" for colour, shape in KINDS]
    absent = [name for name in rng.permutation(kinds).tolist() if grid.find(name) is None]
    empty = [cell for cell in rng.permutation(len(PLACES)).tolist() if grid.at(cell) is None]
    facts = [(one.place, one.name) for one in grid.objects] + [(PLACES[cell], "nothing") for cell in empty[:2]]
    facts += [(one.name, one.place) for one in grid.objects] + [(name, "nowhere") for name in absent[:4]]
    for colour in rng.permutation(list(COLOURS)).tolist()[:2]:
        facts.append((f"{colour} objects", str(sum(one.colour == colour for one in grid.objects))))
    return [*facts, ("objects", str(len(grid.objects)))]


def _descriptions_last(asked: Sequence[Question]) -> list[Question]:
    """Or later answers could be copied from them."""
    return sorted(asked, key=lambda question: question.kind.startswith("describe"))


def _kinds(asked: Sequence[Question]) -> list[str]:
    return [question.kind for question in asked]


def _turns(said: Sequence[list[int]], asked: Sequence[Question]) -> list[tuple[list[int], str]]:
    return [(words, question.answer) for words, question in zip(said, asked, strict=True)]


def batch(lessons: Sequence[Lesson], writer: Writer, size: int) -> dict[str, Tensor]:
    """What the model takes, answers alone as labels."""
    shown = pixels(np.concatenate([lesson.pictures for lesson in lessons]), size)
    written = [writer.conversation(lesson.turns) for lesson in lessons]
    return padded(written, shown.unflatten(0, (len(lessons), -1)))


def padded(written: Sequence[tuple[list[int], list[bool]]], shown: Tensor) -> dict[str, Tensor]:
    """Ids, filled up on the right, and which of them are to be learned; `shown` is (N, pictures, 3, size, size)."""
    ids = torch.zeros(len(written), max(len(line) for line, _ in written), dtype=torch.long)
    labels = torch.full_like(ids, -100)
    for row, (line, learned) in enumerate(written):
        ids[row, : len(line)] = torch.tensor(line)
        labels[row, : len(line)] = torch.where(torch.tensor(learned), ids[row, : len(line)], -100)
    return {"input_ids": ids, "labels": labels, "pixel_values": shown}
