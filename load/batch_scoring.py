"""A long transcript against what was said when: word errors, those near cuts among them, and how far times are off."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import jiwer
import numpy as np

from load.long_file import Said
from load.scoring import normal

Timed = tuple[str, float, float]
"""A word of a transcript with its start and end in seconds."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Word errors in percent of the words that were said."""

    rate: float
    inserted: float
    deleted: float
    words: int


def errors(references: Sequence[str], hypotheses: Sequence[str]) -> Errors:
    """Of two long texts, in parts that need not match: normalised part by part, then compared as one.

    Whisper's normaliser joins numbers that stand side by side, so it must not see two utterances as one.
    """
    found = jiwer.process_words(_joined(references), _joined(hypotheses))
    said = found.hits + found.substitutions + found.deletions
    return Errors(100 * found.wer, 100 * found.insertions / said, 100 * found.deletions / said, said)


def by_utterance(words: Sequence[Timed], said: Sequence[Said]) -> list[list[Timed]]:
    """The words of each utterance: those nearer to it in time than to any other, by their middles."""
    borders = [(before.end + after.start) / 2 for before, after in pairwise(said)]
    out: list[list[Timed]] = [[] for _ in said]
    for word in words:
        out[bisect_right(borders, (word[1] + word[2]) / 2)].append(word)
    return out


def text(words: Sequence[Timed]) -> str:
    return "".join(word for word, _, _ in words).strip()


@dataclass(slots=True)
class Regions:
    """Errors and words within `near` seconds of a cut, and elsewhere."""

    near: float
    cuts: Sequence[float]
    """In order of time."""
    wrong: Counter[bool] = field(default_factory=Counter)
    """Keys: whether it lies at a cut."""
    words: Counter[bool] = field(default_factory=Counter)

    def add(self, reference: Said, hypothesis: str) -> None:
        """Take in one utterance; the words of its reference are spread evenly over its time."""
        expected, heard = normal(reference.text), normal(hypothesis)
        count = len(expected.split())
        if not count:
            return
        length = (reference.end - reference.start) / count
        places = [self._at_cut(reference.start + (n + 0.5) * length) for n in range(count)]
        self.words.update(places)
        for part in jiwer.process_words(expected, heard).alignments[0]:
            if part.type == "insert":
                at = min(part.ref_start_idx, count - 1)
                self.wrong[places[at]] += part.hyp_end_idx - part.hyp_start_idx
            elif part.type != "equal":
                self.wrong.update(places[part.ref_start_idx : part.ref_end_idx])

    def rate(self, at_cut: bool) -> float:
        """Word errors in percent."""
        return 100 * self.wrong[at_cut] / max(self.words[at_cut], 1)

    def _at_cut(self, time: float) -> bool:
        number = bisect_right(self.cuts, time)
        return any(abs(cut - time) <= self.near for cut in self.cuts[max(number - 1, 0) : number + 1])


@dataclass(frozen=True, slots=True)
class Edge:
    """Where an utterance begins or ends, and by how many seconds its word there is late."""

    at: float
    late: float
    text: str
    end: bool


def edges(said: Sequence[Said], heard: Sequence[Sequence[Timed]]) -> list[Edge]:
    """Both edges of every utterance, where the word there is right."""
    out: list[Edge] = []
    for one, words in zip(said, heard, strict=True):
        expected = normal(one.text).split()
        if not expected or not words:
            continue
        if normal(words[0][0]).split()[:1] == expected[:1]:
            out.append(Edge(one.start, words[0][1] - one.start, one.text, False))
        if normal(words[-1][0]).split()[-1:] == expected[-1:]:
            out.append(Edge(one.end, words[-1][2] - one.end, one.text, True))
    return out


def drift(found: Sequence[Edge]) -> float:
    """How much later edges of the same recording are in the last half of the file than in the first: the median."""
    middle = max((edge.at for edge in found), default=0.0) / 2
    by_edge: dict[tuple[str, bool], tuple[list[float], list[float]]] = {}
    for edge in found:
        by_edge.setdefault((edge.text, edge.end), ([], []))[edge.at > middle].append(edge.late)
    moved = [np.median(late) - np.median(early) for early, late in by_edge.values() if early and late]
    return float(np.median(moved)) if moved else 0.0


def repeated(texts: Sequence[str], size: int = 5) -> int:
    """How many rows of `size` words stand right behind themselves or over themselves: loops, and true repetitions."""
    words = _joined(texts).split()
    rows = [tuple(words[n : n + size]) for n in range(len(words) - size + 1)]
    return sum(row in rows[max(n - size, 0) : n] for n, row in enumerate(rows))


def _joined(texts: Sequence[str]) -> str:
    return " ".join(part for part in (normal(text) for text in texts) if part)
