"""The shapes of Deepgram's answers. Times are seconds from the beginning of the sound."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from gateway.plain_words import plain_text, plain_word, whole_words
from speech.events import Word

ARCH = "whisper"
_DIGITS = 3


def seconds(value: float) -> float:
    """As it is told."""
    return round(value, _DIGITS)


def word(said: Word, *, formatted: bool) -> dict[str, Any]:
    """One word; as the model wrote it only when capitals and punctuation were asked for."""
    text = said.text.strip()
    entry: dict[str, Any] = {
        "word": plain_word(text) or text,
        "start": seconds(said.start),
        "end": seconds(said.end),
        "confidence": round(said.confidence, 4),
    }
    return entry | ({"punctuated_word": text} if formatted else {})


def alternative(text: str, words: Sequence[Word], confidence: float, *, formatted: bool) -> dict[str, Any]:
    """The one reading that there is."""
    words = whole_words(words)
    return {
        "transcript": text.strip() if formatted else plain_text(text, words),
        "confidence": round(confidence, 4),
        "words": [word(said, formatted=formatted) for said in words],
    }


def estimated(text: str, start: float, end: float) -> list[Word]:
    """Words whose times are not known yet, spread over the time they were said in; their confidence is not known."""
    pieces = text.split()
    step = (end - start) / max(sum(map(len, pieces)), 1)
    words, at = [], start
    for piece in pieces:
        words.append(Word(f" {piece}", at, at + step * len(piece), 0.0))
        at += step * len(piece)
    return words


def created() -> str:
    """Now, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def model_uuid(model: str) -> str:
    """The same for a model wherever it is loaded."""
    return str(uuid5(NAMESPACE_URL, f"speechlane:{model}"))


@cache
def model_info(model: str) -> dict[str, str]:
    """What there is to know of a model."""
    try:
        number = version("speechlane")
    except PackageNotFoundError:
        number = "0"
    return {"name": model, "version": number, "arch": ARCH}
