"""From suspicions to the spans that are transcribed again: cut where nobody speaks, bounded in effort, worst first."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from batch_jobs.inspect import thresholds as limits
from batch_jobs.inspect.units import words_of
from batch_jobs.inspect.voice import Span, Voice
from batch_jobs.transcript import Segment, Suspicion
from speech.events import Word

_WORST_FIRST = ("loop", "compression", "made-up phrase", "no voice", "rate", "instant words", "language", "unsure",
                "no words")  # fmt: skip
LOOPED = frozenset({"loop", "compression", "rate", "instant words"})
"""Rules that tell of a model that ran in circles."""
"""The order in which a job's budget is given out: what is surely wrong before what may be right."""
_LEAST = 0.3
"""Seconds of the shortest span."""
_RIM = 0.01
_MARGIN = 0.5
"""Seconds of silence beside voice that a span takes along at most."""


@dataclass(frozen=True, slots=True)
class RepairTask:
    """A span [start, end) of a channel (seconds on the file's clock) to be transcribed again.

    `before` are the segments as they stand, cut to the span's words; `speech` the voice in the span. `decodes` is how
    many it may take. `language` is that of the speech around, "" where nobody knows it.
    """

    start: float
    end: float
    channel: int
    reasons: tuple[Suspicion, ...]
    before: tuple[Segment, ...]
    speech: tuple[Span, ...]
    decodes: int
    language: str = ""


def plan(
    suspicions: Sequence[Suspicion],
    segments: Sequence[Segment],
    speech: Mapping[int, Sequence[Span]],
    seconds: float,
) -> list[RepairTask]:
    """The spans to repair, in order, for a file of `seconds`. Spans of one channel do not overlap."""
    spans: list[tuple[float, float, int, tuple[Suspicion, ...]]] = []
    for channel in sorted({s.channel for s in suspicions}):
        voice = Voice(speech.get(channel, ()))
        words = [word for s in segments if s.channel == channel for word in words_of(s)]
        own = [s for s in suspicions if s.channel == channel]
        spans += [(*span, channel, why) for span, why in _spans(own, words, voice, seconds)]
    left = max(limits.BUDGET * seconds, limits.BUDGET_FLOOR)
    out: list[RepairTask] = []
    for start, end, channel, reasons in sorted(spans, key=_severity):
        voice = Voice(speech.get(channel, ()))
        heard = voice.seconds(start, end)
        # Where nobody speaks hardly anything is decoded, however long it is.
        decodes = limits.TRIES if heard < _LEAST else min(limits.TRIES, int(left / (end - start)))
        if decodes < 1:
            continue
        left -= decodes * min(end - start, heard + 1.0)
        said = [s for s in segments if s.channel == channel]
        before = tuple(part for s in said if _touches(s, start, end) and (part := cut(s, start, end)) is not None)
        language = _language(said, start, end)
        speech_in = tuple(voice.within(start, end))
        out.append(RepairTask(start, end, channel, reasons, before, speech_in, decodes, language))
    return sorted(out, key=lambda task: (task.start, task.channel))


def cut(segment: Segment, start: float, end: float) -> Segment | None:
    """The part of a segment whose words have their middle in [start, end); None when there is none."""
    words = words_of(segment)
    kept = tuple(word for word in words if start <= (word.start + word.end) / 2 < end)
    if not kept:
        return None
    if len(kept) == len(words):
        return replace(segment, words=words)
    text = "".join(word.text for word in kept).strip()
    return replace(segment, start=kept[0].start, end=kept[-1].end, text=text, words=kept)


def apply(
    segments: Sequence[Segment], repairs: Iterable[tuple[float, float, int, Sequence[Segment]]]
) -> tuple[Segment, ...]:
    """The segments with the words of each span (start, end, channel, new segments) replaced, by time and channel."""
    out = list(segments)
    for start, end, channel, new in repairs:
        rest: list[Segment] = []
        for segment in out:
            if segment.channel != channel or not _touches(segment, start, end) or cut(segment, start, end) is None:
                rest.append(segment)
                continue
            parts = (cut(segment, float("-inf"), start), cut(segment, end, float("inf")))
            rest += [part for part in parts if part is not None]
        out = [*rest, *new]
    return tuple(sorted(out, key=lambda s: (s.start, s.channel, s.end)))


def _touches(segment: Segment, start: float, end: float) -> bool:
    words = segment.words or (segment,)
    return words[0].start < end and words[-1].end >= start


# Spans


def _spans(
    suspicions: Sequence[Suspicion], words: Sequence[Word], voice: Voice, seconds: float
) -> list[tuple[Span, tuple[Suspicion, ...]]]:
    """Suspicions that touch belong together; each group grows to where it may be cut, and is divided when too long."""
    grown: list[tuple[float, float, list[Suspicion]]] = []
    for s in sorted(suspicions, key=lambda s: s.start):
        start = _edge(max(s.start, 0.0), words, voice, seconds, back=True)
        # Words without length pile up at the end of a piece; they lie within the span, not on its rim.
        end = max(_edge(min(s.end, seconds), words, voice, seconds, back=False), s.end + _RIM)
        if grown and start < grown[-1][1]:
            grown[-1] = (grown[-1][0], max(grown[-1][1], end), [*grown[-1][2], s])
        else:
            grown.append((start, end, [s]))
    out: list[tuple[Span, tuple[Suspicion, ...]]] = []
    for start, end, why in grown:
        looped = any(s.rule in LOOPED for s in why) and voice.seconds(start, end) > 0.0
        for a, b in divided(start, end, words, voice, limits.LOOP_SPAN if looped else limits.SPAN):
            touching = tuple(s for s in why if s.start < b and s.end > a) or tuple(why)
            if b - a >= _LEAST:
                out.append(((a, b), touching))
    return out


def _edge(at: float, words: Sequence[Word], voice: Voice, seconds: float, *, back: bool) -> float:
    """Where a span that reaches to `at` may be cut: the middle of the nearest silence within REACH, else between two
    words, else there."""
    low, high = (max(at - limits.REACH, 0.0), at) if back else (at, min(at + limits.REACH, seconds))
    if not voice.within(low, at) if back else not voice.within(at, high):
        return max(low, at - _MARGIN) if back else min(high, at + _MARGIN)
    # A silence that `at` lies in counts from its own edge, so look a little to the other side as well.
    silences = voice.silences(max(low - limits.QUIET, 0.0), min(high + limits.QUIET, seconds), limits.QUIET)
    if silences:
        a, b = silences[-1] if back else silences[0]
        middle = max((a + b) / 2, b - _MARGIN) if back else min((a + b) / 2, a + _MARGIN)
        return min(middle, at) if back else max(middle, at)
    # The file's own ends cut no word either.
    if low <= 0.0 and back:
        return 0.0
    if high >= seconds and not back:
        return seconds
    near = [(y.start + x.end) / 2 for x, y in pairwise(_near(words, low, high)) if y.start - x.end > 0.02]
    near = [gap for gap in near if low <= gap <= high]
    if near:
        return near[-1] if back else near[0]
    return at


def divided(start: float, end: float, words: Sequence[Word], voice: Voice, most: float) -> list[Span]:
    """The span in parts of at most `most` seconds, cut in the longest silence of the second half of each.

    Without a silence, between the two words that are furthest apart.
    """
    out: list[Span] = []
    while end - start > most:
        low, high = start + most / 2, min(start + most, end - most / 4)
        gaps = [(x.end, y.start) for x, y in pairwise(_near(words, low, high)) if low < x.end < y.start < high]
        places = [s for s in voice.silences(low, high, 0.0) if s[1] > s[0]] or gaps or [(high, high)]
        a, b = max(places, key=lambda s: s[1] - s[0])
        at = (a + b) / 2
        out.append((start, at))
        start = at
    return [*out, (start, end)]


def _near(words: Sequence[Word], low: float, high: float) -> Sequence[Word]:
    """The words of [low, high] and some beside them, of words in order."""
    first, last = (bisect_left(words, at, key=lambda word: word.start) for at in (low, high))
    return words[max(first - 2, 0) : last + 2]


def _severity(span: tuple[float, float, int, tuple[Suspicion, ...]]) -> tuple[int, float, int]:
    start, _, channel, reasons = span
    return min(_WORST_FIRST.index(s.rule) for s in reasons), start, channel


def _language(segments: Sequence[Segment], start: float, end: float) -> str:
    """The language of most of the speech outside the span, else of the span."""
    spoken: dict[str, float] = {}
    for segment in segments:
        outside = segment.end <= start or segment.start >= end
        spoken[segment.language] = spoken.get(segment.language, 0.0) + (1.0 if outside else 1e-3) * max(
            segment.end - segment.start, 0.01
        )
    return max(spoken, key=lambda language: spoken[language]) if spoken else ""
