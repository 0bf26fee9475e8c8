"""The shapes of vosk's answers. Words are plain: its recognisers know neither capitals nor punctuation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.plain_words import plain_text, plain_word, whole_words
from speech.events import Final, Word


def partial(text: str) -> dict[str, Any]:
    """What is being said."""
    return {"partial": plain_text(text)}


def result(finals: Sequence[Final], *, words: bool, alternatives: int) -> dict[str, Any]:
    """What was said, in one answer however many utterances it was. There is one reading, so one alternative."""
    said = [(final.text, whole_words(final.words)) for final in finals if final.text]
    text = " ".join(plain for told, pieces in said if (plain := plain_text(told, pieces)))
    entries = [entry for _, pieces in said for piece in pieces if (entry := _word(piece))["word"]]
    if not alternatives:
        return ({"result": entries} if words and entries else {}) | {"text": text}
    confidence = min((final.confidence for final in finals if final.text), default=0.0)
    reading: dict[str, Any] = {"confidence": round(confidence, 6), "text": text}
    if words and entries:
        reading["result"] = [{name: entry[name] for name in ("start", "end", "word")} for entry in entries]
    return {"alternatives": [reading]}


def _word(word: Word) -> dict[str, Any]:
    return {
        "conf": round(word.confidence, 6),
        "end": round(word.end, 6),
        "start": round(word.start, 6),
        "word": plain_word(word.text),
    }
