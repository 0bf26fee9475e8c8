"""Text in pieces becomes segments: where they end, that nothing is lost, and that pieces make no difference."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from speech.text import TextSegment, TextSegmenter, normalise
from workers.errors import InputInvalid

PARTS = (
    *("Dr. ", "Smith ", "$29.", "95 ", "no. ", "No. ", "5 ", "U.S. ", "He ", "The ", "p.m. ", "e.g. ", "J. ", "R. "),
    *(
        "word ",
        "Word",
        ". ",
        "! ",
        "? ",
        ", ",
        "; ",
        "... ",
        "…",
        '."',
        '" ',
        "\n",
        "\n\n",
        "- ",
        "1. ",
        "# ",
        "```\n",
        "```",
    ),
    *(
        "https://a.b/c?d. ",
        "1.2.3",
        "192.168.0.1 ",
        "你好",
        "。",
        "，",
        " ",
        "          ",
        "x" * 30,
        "3:30 ",
        "etc. ",
        "(a.) ",
    ),
)
texts = st.lists(st.sampled_from(PARTS) | st.text(max_size=4), max_size=40).map("".join)
splits = st.sampled_from(("sentence", "clause", "none"))


def cut(text: str, pieces: Iterable[int] | None = None, **options: Any) -> list[TextSegment]:
    """All segments of a text that comes in pieces of these sizes (one by one if nothing is said), then a flush."""
    segmenter = TextSegmenter(**options)
    sizes = iter(pieces or ())
    segments, at = [], 0
    while at < len(text):
        size = max(1, next(sizes, 1))
        segments += segmenter.feed(text[at : at + size])
        at += size
    return segments + segmenter.flush()


def sentences(text: str, **options: Any) -> list[str]:
    return [one.text.strip() for one in cut(text, **options)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two.", ["One.", "Two."]),
        ("It is $29.95. Fine.", ["It is $29.95.", "Fine."]),
        ("Dr. Smith came. He sat.", ["Dr. Smith came.", "He sat."]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ('"Really?" he asked.', ['"Really?" he asked.']),
        ("The answer is no. I know.", ["The answer is no.", "I know."]),
        ("See no. 5. It is good.", ["See no. 5.", "It is good."]),
        ("The U.S. Army won.", ["The U.S. Army won."]),
        ("I live in the U.S. The end.", ["I live in the U.S.", "The end."]),
        ("At 5 p.m. we go. At 6 p.m. The end.", ["At 5 p.m. we go.", "At 6 p.m.", "The end."]),
        ("J. R. R. Tolkien wrote. Yes.", ["J. R. R. Tolkien wrote.", "Yes."]),
        ("It was I. Then we ate.", ["It was I.", "Then we ate."]),
        ("Use v1.2.3. Or 192.168.0.1. Go.", ["Use v1.2.3.", "Or 192.168.0.1.", "Go."]),
        ("See https://a.b/c.d?e=f. Now.", ["See https://a.b/c.d?e=f.", "Now."]),
        ("Mail a@b.co. Now.", ["Mail a@b.co.", "Now."]),
        ("Well... maybe. Sure… yes.", ["Well... maybe.", "Sure… yes."]),
        ("Wait... What?", ["Wait...", "What?"]),
        ("What?! No!", ["What?!", "No!"]),
        ("e.g. this. i.e. that.", ["e.g. this.", "i.e. that."]),
        ("Cats etc. are here. Dogs etc. The end.", ["Cats etc. are here.", "Dogs etc.", "The end."]),
        ("hello there. how are you", ["hello there.", "how are you"]),
        ("你好。再见！", ["你好。", "再见！"]),
        ("One\n\nTwo", ["One", "Two"]),
        ("# Title\nText here", ["# Title", "Text here"]),
        ("List:\n- one\n- two\nend", ["List:", "- one", "- two", "end"]),
        ("1. First\n2. Second", ["1. First", "2. Second"]),
        ("soft\nbreak here", ["soft\nbreak here"]),
        ("(One.) Two.", ["(One.)", "Two."]),
        ("**Bold.** Then.", ["**Bold.**", "Then."]),
        ("Apple Inc. is big. Google Inc. He left.", ["Apple Inc. is big.", "Google Inc.", "He left."]),
        ("Jan. 5 was cold. OK.", ["Jan. 5 was cold.", "OK."]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected
    assert sentences(text, pieces=[10_000]) == expected


def test_a_point_waits_for_what_comes_after_it() -> None:
    segmenter = TextSegmenter()
    assert segmenter.feed("It costs $29.") == []
    assert segmenter.feed("95 today. ") == []
    (sentence,) = segmenter.feed("T")
    assert sentence == TextSegment("It costs $29.95 today. ", 0, 23)
    assert segmenter.pending == 1


def test_the_first_segment_may_end_at_a_clause() -> None:
    text = "When the rain had stopped, we went outside, and then we walked home. After that, we slept all day, and on."
    assert sentences(text) == [
        "When the rain had stopped,",
        "we went outside, and then we walked home.",
        "After that, we slept all day, and on.",
    ]
    assert sentences("Well, no, it is, I think.") == ["Well, no, it is, I think."], "too short for one"


def test_clauses_where_the_client_asks_for_them() -> None:
    text = "When the rain had stopped, we all went outside at once, and then we walked home."
    assert sentences(text, split="clause") == [
        "When the rain had stopped,",
        "we all went outside at once,",
        "and then we walked home.",
    ]


def test_without_a_split_only_the_cap_and_a_flush_cut() -> None:
    text = "One. Two. Three."
    assert sentences(text, split="none") == [text]
    assert all(len(one.text) <= 50 for one in cut("word. " * 100, split="none", max_characters=50))


def test_the_cap_cuts_between_words_and_then_anywhere() -> None:
    words = cut("word " * 50, max_characters=42)
    assert {one.text.strip()[-4:] for one in words} == {"word"}
    assert [len(one.text) for one in cut("x" * 100, max_characters=40)] == [40, 40, 20]
    clauses = cut("some words here and there, then more words that go on and on without an end", max_characters=40)
    assert clauses[0].text == "some words here and there, "


def test_a_block_of_code_is_not_cut_at_sentences_and_says_where_it_goes_on() -> None:
    text = "Look:\n```python\nprint('One. Two.')\nx = 1. \n```\nDone. Bye."
    assert [one.text for one in cut(text)] == [
        "Look:\n",
        "```python\nprint('One. Two.')\nx = 1. \n```\n",
        "Done. ",
        "Bye.",
    ]
    long = "```\n" + "x = 1\n" * 30 + "```\nDone."
    segments = cut(long, max_characters=60)
    assert [one.code for one in segments] == [False] + [True] * (len(segments) - 2) + [False]
    said = [token.text for one in segments for token in normalise(one.text, code=one.code)]
    assert said == ["Done", "."]


@settings(max_examples=400, deadline=None)
@given(texts, splits, st.integers(20, 90), st.lists(st.integers(1, 30), max_size=60))
@example("Hello." + " " * 200 + "World.", "sentence", 20, [])
@example("a\n" + "\n" * 90 + "b", "sentence", 20, [50])
def test_pieces_make_no_difference_and_nothing_is_lost(text: str, split: str, cap: int, pieces: list[int]) -> None:
    segments = cut(text, pieces, split=split, max_characters=cap)
    assert segments == cut(text, [len(text)], split=split, max_characters=cap)
    assert "".join(one.text for one in segments) == text
    at = 0
    for one in segments:
        assert (one.start, one.end) == (at, at + len(one.text))
        assert 0 < len(one.text) <= cap
        at = one.end
    assert not any(one.last for one in segments[:-1])


@settings(max_examples=200, deadline=None)
@given(texts, splits, st.integers(20, 90), st.lists(st.tuples(st.integers(1, 30), st.sampled_from("fes")), max_size=40))
def test_nothing_is_lost_with_stalls_and_flushes(text: str, split: str, cap: int, steps: list[tuple[int, str]]) -> None:
    segmenter = TextSegmenter(split=split, max_characters=cap)  # type: ignore[arg-type]
    segments, at = [], 0
    for size, step in steps:
        segments += segmenter.feed(text[at : at + size])
        at += size
        assert segmenter.pending <= cap + 64
        if step == "f":
            segments += segmenter.flush()
            assert segmenter.pending == 0
        elif step == "s" and (early := segmenter.early()) is not None:
            assert early.text.strip()
            segments.append(early)
    segments += segmenter.feed(text[at:]) + segmenter.flush()
    assert "".join(one.text for one in segments) == text
    assert [one.start for one in segments[1:]] == [one.end for one in segments[:-1]]


@pytest.mark.parametrize(
    ("pending", "early"),
    [
        ("Hello there wor", "Hello there "),
        ("Hello there ", "Hello there "),
        ("Hello there.", "Hello there."),
        ("Is it?", "Is it?"),
        ("Hello", None),
        ("It costs $29.", "It costs "),
        ("It costs 29 ", "It costs "),
        ("I met Dr. ", "I met "),
        ("I met Dr.", "I met "),
        ("In the U.S.", "In the "),
        ("", None),
        ("   ", None),
        ("```\nx = 1 ", None),
    ],
)
def test_what_may_be_spoken_when_the_text_stalls(pending: str, early: str | None) -> None:
    segmenter = TextSegmenter()
    assert segmenter.feed(pending) == []
    segment = segmenter.early()
    assert (segment and segment.text) == early
    rest = "".join(one.text for one in segmenter.flush())
    assert (early or "") + rest == pending


def test_after_a_stall_the_text_goes_on() -> None:
    segmenter = TextSegmenter()
    segmenter.feed("I think that ")
    assert segmenter.early() == TextSegment("I think that ", 0, 13)
    assert segmenter.early() is None
    assert segmenter.feed("it is so. N") == [TextSegment("it is so. ", 13, 23)]


def test_a_million_characters_in_one_piece_and_one_by_one() -> None:
    text = "No end in sight here. " * 10_000
    assert len(cut(text, [len(text)])) == 10_000
    assert len(cut("x" * 100_000)) == -(-100_000 // 300)
    assert len(cut(" " * 30_000)) == 100


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"split": "word"}, "split"),
        ({"max_characters": 5}, "max_characters"),
        ({"max_characters": 10**9}, "max_characters"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InputInvalid) as caught:
        TextSegmenter(**options)
    assert caught.value.param == field
