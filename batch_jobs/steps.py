"""What a job's work is called in queue and spool: for those who only look at jobs, and load no model for it."""

from __future__ import annotations

import json
from collections.abc import Mapping

SPLIT, STITCH, WRITE = "split", "stitch", "write"
"""Ids of the tasks that a job has one of."""


def transcript_name(job: str) -> str:
    """Where in the spool a job's transcript is."""
    return f"jobs/{job}/transcript"


def dead_reason(result: str) -> str | None:
    """The reason, of a task that was given up."""
    if not result.startswith('{"dead"'):
        return None
    found: Mapping[str, str] = json.loads(result)
    return found["dead"]
