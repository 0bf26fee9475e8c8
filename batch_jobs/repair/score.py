"""How good a text is for a span, from 0 to 1: a product, so that one thing that can't be makes the whole worthless.

    score = belief × free × heard × covered × pace

- belief: exp(mean log probability per token), the model's own likelihood. Of no text: 1 - (chance of speech), where
  that chance is (1 - no_speech) × the greater of min(1, seconds of voice / 0.5) and the agreement of two decodes.
- free: 1 - share of the words that repeat what was said before them without the audio bearing it out.
- heard: share of the words that lie on voice.
- covered: share of the voice that has words; without any text, 1 - seconds of voice (never under 0).
- pace: 1 - share of the words that come faster than anybody speaks, or have no length.

`heard` and `free` are at least the agreement with an independent decode (one with other cut points) that believes in
its words: two that heard the same from different windows did not make it up. For `free` the texts must be the same and
the voice must have room for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations

from batch_jobs.inspect import loops, rates, sound
from batch_jobs.inspect import thresholds as limits
from batch_jobs.inspect.sound import Audio
from batch_jobs.inspect.units import Unit, units, words_of
from batch_jobs.inspect.voice import Voice, uncovered
from batch_jobs.transcript import Segment

_VOICE = 0.5
_HOLE = 0.3
"""Seconds of uncovered voice that count: less is the rim of a word."""


@dataclass(frozen=True, slots=True)
class Score:
    """The factors, each from 0 to 1."""

    belief: float
    free: float
    heard: float
    covered: float
    pace: float

    @property
    def total(self) -> float:
        return self.belief * self.free * self.heard * self.covered * self.pace


def score(
    segments: Sequence[Segment],
    voice: Voice,
    audio: Audio | None,
    span: tuple[float, float],
    no_speech: float,
    others: Sequence[Sequence[Segment]] = (),
) -> Score:
    """The score of `segments` as the text of `span`. `no_speech`: the chance that nothing was said, as the model gives
    it; `others`: what independent decodes of the span gave."""
    words = [word for segment in segments for word in words_of(segment)]
    said = units(words)
    spoken = voice.seconds(*span)
    if not said:
        chance = (1.0 - no_speech) * max(min(1.0, spoken / _VOICE), _agreement(others))
        return Score(1.0 - chance, 1.0, 1.0, max(0.0, 1.0 - spoken / limits.WORDLESS), 1.0)
    near = limits.NEAR
    heard = sum(voice.seconds(u.start - near, u.end + near) > 0.0 for u in said) / len(said)
    free, room = _free(said, voice, audio)
    agreed = max((likeness(said, units_of(other)) for other in others if believed(other)), default=0.0)
    if agreed == 1.0 and room:
        free = 1.0
    holes = sum(b - a for a, b in uncovered(words, voice) if b - a >= _HOLE)
    fast = {n for a, b, _ in rates.too_fast(said) for n in range(a, b)}
    fast |= {n for a, b, _ in rates.instant(words) for n, u in enumerate(said) if a <= u.word < b}
    return Score(
        belief=belief(segments),
        free=free,
        heard=max(heard, agreed),
        covered=1.0 - min(1.0, holes / spoken) if spoken else 1.0,
        pace=1.0 - len(fast) / len(said),
    )


def belief(segments: Sequence[Segment]) -> float:
    """exp of the mean log probability, each segment weighing as its letters; 0 without text."""
    letters = [len(s.text) for s in segments]
    if not sum(letters):
        return 0.0
    mean = sum(s.avg_logprob * n for s, n in zip(segments, letters, strict=True)) / sum(letters)
    return math.exp(min(mean, 0.0))


def believed(segments: Sequence[Segment]) -> bool:
    """Whether the model is sure of a text that it gave."""
    return belief(segments) > math.exp(limits.DOUBT)


def _agreement(texts: Sequence[Sequence[Segment]]) -> float:
    """How alike the two most alike of several believed texts are."""
    said = [units_of(text) for text in texts if believed(text)]
    return max((likeness(one, other) for one, other in combinations(said, 2)), default=0.0)


def units_of(segments: Sequence[Segment]) -> list[Unit]:
    return units([word for segment in segments for word in words_of(segment)])


def likeness(one: Sequence[Unit], other: Sequence[Unit]) -> float:
    """How alike two texts are, 0 to 1."""
    return SequenceMatcher(None, [u.key for u in one], [u.key for u in other], autojunk=False).ratio()


def _free(said: Sequence[Unit], voice: Voice, audio: Audio | None) -> tuple[float, bool]:
    """(1 - share of words repeated without proof, whether the voice has room for all of them)."""
    again: set[int] = set()
    true: set[int] = set()
    room = True
    for loop in loops.loops(said):
        proof = sound.evidence(loop, said, voice, audio)
        turn = set(range(loop.first + loop.period, loop.last))
        if proof.true:
            true |= turn
        else:
            again |= turn
            room = room and proof.room >= 1.0 and proof.voiced >= limits.VOICED
    once = [u for n, u in enumerate(said) if n not in true and n not in again]
    ratio = rates.compression([u.key for u in once])
    free = (1.0 - len(again) / len(said)) * min(1.0, limits.COMPRESSION / max(ratio, 1e-3))
    return free, room
