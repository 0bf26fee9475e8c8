"""Where the time of an utterance or a sound went, told from the tasks that were done for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workers.task import Work


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of time, in seconds on the clock of the devices."""

    name: str
    start: float
    end: float


def parts(work: Work) -> Iterator[Part]:
    """A task's time: "queue", then of a text "encode" (steps that lead up to the tokens) and "decode", else "run"."""
    timing = work.timing
    if not timing.started_at:
        yield Part("queue", timing.queued_at, timing.ended_at)
        return
    yield Part("queue", timing.queued_at, timing.started_at)
    begun, text = timing.started_at, work.kind in ("partial", "final")
    if text and timing.opened_at:
        yield Part("encode", begun, timing.opened_at)
        begun = timing.opened_at
    yield Part("decode" if text else "run", begun, max(begun, timing.ended_at))


def ended(works: Iterable[Work]) -> list[Work]:
    """Those whose times are final."""
    return [work for work in works if work.timing.ended_at]


def phases(works: Sequence[Work]) -> dict[str, float]:
    """Seconds of the way to a final by phase: "hear" (voice activity over the end of its audio), and the parts of the
    task that made its text. Of a final that was begun ahead of the utterance's end, some had passed by then."""
    found: dict[str, float] = {}
    for work in ended(works):
        if work.kind == "vad":
            found["hear"] = work.timing.ended_at - work.timing.queued_at
        elif work.kind == "final":
            for part in parts(work):
                found[part.name] = found.get(part.name, 0.0) + part.end - part.start
    return found
