"""Where every second of a file went: voice beside words, the container's length beside what was decoded, every hole."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from batch_jobs.transcript import Account, Hole, Segment
from speech.asr import SAMPLE_RATE

MISSED = 1.0
"""Seconds of voice without words that are named; and silence that sets two such stretches apart."""
_LONGEST_WORD = 2.0
"""Seconds of voice that one word accounts for: the model stretches a word over speech that it leaves out."""
_OFF = 1.0
_PART_OFF = 0.01
"""Seconds, and part of the length, that a container may be off: padding, rounded headers, variable bit rates."""
NO_WORDS = "speech without words"

Span = tuple[float, float]


class Report(Protocol):
    """What splitting a file found out. `speech`: spans of voice in samples for each channel."""

    @property
    def container(self) -> float | None: ...
    @property
    def decoded(self) -> float: ...
    @property
    def speech(self) -> Sequence[Sequence[tuple[int, int]]]: ...
    @property
    def holes(self) -> Sequence[Hole]: ...
    @property
    def warnings(self) -> Sequence[str]: ...


def account(report: Report, segments: Sequence[Segment], holes: Sequence[Hole]) -> Account:
    """The account of a file. `holes` are the chunks that died; those of the report are added.

    `words` is the voice less what lies in holes and less the stretches of a second and more without words, which are
    named in `missing` too. Voice in a hole is not named twice.
    """
    lost = sorted({*report.holes, *holes}, key=_order)
    found: list[Hole] = []
    speech = covered = 0.0
    for channel, spans in enumerate(report.speech):
        voice = [(start / SAMPLE_RATE, end / SAMPLE_RATE) for start, end in spans]
        alive = without(voice, [(hole.start, hole.end) for hole in lost if hole.channel == channel])
        silent = unheard(alive, _spans(segments, channel))
        found += [Hole(first, last, channel, NO_WORDS) for first, last, _ in silent]
        speech += sum(end - start for start, end in voice)
        covered += sum(end - start for start, end in alive) - sum(length for _, _, length in silent)
    return Account(
        container=report.container,
        decoded=report.decoded,
        speech=round(speech, 3),
        words=round(max(covered, 0.0), 3),
        missing=tuple(sorted([*lost, *found], key=_order)),
        channels=len(report.speech),
    )


def warnings(report: Report, told: Account) -> tuple[str, ...]:
    """What a person should know of the result, worst first: what is missing, then what the file was like."""
    out: list[str] = []
    by_reason: dict[str, list[Hole]] = {}
    for hole in told.missing:
        by_reason.setdefault(hole.reason, []).append(hole)
    for reason, holes in sorted(by_reason.items(), key=lambda item: item[0] == NO_WORDS):
        seconds = sum(hole.end - hole.start for hole in holes)
        what = "of speech have no words" if reason == NO_WORDS else "have no transcript"
        out.append(f"{seconds:.1f} s {what}, in {_places(holes)}" + ("" if reason == NO_WORDS else f": {reason}"))
    if told.container is not None and abs(told.container - told.decoded) > max(_OFF, _PART_OFF * told.container):
        out.append(f"the file claims to be {told.container:.1f} s long and holds {told.decoded:.1f} s")
    return tuple(dict.fromkeys([*out, *report.warnings]))


def unheard(speech: Sequence[Span], words: Sequence[Span]) -> list[tuple[float, float, float]]:
    """Stretches (start, end, seconds of voice in it) with a second of voice and more, and no word.

    Between two words, pieces of voice belong to one stretch unless a second of silence lies between them.
    """
    starts = [start for start, _ in words]
    found: list[tuple[float, float, float]] = []
    before = -1
    for start, end in without(speech, words):
        gap = bisect_left(starts, end)
        """Which word comes next: pieces on two sides of a word belong to two stretches."""
        if found and gap == before and start - found[-1][1] < MISSED:
            found[-1] = found[-1][0], end, found[-1][2] + end - start
        else:
            found.append((start, end, end - start))
        before = gap
    return [stretch for stretch in found if stretch[2] >= MISSED]


def without(spans: Sequence[Span], taken: Sequence[Span]) -> list[Span]:
    """What is left of `spans` (in order, apart) outside `taken` (any)."""
    left: list[Span] = []
    gone = list(_merged(taken))
    first = 0
    for start, end in spans:
        while first < len(gone) and gone[first][1] <= start:
            first += 1
        at = start
        for n in range(first, len(gone)):
            low, high = gone[n]
            if low >= end:
                break
            if low > at:
                left.append((at, low))
            at = max(at, high)
        if at < end:
            left.append((at, end))
    return left


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    open_: Span | None = None
    for start, end in sorted(spans):
        if open_ is not None and start <= open_[1]:
            open_ = open_[0], max(open_[1], end)
        else:
            if open_ is not None:
                yield open_
            open_ = start, end
    if open_ is not None:
        yield open_


def _spans(segments: Iterable[Segment], channel: int) -> list[Span]:
    """Where a channel has words; a segment without words counts as a whole."""
    out: list[Span] = []
    for segment in segments:
        if segment.channel == channel:
            if segment.words:
                out += ((word.start, min(word.end, word.start + _LONGEST_WORD)) for word in segment.words)
            elif segment.text.strip():
                out.append((segment.start, segment.end))
    return sorted(out)


def _places(holes: Sequence[Hole]) -> str:
    return "1 place" if len(holes) == 1 else f"{len(holes)} places"


def _order(hole: Hole) -> tuple[float, float, int, str]:
    return hole.start, hole.end, hole.channel, hole.reason
