"""What was heard in each chunk as one transcript: in order of time, no overlap, no word cut or doubled at a border.

Everything is counted in samples and becomes seconds by one division at the end, so times do not drift however long the
file is. Each channel is stitched by itself; then all are merged by time.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from batch_jobs.fitting import fit
from batch_jobs.seams import Placed, joined
from batch_jobs.transcript import Chunk, ChunkResult, Hole, Segment
from speech.asr import SAMPLE_RATE
from speech.events import Word

_WORD = 3 * SAMPLE_RATE // 10
"""Samples that a word gets at most, whose own times cannot be."""


def stitch(chunks: Sequence[Chunk], results: Mapping[str, ChunkResult]) -> tuple[Segment, ...]:
    """All segments by time; those of one channel lie in the file, in order, and do not overlap.

    `results` by chunk id; a chunk without one is a hole (see `dead`). Where the audio of two chunks touches or
    overlaps, each word belongs to the chunk in whose half its middle lies; a word that both heard is kept once, one
    that was said twice stays twice. Word times that run against the text get times between those of their neighbours,
    and all are fitted to the voice that the chunks tell of.
    """
    merged: list[Segment] = []
    for channel in sorted({chunk.channel for chunk in chunks}):
        own = sorted((chunk for chunk in chunks if chunk.channel == channel), key=lambda c: (c.start, c.end, c.id))
        merged += _channel([(chunk, results[chunk.id]) for chunk in own if chunk.id in results])
    merged.sort(key=lambda segment: (segment.start, segment.end, segment.channel))
    return tuple(merged)


def dead(chunks: Sequence[Chunk], reasons: Mapping[str, str]) -> tuple[Hole, ...]:
    """Holes for each chunk that has a reason (by chunk id) why it could not be transcribed, in order of time.

    One for each of its runs: the silence between them, which may last an hour, is not lost.
    """
    lost = [
        Hole(run.start / SAMPLE_RATE, run.end / SAMPLE_RATE, chunk.channel, reasons[chunk.id])
        for chunk in chunks
        if chunk.id in reasons
        for run in chunk.runs
    ]
    return tuple(sorted(lost, key=lambda hole: (hole.start, hole.end, hole.channel)))


def _channel(heard: Sequence[tuple[Chunk, ChunkResult]]) -> list[Segment]:
    sources: list[Segment] = []
    said: list[Placed] = []
    newest: list[Placed] = []
    before: Chunk | None = None
    for chunk, result in heard:
        words = _placed(chunk, result, len(sources))
        sources += (
            replace(segment, channel=chunk.channel, language=segment.language or result.language)
            for segment in result.segments
        )
        if before is not None:
            newest, words = joined(newest, words, before, chunk)
        said += newest
        newest, before = words, chunk
    by_source: dict[int, list[Placed]] = {}
    voice = (span for chunk, _ in heard for span in chunk.speech)
    for word in fit(_apart([*said, *newest]), voice):
        by_source.setdefault(word.source, []).append(word)
    return [_segment(sources[number], words) for number, words in by_source.items()]


def _placed(chunk: Chunk, result: ChunkResult, number: int) -> list[Placed]:
    """The words of a chunk, in the order of its text, each within the chunk; its segments count from `number` on.

    A segment without words counts as one word.
    """
    words = [(source, word) for source, segment in enumerate(result.segments, number) for word in _words(segment)]
    starts = [round(word.start * SAMPLE_RATE) if math.isfinite(word.start) else None for _, word in words]
    trusted = _in_order(starts)
    out: list[Placed] = []
    at = chunk.start
    for index, ((source, word), start) in enumerate(zip(words, starts, strict=True)):
        if start is not None and index in trusted:
            end = round(word.end * SAMPLE_RATE) if math.isfinite(word.end) else start
        else:
            # A share of the time up to the next word whose own times can be.
            after = next((later for later in range(index, len(words)) if later in trusted), len(words))
            limit = starts[after] if after < len(words) else None
            share = max((chunk.end if limit is None else limit) - at, 0) // (after - index)
            start, end = at, at + min(share, _WORD)
        start = min(max(start, chunk.start), chunk.end)
        end = min(max(end, start), chunk.end)
        out.append(Placed(source, word, start, end))
        at = end
    return out


def _words(segment: Segment) -> list[Word]:
    if words := [word for word in segment.words if word.text.strip()]:
        return words
    return [Word(segment.text, segment.start, segment.end, 1.0)] if segment.text.strip() else []


def _in_order(starts: Sequence[int | None]) -> set[int]:
    """The most words whose starts do not run against the text: the others have wrong times."""
    lasts: list[int] = []
    """The last word of the best row of each length; `ends` are their starts."""
    ends: list[int] = []
    earlier: dict[int, int] = {}
    for number, start in enumerate(starts):
        if start is not None:
            length = bisect_right(ends, start)
            earlier[number] = lasts[length - 1] if length else -1
            lasts[length : length + 1] = [number]
            ends[length : length + 1] = [start]
    found: set[int] = set()
    number = lasts[-1] if lasts else -1
    while number >= 0:
        found.add(number)
        number = earlier[number]
    return found


def _apart(words: Sequence[Placed]) -> list[Placed]:
    """Each word ends where the next begins at the latest, and none begins before the one before it."""
    out: list[Placed] = []
    for word in words:
        if out:
            before = out[-1]
            start = max(word.start, before.start)
            word = replace(word, start=start, end=max(word.end, start))
            out[-1] = replace(before, end=min(before.end, start))
        out.append(word)
    return out


def _segment(source: Segment, said: Sequence[Placed]) -> Segment:
    """`source` with the words that are left of it, on the file's clock."""
    words = tuple(replace(one.word, start=one.start / SAMPLE_RATE, end=one.end / SAMPLE_RATE) for one in said)
    whole = [word.text for word in words] == [word.text for word in source.words if word.text.strip()]
    return replace(
        source,
        start=words[0].start,
        end=words[-1].end,
        text=source.text.strip() if whole or not source.words else "".join(word.text for word in words).strip(),
        words=words if source.words else (),
    )


def _sample(seconds: float) -> int | None:
    return round(seconds * SAMPLE_RATE) if math.isfinite(seconds) else None
