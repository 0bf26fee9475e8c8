"""The whole transcript as a JSON document (strict: no NaN), described in docs/transcript.md.

`VERSION` counts up when a field goes or changes its meaning; fields may be added without.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from batch_jobs.transcript import Account, Hole, Repair, Segment, Suspicion, Transcript
from speech.events import Word

SCHEMA = "speechlane.transcript"
VERSION = 1


def document(transcript: Transcript) -> str:
    """The document as text. Raises TypeError when the settings hold what JSON cannot."""
    body = {
        "schema": SCHEMA,
        "version": VERSION,
        "language": transcript.language,
        "duration": _number(transcript.account.decoded),
        "segments": [{"id": n, **_segment(segment)} for n, segment in enumerate(transcript.segments)],
        "repairs": [_repair(repair) for repair in transcript.repairs],
        "suspicions": [_suspicion(suspicion) for suspicion in transcript.suspicions],
        "account": _account(transcript.account),
        "warnings": list(transcript.warnings),
        "settings": _plain(transcript.settings),
    }
    return json.dumps(body, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "start": _number(segment.start),
        "end": _number(segment.end),
        "channel": segment.channel,
        "text": segment.text.strip(),
        "language": segment.language,
        "avg_logprob": _number(segment.avg_logprob, 4),
        "no_speech": _number(segment.no_speech, 4),
        "compression_ratio": _number(segment.compression_ratio, 4),
        "temperature": _number(segment.temperature),
        "words": [_word(word) for word in segment.words],
    }


def _word(word: Word) -> dict[str, Any]:
    return {
        "text": word.text,
        "start": _number(word.start),
        "end": _number(word.end),
        "confidence": _number(word.confidence, 4),
    }


def _repair(repair: Repair) -> dict[str, Any]:
    return {
        "start": _number(repair.start),
        "end": _number(repair.end),
        "channel": repair.channel,
        "kept": repair.kept,
        "how": repair.how,
        "attempts": repair.attempts,
        "score_before": _number(repair.score_before, 4),
        "score_after": _number(repair.score_after, 4),
        "reasons": [_suspicion(reason) for reason in repair.reasons],
        "before": [_segment(segment) for segment in repair.before],
        "after": [_segment(segment) for segment in repair.after],
    }


def _suspicion(suspicion: Suspicion) -> dict[str, Any]:
    return {
        "rule": suspicion.rule,
        "start": _number(suspicion.start),
        "end": _number(suspicion.end),
        "channel": suspicion.channel,
        "value": _number(suspicion.value, 4),
        "limit": _number(suspicion.limit, 4),
        "detail": suspicion.detail,
    }


def _account(account: Account) -> dict[str, Any]:
    return {
        "container": None if account.container is None else _number(account.container),
        "decoded": _number(account.decoded),
        "speech": _number(account.speech),
        "words": _number(account.words),
        "channels": account.channels,
        "missing": [_hole(hole) for hole in account.missing],
    }


def _hole(hole: Hole) -> dict[str, Any]:
    return {"start": _number(hole.start), "end": _number(hole.end), "channel": hole.channel, "reason": hole.reason}


def _number(value: float, digits: int = 3) -> float | None:
    """Rounded, so that equal results are equal text; None for what is no number. Zero has no sign."""
    return round(float(value), digits) + 0.0 if math.isfinite(value) else None


def _plain(value: object) -> Any:
    """JSON values with sorted keys."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in sorted(value.items(), key=lambda item: str(item[0]))}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"settings hold a {type(value).__name__}, which has no place in JSON")
