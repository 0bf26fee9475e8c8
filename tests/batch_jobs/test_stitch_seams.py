"""Where chunks meet in speech: no word is lost or doubled, and what was said twice stays twice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_jobs.stitch import stitch
from batch_jobs.transcript import Chunk, ChunkResult, Run, Segment
from speech.events import Word

RATE = 16_000
Heard = tuple[str, float, float, float]


def chunk(name: str, start: float, end: float) -> Chunk:
    return Chunk(name, 0, (Run(round(start * RATE), round(end * RATE), ()),), ())


def result(said: Sequence[Heard]) -> ChunkResult:
    words = tuple(Word(f" {text}", start, end, sure) for text, start, end, sure in said)
    if not words:
        return ChunkResult(())
    text = "".join(word.text for word in words).strip()
    return ChunkResult((Segment(words[0].start, words[-1].end, text, words),))


def text(left: Sequence[Heard], right: Sequence[Heard], cut: float, overlap: float = 0.0) -> str:
    chunks = [chunk("a", 0.0, cut + overlap / 2), chunk("b", cut - overlap / 2, cut + 20)]
    found = stitch(chunks, {"a": result(left), "b": result(right)})
    words = [word for segment in found for word in segment.words]
    assert all(before.end <= after.start for before, after in pairwise(words))
    assert " ".join(segment.text for segment in found) == "".join(word.text for word in words).strip()
    return "".join(word.text for word in words).strip()


# What tiny.en heard on both sides of cuts in the middle of a word (jfk.flac, austen-0870.wav, austen-0920.wav).
HALVED = [
    (
        [("for", 7.02, 7.12, 0.92), ("you.", 7.12, 7.12, 0.68)],
        [("You", 7.14, 7.86, 0.41), ("ask", 7.86, 8.66, 0.86)],
        "for you ask",
    ),
    (
        [("what", 8.68, 8.78, 0.6), ("you", 8.78, 8.78, 0.24)],
        [("you", 8.8, 9.22, 0.35), ("can", 9.22, 9.46, 0.96)],
        "what you can",
    ),
    (
        [("might", 4.62, 4.76, 0.89), ("be.", 4.76, 4.76, 0.59)],
        [("be", 4.79, 5.11, 0.94), ("prudently", 5.11, 5.49, 0.83)],
        "might be prudently",
    ),
    (
        [("might", 2.84, 3.08, 1.0), ("have...", 3.08, 3.18, 0.63)],
        [("have", 3.2, 3.4, 0.14), ("been", 3.4, 3.52, 0.95)],
        "might have been",
    ),
]


@pytest.mark.parametrize(("left", "right", "said"), HALVED)
def test_a_word_on_the_cut_is_there_once(left: list[Heard], right: list[Heard], said: str) -> None:
    assert text(left, right, right[0][1]) == said


def test_several_words_that_the_model_added_at_the_end_are_there_once() -> None:
    left = [("if", 4.0, 4.4, 0.9), ("you", 4.5, 4.5, 0.5), ("want", 4.5, 4.5, 0.4)]
    right = [("you", 4.5, 4.7, 0.8), ("want", 4.7, 5.0, 0.9), ("to", 5.0, 5.1, 0.9)]
    assert text(left, right, 4.5) == "if you want to"


@pytest.mark.parametrize(
    ("word", "length"), [("no", 0.2), ("ha", 0.2), ("very", 0.3), ("knock", 0.35), ("eight", 0.3), ("you", 0.25)]
)
def test_a_word_that_was_said_on_either_side_of_the_cut_stays_twice(word: str, length: float) -> None:
    left = [("well", 3.0, 3.4, 0.9), (f"{word},", 3.95 - length, 3.95, 0.9)]
    right = [(word, 4.05, 4.05 + length, 0.9), ("indeed", 5.0, 5.4, 0.9)]
    assert text(left, right, 4.0) == f"well {word}, {word} indeed"


def test_a_repetition_over_silence_between_chunks_stays() -> None:
    left, right = [("thanks.", 3.0, 3.01, 0.5)], [("Thanks.", 4.5, 4.9, 0.4)]
    assert text(left, right, 4.0) == "thanks. Thanks."


def test_a_word_on_the_border_of_an_overlap_is_there_once() -> None:
    """Both chunks heard it; one puts its middle before the border, the other behind, or each on the other's side."""
    for shift in (-0.06, 0.06):
        left = [("a", 4.0, 4.3, 0.9), ("meeting", 4.8 + shift, 5.2 + shift, 0.9), ("of", 5.3, 5.4, 0.9)]
        right = [("meeting", 4.8 - shift, 5.2 - shift, 0.9), ("of", 5.3, 5.4, 0.9), ("minds", 6.0, 6.4, 0.9)]
        assert text(left, right, 5.0, overlap=1.0) == "a meeting of minds"


def test_two_spellings_of_one_sound_are_one_word() -> None:
    left = [("my", 4.0, 4.3, 0.9), ("fella", 4.78, 5.14, 0.4)]
    right = [("fellow", 4.82, 5.22, 0.9), ("Americans", 5.3, 5.9, 0.9)]
    assert text(left, right, 5.0, overlap=1.0) == "my fella Americans"


def test_a_word_cut_at_the_end_of_an_overlap_comes_from_the_chunk_that_heard_it_whole() -> None:
    left = [("ask", 4.6, 4.9, 0.9), ("not", 5.0, 5.2, 0.9), ("wha", 5.3, 5.5, 0.3)]
    right = [("sk", 4.5, 4.9, 0.2), ("not", 5.0, 5.2, 0.9), ("what", 5.3, 5.7, 0.9), ("you", 5.8, 6.0, 0.9)]
    assert text(left, right, 5.0, overlap=1.0) == "ask not what you"


parts = st.lists(st.tuples(st.sampled_from(("no", "yes", "the", "go")), st.floats(0.15, 0.6), st.floats(0.1, 0.5)),
                 min_size=4, max_size=40)  # fmt: skip


@given(parts, st.data())
def test_any_speech_cut_with_overlap_comes_out_as_it_was_said(
    said: list[tuple[str, float, float]], data: st.DataObject
) -> None:
    """Each chunk hears the words that lie whole in its audio, at times that are a little off; repetitions abound."""
    truth, now = [], 0.5
    for word, length, pause in said:
        truth.append((word, now, now + length))
        now += length + pause
    cut = data.draw(st.floats(1.5, max(1.6, now - 1.5)))
    jitter = st.floats(-0.04, 0.04)

    def hear(first: float, last: float) -> list[Heard]:
        off = data.draw(jitter)
        return [(word, start + off, end + off, 0.9) for word, start, end in truth if first <= start and end <= last]

    left, right = hear(0.0, cut + 0.75), hear(cut - 0.75, now + 1.0)
    assert text(left, right, cut, overlap=1.5) == " ".join(word for word, _, _ in truth)


@given(parts, st.data())
def test_any_speech_cut_between_words_comes_out_as_it_was_said(
    said: list[tuple[str, float, float]], data: st.DataObject
) -> None:
    truth, now = [], 0.5
    for word, length, pause in said:
        truth.append((word, now, now + length, 0.9))
        now += length + pause
    number = data.draw(st.integers(1, len(truth) - 1))
    cut = (truth[number - 1][2] + truth[number][1]) / 2
    assert text(truth[:number], truth[number:], cut) == " ".join(word for word, *_ in truth)
