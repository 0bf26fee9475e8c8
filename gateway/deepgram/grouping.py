"""Words of a recording as utterances, sentences and paragraphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import uuid4

from gateway.deepgram import results
from speech.events import Word

SENTENCE_ENDS = (".", "?", "!", "。", "？", "！")
PARAGRAPH_PAUSE = 2.0
"""Seconds between sentences that begin a paragraph."""
PARAGRAPH_SENTENCES = 5


def utterances(words: Sequence[Word], channel: int, split: float, *, formatted: bool) -> list[dict[str, Any]]:
    """Stretches of one channel without a pause of `split` seconds."""
    found = []
    for group in _groups(words, lambda before, after: after.start - before.end >= split):
        confidence = sum(said.confidence for said in group) / len(group)
        reading = results.alternative(_text(group), group, confidence, formatted=formatted)
        times = {"start": results.seconds(group[0].start), "end": results.seconds(group[-1].end)}
        found.append({**times, "channel": channel, "id": str(uuid4()), **reading})
    return found


def paragraphs(words: Sequence[Word]) -> dict[str, Any]:
    """Sentences as their punctuation has them, together until one comes after a pause or there are enough."""
    sentences = _groups(words, lambda before, _: before.text.rstrip("\"'”’)").endswith(SENTENCE_ENDS))
    listed: list[list[list[Word]]] = []
    for sentence in sentences:
        pause = sentence[0].start - listed[-1][-1][-1].end if listed else 0.0
        if not listed or pause >= PARAGRAPH_PAUSE or len(listed[-1]) >= PARAGRAPH_SENTENCES:
            listed.append([])
        listed[-1].append(sentence)
    return {
        "transcript": "\n\n".join(" ".join(map(_text, paragraph)) for paragraph in listed),
        "paragraphs": [
            {
                "sentences": [{"text": _text(sentence), **_times(sentence)} for sentence in paragraph],
                "num_words": sum(map(len, paragraph)),
                **_times([word for sentence in paragraph for word in sentence]),
            }
            for paragraph in listed
        ],
    }


def _groups(words: Iterable[Word], between: Callable[[Word, Word], bool]) -> list[list[Word]]:
    groups: list[list[Word]] = []
    for word in words:
        if not groups or between(groups[-1][-1], word):
            groups.append([])
        groups[-1].append(word)
    return groups


def _text(words: Sequence[Word]) -> str:
    return "".join(word.text for word in words).strip()


def _times(words: Sequence[Word]) -> dict[str, float]:
    return {"start": results.seconds(words[0].start), "end": results.seconds(words[-1].end)}
