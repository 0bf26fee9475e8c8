"""Pages cut into passages that can be found, each with its place, and the ones that answer a question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from vision_text.documents.page import Box, Page, Region, around
from vision_text.embeddings.embedder import Embedder
from workers.task import Lane

MOST_CHARACTERS = 900
"""Of a passage: what the bundled model looks at in full, and a language model can be shown ten of."""
_HEADING = 80
"""A region shorter than this is read together with the one below it."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Some lines of a page. `box` is in the page's `unit`."""

    page: int
    unit: str
    box: Box
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """A passage and how near it is to the question: the cosine, from -1 to 1."""

    passage: Passage
    score: float


def passages_of(pages: Iterable[Page]) -> list[Passage]:
    """All that the pages say, in reading order."""
    found: list[Passage] = []
    for page in pages:
        above: list[tuple[str, Box]] = []
        for region in page.regions:
            for text, box in _pieces(region):
                above.append((text, box))
                if sum(len(part) for part, _ in above) >= _HEADING:
                    found.append(_passage(page, above))
                    above = []
        if above:
            found.append(_passage(page, above))
    return found


async def nearest(question: str, passages: Sequence[Passage], embedder: Embedder, count: int) -> list[Found]:
    """The passages nearest to the question, the best first. Raises what `Embedder.rerank` raises."""
    if not passages:
        return []
    ranked = await embedder.rerank(question, [passage.text for passage in passages], lane=Lane.INTERACTIVE)
    best = np.argsort(-np.asarray(ranked.scores), kind="stable")[:count]
    return [Found(passages[index], float(ranked.scores[index])) for index in best]


def _pieces(region: Region) -> list[tuple[str, Box]]:
    """A region by as many rows as make a passage."""
    pieces: list[tuple[str, Box]] = []
    texts: list[str] = []
    boxes: list[Box] = []
    for row in region.rows:
        text = "\t".join(line.text for line in row)
        if texts and sum(map(len, texts)) + len(text) > MOST_CHARACTERS:
            pieces.append(("\n".join(texts), around(boxes)))
            texts, boxes = [], []
        texts.append(text)
        boxes.extend(line.box for line in row)
    pieces.append(("\n".join(texts), around(boxes)))
    return pieces


def _passage(page: Page, parts: Sequence[tuple[str, Box]]) -> Passage:
    return Passage(page.number, page.unit, around(box for _, box in parts), "\n".join(text for text, _ in parts))
