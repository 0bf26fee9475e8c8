"""Every second of a file is somewhere: under a word, in a pause, or named as missing."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_jobs.account import NO_WORDS, account, unheard, warnings, without
from batch_jobs.transcript import Hole, Segment
from speech.events import Word

RATE = 16_000


@dataclass(frozen=True)
class Report:
    speech: tuple[tuple[tuple[int, int], ...], ...]
    container: float | None = None
    decoded: float = 60.0
    holes: tuple[Hole, ...] = ()
    warnings: tuple[str, ...] = ()


def report(*spans: tuple[float, float], **more: object) -> Report:
    return Report((tuple((round(s * RATE), round(e * RATE)) for s, e in spans),), **more)  # type: ignore[arg-type]


def said(*spans: tuple[float, float], channel: int = 0) -> Segment:
    words = tuple(Word(" word", start, end, 0.9) for start, end in spans)
    return Segment(spans[0][0], spans[-1][1], "word " * len(spans), words, channel)


def test_pauses_of_under_a_second_beside_words_are_theirs() -> None:
    told = account(report((1.0, 5.0)), [said((1.5, 2.0), (2.9, 3.5), (3.6, 4.2))], ())
    assert (told.speech, told.words, told.missing) == (4.0, 4.0, ())
    assert warnings(report((1.0, 5.0)), told) == ()


def test_speech_after_the_last_word_is_named() -> None:
    """A decoder that stops early leaves a tail without words."""
    told = account(report((0.0, 29.4)), [said(*((n * 0.9, n * 0.9 + 0.8) for n in range(24)))], ())
    assert told.missing == (Hole(21.5, 29.4, 0, NO_WORDS),)
    assert told.words == pytest.approx(29.4 - 7.9)
    assert warnings(report((0.0, 29.4)), told) == ("7.9 s of speech have no words, in 1 place",)


def test_one_word_does_not_account_for_ten_seconds_of_speech() -> None:
    told = account(report((0.0, 12.0)), [said((0.0, 12.0))], ())
    assert told.missing == (Hole(2.0, 12.0, 0, NO_WORDS),)


def test_pieces_of_speech_with_short_silences_are_one_stretch_and_clicks_far_apart_are_none() -> None:
    told = account(report((10.0, 10.6), (10.9, 11.5), (20.0, 20.6), (30.0, 30.6)), [], ())
    assert told.missing == (Hole(10.0, 11.5, 0, NO_WORDS),)
    assert (told.speech, told.words) == (2.4, 1.2)


def test_a_dead_chunk_is_named_once() -> None:
    dead = Hole(5.0, 30.0, 0, "killed its worker 3 times")
    told = account(report((0.0, 29.0)), [said(*((n * 0.5, n * 0.5 + 0.5) for n in range(10)))], [dead])
    assert told.missing == (dead,)
    assert (told.speech, told.words) == (29.0, 5.0)
    assert warnings(report((0.0, 29.0)), told) == ("25.0 s have no transcript, in 1 place: killed its worker 3 times",)


def test_channels_are_counted_by_themselves() -> None:
    both = Report((((0, 2 * RATE),), ((0, 3 * RATE),)))
    told = account(both, [said((0.0, 2.0), channel=0)], ())
    assert (told.channels, told.speech, told.words) == (2, 5.0, 2.0)
    assert told.missing == (Hole(0.0, 3.0, 1, NO_WORDS),)


def test_a_file_that_ends_before_the_length_it_claims() -> None:
    end = Hole(232.0, 2532.0, 0, "the file ends before the length that it claims")
    cut = report(container=2532.0, decoded=232.0, holes=(end,))
    told = account(cut, [], ())
    assert told.missing == (end,)
    assert warnings(cut, told) == (
        "2300.0 s have no transcript, in 1 place: the file ends before the length that it claims",
        "the file claims to be 2532.0 s long and holds 232.0 s",
    )


@pytest.mark.parametrize(("container", "decoded"), [(60.0, 59.5), (3600.0, 3570.0), (None, 12.0), (59.9, 60.0)])
def test_a_header_that_is_a_little_off_is_no_hole(container: float | None, decoded: float) -> None:
    told = account(report(container=container, decoded=decoded), [], ())
    assert told.missing == ()
    assert warnings(report(container=container, decoded=decoded), told) == ()


def test_what_the_report_says_is_passed_on() -> None:
    corrupt = Hole(30.0, 34.0, 0, "the audio is damaged")
    broken = report((0.0, 2.0), holes=(corrupt,), warnings=("channel 2 of 2 is silent; it was left out of the mix",))
    told = account(broken, [said((0.0, 2.0))], ())
    assert told.missing == (corrupt,)
    assert warnings(broken, told) == (
        "4.0 s have no transcript, in 1 place: the audio is damaged",
        "channel 2 of 2 is silent; it was left out of the mix",
    )


points = st.lists(st.integers(0, 400), max_size=30).map(sorted)


def spans(cuts: list[int]) -> list[tuple[float, float]]:
    """In order and apart, on a grid of a quarter of a second, so that sums are exact."""
    return [(a / 4, b / 4) for a, b in zip(cuts[::2], cuts[1::2], strict=False) if a < b]


@given(points, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 40))))
def test_without_is_what_is_left(cuts: list[int], taken: list[tuple[int, int]]) -> None:
    whole, gone = spans(cuts), [(start / 4, (start + length) / 4) for start, length in taken]
    left = without(whole, gone)
    for tick in range(450):
        at = tick / 4 + 0.125
        inside = any(s <= at < e for s, e in whole) and not any(s <= at < e for s, e in gone)
        assert inside == any(s <= at < e for s, e in left)


@given(points, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 8)), max_size=20))
def test_no_second_of_speech_is_lost_or_counted_twice(cuts: list[int], words: list[tuple[int, int]]) -> None:
    whole = spans(cuts)
    heard = [said((start / 4, (start + length) / 4)) for start, length in sorted(words)]
    told = account(report(*whole), heard, ())
    silent = unheard(whole, sorted((s.words[0].start, s.words[0].end) for s in heard))
    assert told.speech == sum(end - start for start, end in whole)
    assert told.words + sum(length for _, _, length in silent) == told.speech
    assert [(hole.start, hole.end) for hole in told.missing] == [(start, end) for start, end, _ in silent]
    assert all(end - start >= length >= 1.0 for start, end, length in silent)
