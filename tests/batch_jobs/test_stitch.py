"""Chunks become one transcript: in order, apart, on the file's clock, whatever the model's times were."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from batch_jobs.stitch import dead, stitch
from batch_jobs.transcript import Chunk, ChunkResult, Hole, Run, Segment
from batch_jobs.wire import dump, load
from speech.events import Word

RATE = 16_000
wild = st.one_of(st.floats(-5, 40), st.sampled_from((math.nan, math.inf, -math.inf)))
texts = st.sampled_from(("no", "yes", "the", "well,", "Hm."))


def chunk(number: int, start: float, end: float, channel: int = 0) -> Chunk:
    first, last = round(start * RATE), round(end * RATE)
    return Chunk(f"c{channel}-{number}", channel, (Run(first, last, ()),), ((first, last),))


def heard(*segments: Sequence[Word]) -> ChunkResult:
    """Each row of words as a segment."""
    rows = (
        Segment(words[0].start, words[-1].end, "".join(word.text for word in words).strip(), tuple(words))
        for words in segments
    )
    return ChunkResult(tuple(rows), language="en")


def row(text: str, start: float, each: float = 0.3, pause: float = 0.05) -> list[Word]:
    at = (start + number * (each + pause) for number in range(len(text.split())))
    return [Word(f" {part}", t, t + each, 0.9) for part, t in zip(text.split(), at, strict=True)]


def words(segments: Sequence[Segment]) -> list[Word]:
    return [word for segment in segments for word in segment.words]


def check(segments: Sequence[Segment], end: float) -> None:
    """What holds of every transcript."""
    for channel in {segment.channel for segment in segments}:
        own = [segment for segment in segments if segment.channel == channel]
        assert all(0 <= segment.start <= segment.end <= end for segment in own)
        assert all(before.end <= after.start for before, after in pairwise(own))
        said = words(own)
        assert all(word.start <= word.end for word in said)
        assert all(before.end <= after.start for before, after in pairwise(said))
    assert [s.start for s in segments] == sorted(s.start for s in segments)


def test_chunks_that_meet_in_silence_are_put_behind_each_other_as_they_are() -> None:
    chunks = [chunk(1, 10.0, 20.0), chunk(0, 0.0, 10.0)]
    results = {"c0-0": heard(row("one two", 1.0), row("three", 4.0)), "c0-1": heard(row("four", 12.0))}
    found = stitch(chunks, results)
    assert [segment.text for segment in found] == ["one two", "three", "four"]
    assert [word.start for word in words(found)] == [1.0, 1.35, 4.0, 12.0]
    assert {segment.language for segment in found} == {"en"}
    check(found, 20.0)


def test_channels_are_merged_by_time_with_the_channel_as_speaker() -> None:
    chunks = [chunk(0, 0.0, 10.0), chunk(0, 0.0, 10.0, channel=1)]
    results = {
        "c0-0": heard(row("hello there", 1.0), row("fine", 5.0)),
        "c1-0": heard(row("hi", 1.2), row("how are you", 3.0)),
    }
    found = stitch(chunks, results)
    assert [(segment.channel, segment.text) for segment in found] == [
        (0, "hello there"), (1, "hi"), (1, "how are you"), (0, "fine")
    ]  # fmt: skip
    check(found, 10.0)


def test_a_dead_chunk_is_a_hole_and_the_rest_stands() -> None:
    chunks = [chunk(0, 0.0, 10.0), chunk(1, 10.0, 20.5), chunk(2, 20.5, 30.0)]
    results = {"c0-0": heard(row("before", 1.0)), "c0-2": heard(row("after", 22.0))}
    assert [segment.text for segment in stitch(chunks, results)] == ["before", "after"]
    assert dead(chunks, {"c0-1": "killed its worker 3 times"}) == (Hole(10.0, 20.5, 0, "killed its worker 3 times"),)


def test_a_dead_chunk_of_several_runs_is_a_hole_for_each_and_none_over_the_silence() -> None:
    runs = tuple(Run(first * RATE, last * RATE, ()) for first, last in ((0, 10), (50, 60)))
    between = Chunk("c1-0", 1, (Run(20 * RATE, 30 * RATE, ()),), ())
    found = dead([Chunk("c0-0", 0, runs, ()), between], {"c0-0": "why", "c1-0": "why"})
    assert found == (Hole(0.0, 10.0, 0, "why"), Hole(20.0, 30.0, 1, "why"), Hole(50.0, 60.0, 0, "why"))


def test_silence_gives_nothing() -> None:
    assert stitch([chunk(0, 0.0, 10.0)], {"c0-0": ChunkResult(())}) == ()
    assert stitch([], {}) == ()


def test_a_later_segment_that_starts_too_early_waits_for_the_one_before() -> None:
    found = stitch([chunk(0, 0.0, 20.0)], {"c0-0": heard(row("one hundred nine", 5.0), row("one hundred ten", 4.5))})
    assert [segment.text for segment in found] == ["one hundred nine", "one hundred ten"]
    check(found, 20.0)


def test_one_wrong_time_does_not_move_the_words_around_it() -> None:
    said = row("a b c d e", 1.0)
    late = [*said[:2], Word(" c", 15.0, 15.3, 0.9), *said[3:]]
    found = words(stitch([chunk(0, 0.0, 20.0)], {"c0-0": heard(late)}))
    assert [word.start for word in found[:2] + found[3:]] == [word.start for word in said[:2] + said[3:]]
    assert round(said[1].end, 4) <= found[2].start <= found[2].end <= round(said[3].start, 4)


def test_times_that_are_none_come_from_the_neighbours() -> None:
    said = row("a b c", 1.0)
    broken = [said[0], Word(" b", math.nan, math.nan, math.nan), said[2]]
    found = words(stitch([chunk(0, 0.0, 20.0)], {"c0-0": heard(broken)}))
    assert round(said[0].end, 4) <= found[1].start < found[1].end <= round(said[2].start, 4)


def test_a_segment_without_words_keeps_its_text() -> None:
    result = ChunkResult((Segment(1.0, 4.0, " As it was. ", ()), Segment(3.0, 6.0, "And then.", ())))
    found = stitch([chunk(0, 0.0, 10.0)], {"c0-0": result})
    assert [(s.start, s.end, s.text, s.words) for s in found] == [
        (1.0, 3.0, "As it was.", ()),
        (3.0, 6.0, "And then.", ()),
    ]


def test_no_drift_after_three_hours() -> None:
    """The times are those of the samples, to the last digit, at the end as at the beginning."""
    samples = [(n * 7919 * 13, n * 7919 * 13 + 4001) for n in range(1, 1700)]
    assert samples[-1][1] / RATE > 3 * 3600
    chunks, results = [], {}
    for n, (start, end) in enumerate(samples):
        chunks.append(Chunk(str(n), 0, (Run(start - 100, end + 100, ()),), ()))
        results[str(n)] = heard([Word(" x", start / RATE, end / RATE, 1.0)])
    found = words(stitch(chunks, results))
    assert [(word.start, word.end) for word in found] == [(start / RATE, end / RATE) for start, end in samples]


def test_the_order_of_the_chunks_is_no_matter() -> None:
    chunks = [chunk(n, 5.0 * n, 5.0 * n + 5) for n in range(8)]
    results = {f"c0-{n}": heard(row("some words here", 5.0 * n + 1)) for n in range(8)}
    assert dump(stitch(chunks, results)[0]) == dump(stitch(chunks[::-1], dict(reversed(results.items())))[0])
    assert stitch(chunks, results) == stitch(chunks[::-1], results)


rows = st.lists(st.lists(st.tuples(texts, wild, wild), min_size=1, max_size=6), max_size=5)


@given(st.lists(rows, max_size=4), st.floats(0, 2))
def test_any_times_come_out_in_order_apart_and_inside(
    heard_in: list[list[list[tuple[str, float, float]]]], gap: float
) -> None:
    chunks, results, at = [], {}, 0.0
    for number, segments in enumerate(heard_in):
        chunks.append(chunk(number, at, at + 8.0))
        at += 8.0 + gap
        results[f"c0-{number}"] = heard(*([Word(f" {t}", s, e, 0.9) for t, s, e in said] for said in segments))
    found = stitch(chunks, results)
    check(found, at)
    assert load(Segment, dump(found[0])) == found[0] if found else True
    if gap > 0.2:  # nothing touches, so no word may go
        before = [word.text for result in results.values() for segment in result.segments for word in segment.words]
        assert [word.text for word in words(found)] == before
