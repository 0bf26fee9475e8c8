"""Texts for measurements of speech: sentences with the words they are read as, and utterances of real length mix."""

from __future__ import annotations

import random
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from load import corpora


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as it is written, the words that are heard when it is read well, and the kind of difficulty in it."""

    written: str
    spoken: str
    kind: str


@cache
def sentences() -> tuple[Sentence, ...]:
    """Those of spoken_sentences.toml, and what is said in the repository's recordings."""
    with (Path(__file__).parent / "spoken_sentences.toml").open("rb") as file:
        kinds = tomllib.load(file)
    found = [Sentence(one["written"], one["spoken"], kind) for kind, many in kinds.items() for one in many]
    for clip in corpora.bundled():
        text = " ".join(clip.text.split())
        written = text if text[-1] in ".!?" else f"{text[0].upper()}{text[1:]}."
        found.append(Sentence(written, text, "recordings"))
    return tuple(found)


def utterance(chance: random.Random) -> list[str]:
    """What somebody says at once: one to six sentences, mostly few."""
    every = [one.written for one in sentences()]
    return chance.sample(every, chance.choices(range(1, 7), (6, 8, 6, 4, 2, 1))[0])


def pieces(text: str) -> list[str]:
    """`text` in words, each with the space before it, as a language model gives it."""
    words = text.split(" ")
    return [words[0], *(f" {word}" for word in words[1:])]
