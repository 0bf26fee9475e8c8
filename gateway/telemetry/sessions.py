"""What one live session comes to: kept while it lasts, for the line of the log that tells its end.

The session that something is done for is found in the context, so that whoever counts need not be told.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from workers.labels import label, unlabel

log = logging.getLogger("speechlane")


class SessionRecord:
    """The account of a session. Times in seconds."""

    def __init__(self, id: str, number: int, key: str, protocol: str) -> None:
        self.id, self.number, self.key, self.protocol = id, number, key, protocol
        self.audio = 0.0
        """Received."""
        self.sound = 0.0
        """Of speech, sent."""
        self.utterances: Counter[str] = Counter()
        """Ended, by outcome."""
        self.slowest = 0.0
        """The longest time from the end of an utterance to its final."""
        self.reason = "the service has ended it"
        self.code = "normal"
        self._begun = time.monotonic()

    def ends(self, code: str, reason: str, *, left: bool) -> None:
        """Why its connection ends; the last one counts, for a session may outlive connections."""
        if left:
            self.code, self.reason = "left", "the client has closed the connection"
        else:
            self.code, self.reason = code, reason or "done"

    @property
    def totals(self) -> dict[str, Any]:
        """What is told at the end."""
        return {
            "protocol": self.protocol,
            "code": self.code,
            "seconds": round(time.monotonic() - self._begun, 3),
            "audio_seconds": round(self.audio, 3),
            "sound_seconds": round(self.sound, 3),
            "utterances": self.utterances.total(),
            "failed_utterances": self.utterances["failed"],
            "slowest_final_seconds": round(self.slowest, 3),
        }


SESSION: ContextVar[SessionRecord | None] = ContextVar("session", default=None)
"""Whose work this is; None outside live sessions."""


@contextmanager
def session_record(record: SessionRecord, live: int) -> Iterator[SessionRecord]:
    """Log the beginning and the end of a session, with `live` of them at its beginning.

    It may be left in another context than it was entered in.
    """
    SESSION.set(record)
    label(session=record.id, key=record.key)
    log.info(
        "session %d of %s begins; %d are live", record.number, record.key, live, extra={"protocol": record.protocol}
    )
    try:
        yield record
    finally:
        log.info("session %d of %s ends: %s", record.number, record.key, record.reason, extra=record.totals)
        if SESSION.get() is record:
            SESSION.set(None)
            unlabel("session")
