"""Segments of a transcribed file as the bodies that /v1/audio/transcriptions answers with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gateway.languages import language_name

if TYPE_CHECKING:
    from speech.engine import Segment

FRAMES_PER_SECOND = 100
"""Whisper's `seek` counts feature frames of 10 ms."""


def plain_text(segments: Sequence[Segment]) -> str:
    """The whole text on one line."""
    return "".join(deltas(segments))


def deltas(segments: Sequence[Segment]) -> list[str]:
    """Each segment's text with the space that joins it to what came before; joined they are the whole text."""
    return [delta(segment, first=number == 0) for number, segment in enumerate(segments)]


def delta(segment: Segment, *, first: bool) -> str:
    """A segment's text as an addition to the text so far."""
    text = segment.text.strip()
    # Languages that are written without spaces have none before their words either.
    spaced = not segment.words or segment.words[0].text.startswith(" ")
    return f" {text}" if text and spaced and not first else text


def usage(duration: float) -> dict[str, Any]:
    """What was used: the seconds of audio."""
    return {"type": "duration", "seconds": round(duration, 3)}


def json_body(segments: Sequence[Segment], duration: float, *, logprobs: bool) -> dict[str, Any]:
    """response_format json."""
    languages = dict.fromkeys(segment.language for segment in segments if segment.language)
    body: dict[str, Any] = {
        "text": plain_text(segments),
        "languages": [{"code": code} for code in languages],
        "usage": usage(duration),
    }
    if logprobs:
        body["logprobs"] = [entry for segment in segments for entry in token_logprobs(segment)]
    return body


def verbose_body(segments: Sequence[Segment], duration: float, granularities: frozenset[str]) -> dict[str, Any]:
    """response_format verbose_json; `granularities` holds "segment", "word" or both."""
    body: dict[str, Any] = {
        "task": "transcribe",
        "language": language_name(segments[0].language) if segments else "",
        "duration": round(duration, 3),
        "text": plain_text(segments),
        "usage": usage(duration),
    }
    if "segment" in granularities:
        body["segments"] = [_segment(segment) for segment in segments]
    if "word" in granularities:
        body["words"] = [
            {"word": word.text.strip(), "start": round(word.start, 3), "end": round(word.end, 3)}
            for segment in segments
            for word in segment.words
        ]
    return body


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "id": segment.id,
        "seek": round(segment.start * FRAMES_PER_SECOND),
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "text": delta(segment, first=False),  # Whisper's own texts begin with the space too
        "tokens": list(segment.token_ids),
        "temperature": segment.temperature,
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech,
    }


def token_logprobs(segment: Segment) -> list[dict[str, Any]]:
    """OpenAI's logprobs entries of a segment."""
    return [{"token": token.text, "bytes": list(token.bytes), "logprob": token.logprob} for token in segment.tokens]
