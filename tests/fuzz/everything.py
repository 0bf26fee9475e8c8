"""All targets, by name."""

from __future__ import annotations

from tests.fuzz import asked, messages, records, seen, sounds, texts
from tests.fuzz.target import TARGETS, Target

ROOMS = (messages, asked, sounds, texts, records, seen)


def targets() -> dict[str, Target]:
    """In the order in which they are written."""
    assert ROOMS
    return dict(TARGETS.known)
