"""Why a text is said as it is: its tokens with where they came from, the rules, the phonemes, and what is left out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from speech.text.lexicon import Lexicon
from speech.text.normaliser import read
from speech.text.options import TextOptions

if TYPE_CHECKING:
    from speech.tts import Voice  # which needs this package


@dataclass(frozen=True, slots=True)
class ExplainedToken:
    """`spoken` is said for `written`, the characters `start` to `end` of the text, by `rule`."""

    spoken: str
    written: str
    start: int
    end: int
    rule: str
    phonemes: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """`written`, the characters `start` to `end` of the text, is not said, by `policy`."""

    written: str
    start: int
    end: int
    policy: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """`spoken` is all that is said, as one line. `voice` is whose phonemes the tokens have, '' for none."""

    text: str
    spoken: str
    voice: str
    tokens: tuple[ExplainedToken, ...]
    removed: tuple[LeftOut, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain dicts and lists."""
        return asdict(self)


def explain(
    text: str, options: TextOptions | None = None, lexicon: Lexicon | None = None, voice: Voice | None = None
) -> Explanation:
    """As a voice would say it; with a `voice`, takes milliseconds a sentence, so not on the event loop."""
    reading = read(text, options, lexicon)
    tokens = reading.tokens
    phonemes = voice.phonemes(tokens).text if voice is not None else tuple(one.phonemes for one in tokens)
    return Explanation(
        text=text,
        spoken=as_line([(one.text, one.rule) for one in tokens]),
        voice=voice.info.name if voice is not None else "",
        tokens=tuple(
            ExplainedToken(one.text, text[one.start : one.end], one.start, one.end, one.rule, sounds)
            for one, sounds in zip(tokens, phonemes, strict=True)
        ),
        removed=tuple(LeftOut(text[one.start : one.end], one.start, one.end, one.policy) for one in reading.removed),
    )


def as_line(tokens: list[tuple[str, str]]) -> str:
    """Words and marks as one line, marks set as in print."""
    line, attach = "", True
    quoted = False
    for text, rule in tokens:
        mark = rule == "punctuation"
        opens = mark and (text in "(“" or (text == '"' and not quoted))
        if mark and text == '"':
            quoted = not quoted
        before = "" if attach or (mark and not opens and text != "—") else " "
        line += before + text
        attach = opens
    return line
