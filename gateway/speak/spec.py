"""How something is to be spoken, as clients write it, and the configuration of a speaker that it makes."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from speech.speaking.config import SpeakConfig
from speech.text.lexicon import Lexicon
from speech.text.options import TextOptions

Voice = Annotated[str, StringConstraints(max_length=256)]
Entry = Annotated[str, StringConstraints(max_length=512)]
MOST_WORDS = 1_000
Words = Annotated[dict[Entry, Entry], Field(max_length=MOST_WORDS)]
KEPT = 32
"""Lexicons that are kept, since a client gives the same one with every context."""


class TextPolicy(BaseModel):
    """What becomes of markdown, code and emoji in the text."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    markdown: Literal["strip", "speak"] = "strip"
    code: Literal["strip", "speak", "name"] = "strip"
    emoji: Literal["strip", "name", "speak"] = "strip"
    language: Annotated[
        str, StringConstraints(max_length=16), Field(json_schema_extra={"pattern": "^[Ee][Nn](-.*)?$"})
    ] = "en"

    def options(self) -> TextOptions:
        """The same, for the domain. Raises InputInvalid."""
        return TextOptions(markdown=self.markdown, code=self.code, emoji=self.emoji, language=self.language)


class Spec(BaseModel):
    """Voice and manner. Ranges are checked by the speaker itself, which names the field."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    voice: Voice = ""
    speed: float = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    split: Literal["sentence", "clause", "none"] = "sentence"
    policy: TextPolicy = TextPolicy()
    lexicon: Words | None = None
    lead: float | None = 1.75
    stall: float = 0.25

    def config(self) -> SpeakConfig:
        """For a speaker. Raises InputInvalid."""
        return SpeakConfig(
            voice=self.voice,
            speed=self.speed,
            seed=self.seed,
            split=self.split,
            text=self.policy.options(),
            lexicon=lexicon(self.lexicon),
            lead=self.lead,
            stall=self.stall,
        )


def lexicon(entries: dict[str, str] | None) -> Lexicon:
    """A lexicon of these words; a fraction of a millisecond for each that is new. Raises InputInvalid."""
    return _lexicon(tuple(sorted(entries.items()))) if entries else Lexicon()


@lru_cache(KEPT)
def _lexicon(entries: tuple[tuple[str, str], ...]) -> Lexicon:
    return Lexicon(dict(entries))
