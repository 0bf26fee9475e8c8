"""Watching a stream of speech: its events go through here on their way to a protocol, and are counted and traced."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from gateway.metrics import Metrics
from gateway.telemetry.place import PLACE
from gateway.telemetry.sessions import SESSION
from gateway.telemetry.times import ended
from speech.speaking.events import SoundMade, SpeechDone, SpeechEvent, SpeechFailed
from workers.task import Work

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from gateway.telemetry.traces import Traces

log = logging.getLogger("speechlane.speeches")

MOST_WORKS = 256
"""Of one segment; later windows of a longer one have no spans."""


async def spoken(events: AsyncIterator[SpeechEvent], rate: int, metrics: Metrics) -> AsyncIterator[SpeechEvent]:
    """The same events, of sound at `rate` (Hz)."""
    watch = _Watch(metrics, rate)
    try:
        async for event in events:
            try:
                yield event
            finally:
                watch.handled(event)
    finally:
        watch.over()


class _Watch:
    """One speech."""

    def __init__(self, metrics: Metrics, rate: int) -> None:
        self._metrics, self._rate = metrics, rate
        self._begun = time.monotonic()
        self._samples = 0
        self._segment = -1
        self._segments = 0
        self._works: list[Work] = []
        self._first = 0.0
        self._outcome: str = "cancelled"
        self._error: str | None = None
        self._root: Span | None = None

    def handled(self, event: SpeechEvent) -> None:
        """The protocol has dealt with an event."""
        match event:
            case SoundMade(start, samples, segment, works):
                for work in ended(works):
                    self._metrics.speech_task(work.kind, work.timing.ended_at - work.timing.queued_at)
                if segment != self._segment:
                    self._close_segment()
                    self._segment, self._first, self._segments = segment, time.monotonic(), self._segments + 1
                self._samples = start + len(samples)
                self._works += works[: MOST_WORKS - len(self._works)]
            case SpeechDone():
                self._outcome = "done"
            case SpeechFailed(error):
                self._outcome, self._error = "failed", error.code
            case _:
                pass

    def over(self) -> None:
        """Nothing more comes, or nobody takes it."""
        self._close_segment()
        seconds = round(self._samples / self._rate, 3)
        log.debug("speech %s", self._outcome, extra={"sound_seconds": seconds, "segments": self._segments})
        if self._metrics.traces is not None:
            from gateway.telemetry.traces import finish, unix

            root = self._root or self._open(self._metrics.traces, self._begun)
            root.set_attributes(
                {"speechlane.sound_seconds": seconds, "speechlane.segments": self._segments,
                 "speechlane.outcome": self._outcome}
            )  # fmt: skip
            finish(root, unix(time.monotonic()), self._error)

    def _open(self, traces: Traces, begun: float) -> Span:
        session, place = SESSION.get(), PLACE.get()
        attributes = {
            "speechlane.session": session.id if session is not None else None,
            "speechlane.key": session.key if session is not None else None,
            "speechlane.protocol": session.protocol if session is not None else None,
        }
        return traces.root("speech", begun, place.parent if place else None, place.span if place else None, attributes)

    def _close_segment(self) -> None:
        """All of a segment's sound has been handed on: tell where its time went."""
        works, self._works = ended(self._works), []
        traces = self._metrics.traces
        if not works or traces is None:
            return
        start = min(work.timing.queued_at for work in works)
        end = max(self._first, *(work.timing.ended_at for work in works))
        if self._root is None:  # the first words may have been planned before anybody read what they became
            self._root = self._open(traces, min(self._begun, start))
        windows = sum(work.kind == "window" for work in works)
        about = {"speechlane.segment": self._segment, "speechlane.windows": windows}
        segment = traces.child(self._root, "segment", start, end, about)
        traces.works(segment, works)
        traces.child(segment, "first_sound", start, self._first)
