"""A job as a hash: what is stored under each field, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from batch_jobs import wire
from batch_jobs.job import Job, JobOptions, State

TIMING = "timings."
"""`timings.asr` is the entry "asr" of a job's timings, so that workers can add to it."""
PRECISION = "precisions."
"""In the same way, so that the first of several workers sets it."""
_FLOATS = frozenset({"created", "started", "ended", "decoded", "expected", "speech", "silent", "covered"})
_COUNTS = frozenset({"channels", "chunks", "chunks_done", "chunks_failed", "repairs", "repairs_done"})
_NUMBERS = _FLOATS | _COUNTS
_FIELDS = frozenset(field.name for field in fields(Job)) - {"id", "timings", "precisions"}


def encode(values: Mapping[str, Any]) -> dict[str, str | None]:
    """Fields of a job as text; None removes a field. Raises ValueError on what is no field or no finite number."""
    return {name: _encode(name, value) for name, value in values.items()}


def encode_increments(values: Mapping[str, float]) -> dict[str, str]:
    """Amounts to add to numbers of a job. Raises ValueError on what is no number of a job, or not finite."""
    for name in values:
        if name not in _NUMBERS and not name.startswith(TIMING):
            raise ValueError(f"{name} is no number of a job that can be increased")
    return {name: _number(name, value) for name, value in values.items()}


def encode_job(job: Job) -> dict[str, str]:
    """Everything of a job but its id."""
    values = {name: getattr(job, name) for name in _FIELDS}
    values |= {TIMING + name: seconds for name, seconds in job.timings.items()}
    agreed = {PRECISION + what: precision for what, precision in job.precisions.items()}
    return agreed | {name: text for name, text in encode(values).items() if text is not None}


def decode_job(id: str, stored: Mapping[str, str]) -> Job:
    """The job that a hash holds; fields with a leading underscore are the queue's own. Raises ValueError when it holds
    none that can be read here: another version wrote it, or it is damaged."""
    try:
        return _job(id, stored)
    except (TypeError, ValueError, OverflowError) as error:
        # What is wrong may be repeated with words of a prompt, which belong in no log.
        raise ValueError(f"the record of job {id} cannot be read: {type(error).__name__}") from None


def _job(id: str, stored: Mapping[str, str]) -> Job:
    values: dict[str, Any] = {"id": id, "timings": {}, "precisions": {}}
    for name, text in stored.items():
        if name.startswith(TIMING):
            values["timings"][name.removeprefix(TIMING)] = float(text)
        elif name.startswith(PRECISION):
            values["precisions"][name.removeprefix(PRECISION)] = text
        elif name in _FIELDS:
            values[name] = _decode(name, text)
    return Job(**values)


def clean(text: str) -> str:
    """The text without what UTF-8 cannot say (file names may hold it)."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _encode(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if name in _NUMBERS or name.startswith(TIMING):
        return _number(name, value)
    if name not in _FIELDS:
        raise ValueError(f"{name} is no field of a job that can be set")
    if name == "options":
        return wire.dump(value)
    if name == "warnings":
        return json.dumps([clean(text) for text in value], ensure_ascii=False)
    if name == "split":
        return "1" if value else "0"
    return str(State(value)) if name == "state" else clean(str(value))


def _decode(name: str, text: str) -> Any:
    if name in _FLOATS:
        return float(text)
    if name in _COUNTS:
        return int(float(text))
    if name == "options":
        return wire.load(JobOptions, text)
    if name == "warnings":
        return tuple(json.loads(text))
    if name == "split":
        return text == "1"
    return State(text) if name == "state" else text


def _number(name: str, value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{name} has to be a finite number, not {value}")
    return repr(value)
