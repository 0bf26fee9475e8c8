"""Watching a live stream: its events go through here on their way to a protocol, and are logged, counted and traced."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gateway.metrics import Metrics
from gateway.telemetry.place import PLACE
from gateway.telemetry.sessions import SESSION
from gateway.telemetry.times import ended, phases
from speech.events import Cleared, Committed, Event, Failed, Final, Lagging, SpeechStarted

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from gateway.telemetry.traces import Traces

log = logging.getLogger("speechlane.utterances")

SEND_SECONDS = 30.0
"""Longest wait for a final to leave."""

_leaving: set[asyncio.Task[None]] = set()


def _unnamed(utterance: int) -> str | None:
    return None


async def heard(
    events: AsyncIterator[Event],
    metrics: Metrics,
    *,
    item: Callable[[int], str | None] = _unnamed,
    flushed: Callable[[], Awaitable[None]] | None = None,
    channel: int | None = None,
) -> AsyncIterator[Event]:
    """The same events. An utterance is over for its span when whoever reads has handed its final on and, if given,
    `flushed` has waited until that has left. `item` is an utterance's name on the wire."""
    watch = _Watch(metrics, item, flushed, channel)
    async for event in events:
        name = item(event.utterance) if isinstance(event, Final | Failed) else None
        try:
            yield event
        finally:
            watch.handled(event, name)


class _Watch:
    """One stream."""

    def __init__(
        self,
        metrics: Metrics,
        item: Callable[[int], str | None],
        flushed: Callable[[], Awaitable[None]] | None,
        channel: int | None,
    ) -> None:
        self._metrics, self._item, self._flushed, self._channel = metrics, item, flushed, channel
        self._begun: dict[int, float] = {}
        self._committed: dict[int, Committed] = {}

    def handled(self, event: Event, name: str | None) -> None:
        """The protocol has dealt with an event."""
        match event:
            case SpeechStarted(utterance):
                self._begun[utterance] = time.monotonic()
            case Cleared():
                self._begun.clear()
            case Committed(utterance, start, end, reason):
                self._committed[utterance] = event
                about = {"reason": reason, "start": start, "end": end}
                log.debug("utterance committed", extra=self._ids(utterance, self._item(utterance)) | about)
            case Lagging(seconds):
                self._metrics.lagging()
                log.info("a stream runs behind: its partials are skipped", extra={"seconds": seconds})
            case Final() | Failed():
                self._over(event, name)
            case _:
                pass

    def _over(self, event: Final | Failed, name: str | None) -> None:
        now = time.monotonic()
        begun = self._begun.pop(event.utterance, now)
        committed = self._committed.pop(event.utterance, None)
        ids, spent = self._ids(event.utterance, name), phases(event.works)
        if event.made_at:
            spent["delivery"] = max(0.0, now - event.made_at)
        for phase, seconds in spent.items():
            self._metrics.utterance_phase(phase, seconds)
        if isinstance(event, Failed):
            log.warning("an utterance failed: %s: %s", event.error.code, event.error.message, extra=ids)
        elif log.isEnabledFor(logging.DEBUG):
            told = {f"{phase}_seconds": round(seconds, 4) for phase, seconds in spent.items()}
            said = {"text": event.text} if self._metrics.transcripts else {}
            log.debug("utterance final", extra=ids | _measured(event) | told | said)
        if self._metrics.traces is not None:
            self._trace(self._metrics.traces, event, begun, committed, ids)

    def _trace(
        self, traces: Traces, event: Final | Failed, begun: float, committed: Committed | None, ids: dict[str, Any]
    ) -> None:
        session, place = SESSION.get(), PLACE.get()
        attributes: dict[str, Any] = {
            "speechlane.session": session.id if session is not None else None,
            "speechlane.key": session.key if session is not None else None,
            "speechlane.protocol": session.protocol if session is not None else None,
            **{f"speechlane.{name}": value for name, value in ids.items()},
        }
        if committed is not None:
            attributes["speechlane.commit_reason"] = committed.reason
            attributes["speechlane.audio_seconds"] = round(committed.end - committed.start, 4)
        if isinstance(event, Final):
            attributes |= {f"speechlane.{name}": value for name, value in _measured(event).items()}
        moments = [begun, *(work.timing.queued_at for work in ended(event.works))]
        start = min([*moments, event.made_at] if event.made_at else moments)
        root = traces.root(
            "utterance", start, place.parent if place else None, place.span if place else None, attributes
        )
        traces.works(root, event.works)
        if self._flushed is None:
            _end(traces, root, event, time.monotonic())
        else:
            task = asyncio.get_running_loop().create_task(self._leave(traces, root, event, self._flushed))
            _leaving.add(task)
            task.add_done_callback(_leaving.discard)

    async def _leave(
        self, traces: Traces, root: Span, event: Final | Failed, flushed: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(SEND_SECONDS):
                    await flushed()
        finally:
            _end(traces, root, event, time.monotonic())

    def _ids(self, utterance: int, name: str | None) -> dict[str, Any]:
        ids: dict[str, Any] = {"utterance": utterance}
        if name is not None:
            ids["item"] = name
        if self._channel is not None:
            ids["channel"] = self._channel
        return ids


def _measured(event: Final) -> dict[str, Any]:
    return {
        "lag_seconds": round(event.lag, 4),
        "model_seconds": round(event.model_seconds, 4),
        "speech_seconds": round(event.speech_seconds, 3),
        "words": len(event.words),
        "language": event.language,
    }


def _end(traces: Traces, root: Span, event: Final | Failed, now: float) -> None:
    from gateway.telemetry.traces import finish, unix

    if event.made_at:
        traces.child(root, "delivery", event.made_at, now)
    finish(root, unix(now), event.error.code if isinstance(event, Failed) else None)
