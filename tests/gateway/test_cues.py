"""Subtitle cues: nothing said is lost, no cue is too much to read, whatever the words and their times."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.cues import LONGEST, LONGEST_SECONDS, cues
from speech.events import Word

spoken = st.lists(
    st.tuples(st.text("abcdefgh.,?", min_size=1, max_size=14), st.floats(0, 3), st.floats(0.01, 2)), max_size=60
)


def segment(words: list[Word], language: str = "en") -> Any:
    text = " ".join(word.text for word in words)
    end = words[-1].end if words else 0.0
    return SimpleNamespace(start=0.0, end=end, text=text, words=tuple(words), language=language)


@given(spoken)
def test_every_word_is_in_one_cue_and_every_cue_can_be_read(timed: list[tuple[str, float, float]]) -> None:
    words, now = [], 0.0
    for text, pause, length in timed:
        words.append(Word(f" {text}", now + pause, now + pause + length, 1.0))
        now += pause + length
    found = cues([segment(words)])
    assert " ".join(text.replace("\n", " ") for _, _, text in found).split() == [word.text.strip() for word in words]
    for start, end, text in found:
        assert text.count("\n") <= 2
        assert " " not in text.strip() or (len(text) <= LONGEST and end - start <= LONGEST_SECONDS)
    assert all(before[1] <= after[0] for before, after in pairwise(found))


def test_a_long_sentence_is_cut_where_the_speaker_paused() -> None:
    said = "and so my fellow americans ask not what your country can do for you ask what you can do for it"
    texts = said.split()
    words = [Word(f" {text}", 0.4 * at + (0.6 if at >= 14 else 0.0), 0.4 * at + 0.4 + (0.6 if at >= 14 else 0.0), 1.0)
             for at, text in enumerate(texts)]  # fmt: skip
    first, second = cues([segment(words)])
    assert first[2].replace("\n", " ").endswith("can do for you")
    assert second[2].startswith("ask what you")


def test_a_title_ends_no_cue() -> None:
    texts = "And Mr. John Dashwood had then leisure to consider how much there might be prudently in his power to do"
    words = [Word(f" {text}", 0.3 * at, 0.3 * at + 0.3, 1.0) for at, text in enumerate(texts.split())]
    assert len(cues([segment(words)])) == 2
    assert cues([segment(words)])[0][2].startswith("And Mr. John Dashwood")


def test_without_words_the_segment_is_a_cue_and_languages_without_spaces_get_none() -> None:
    silent: Any = SimpleNamespace(start=1.0, end=2.0, text=" Hello.", words=(), language="en")
    assert cues([silent]) == [(1.0, 2.0, "Hello.")]
    words = [Word("你", 0.0, 0.2, 1.0), Word("好", 0.2, 0.4, 1.0)]
    assert cues([segment(words, "zh")]) == [(0.0, 0.4, "你好")]
