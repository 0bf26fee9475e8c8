"""Subtitle cues: nothing said is lost, no cue is too much to read, whatever the words and their times."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speech.cues import SubtitleRules, cues
from speech.events import Word

RULES = SubtitleRules()
spoken = st.lists(
    st.tuples(st.text("abcdefgh.,?", min_size=1, max_size=60), st.floats(0, 3), st.floats(0, 9)), max_size=60
)
rules = st.builds(
    SubtitleRules,
    line=st.integers(10, 50),
    lines=st.integers(1, 3),
    reading_speed=st.floats(5, 40),
    shortest=st.floats(0.0, 2.0),
    longest=st.floats(2.0, 10.0),
    gap=st.sampled_from((0.0, 0.04, 0.12)),
)


def segment(words: Sequence[Word], channel: int = 0) -> Any:
    text = "".join(word.text for word in words)
    start, end = (words[0].start, words[-1].end) if words else (0.0, 0.0)
    return SimpleNamespace(start=start, end=end, text=text, words=tuple(words), channel=channel)


def row(text: str, *, start: float = 0.0, each: float = 0.3, pauses: dict[int, float] | None = None) -> list[Word]:
    words, now = [], start
    for number, part in enumerate(text.split()):
        now += (pauses or {}).get(number, 0.0)
        words.append(Word(f" {part}", now, now + each, 1.0))
        now += each
    return words


def timed(parts: Sequence[tuple[str, float, float]]) -> list[Word]:
    words, now = [], 0.0
    for text, pause, length in parts:
        words.append(Word(f" {text}", now + pause, now + pause + length, 1.0))
        now += pause + length
    return words


def label(one: Any) -> str:
    return f"[{one.channel + 1}]"


@given(spoken, rules)
def test_every_word_is_in_one_cue_and_every_cue_keeps_the_rules(parts: Any, rules: SubtitleRules) -> None:
    words = timed(parts)
    found = cues([segment(words)], rules)
    shown = "".join(text.replace("\n", "").replace(" ", "") for _, _, text in found)
    assert shown == "".join(word.text.strip() for word in words)
    for start, end, text in found:
        assert len(text.splitlines()) <= rules.lines
        assert max(map(len, text.splitlines())) <= rules.line
        assert 0 < end - start <= rules.longest + 0.001
    for before, after in pairwise(found):
        gap = rules.gap if after[0] - before[0] > rules.gap + 0.001 else 0.0
        assert after[0] - before[1] >= gap - 0.0011
        assert before[0] < before[1] <= after[0]


@given(spoken, spoken, rules)
def test_two_who_talk_at_once_stay_apart_and_whole(one: Any, other: Any, rules: SubtitleRules) -> None:
    found = cues([segment(timed(one), 0), segment(timed(other), 1)], rules, label=label)
    for who, said in (("[1]", one), ("[2]", other)):
        lines: list[str] = []
        for _, _, text in found:
            mine = False
            for line in text.splitlines():
                mine = line.startswith(who) if line.startswith(("[1]", "[2]")) else mine
                lines += [line.removeprefix(who)] if mine else []
        assert "".join(lines).replace(" ", "") == "".join(text for text, _, _ in said)
    for start, end, text in found:
        assert start < end
        assert len(text.splitlines()) <= rules.lines
        assert max(map(len, text.splitlines())) <= rules.line
    assert all(before[1] <= after[0] for before, after in pairwise(found))


def test_a_long_sentence_is_cut_where_the_speaker_paused() -> None:
    said = "and so my fellow americans ask not what your country can do for you ask what you can do for it"
    first, second = cues([segment(row(said, each=0.4, pauses={14: 0.6}))])
    assert first[2].replace("\n", " ").endswith("can do for you")
    assert second[2].startswith("ask what you")


def test_lines_are_about_equal() -> None:
    ((_, _, text),) = cues([segment(row("it is a truth universally acknowledged that a single man"))])
    assert [len(line) for line in text.splitlines()] == [25, 30]


def test_a_title_ends_no_cue() -> None:
    texts = "And Mr. John Dashwood had then leisure to consider how much there might be prudently in his power to do"
    found = cues([segment(row(texts))])
    assert len(found) == 2
    assert found[0][2].startswith("And Mr. John Dashwood")


def test_without_words_the_text_is_shared_out_over_the_time() -> None:
    silent: Any = SimpleNamespace(start=1.0, end=2.0, text=" Hello.", words=())
    assert cues([silent]) == [(1.0, 2.0, "Hello.")]
    long: Any = SimpleNamespace(start=0.0, end=20.0, text="word " * 40, words=())
    found = cues([long])
    assert sum(text.split().count("word") for _, _, text in found) == 40
    assert all(end - start <= 7.0 for start, end, _ in found)


def test_languages_without_spaces_get_none_and_break_anywhere() -> None:
    words = [Word("你", 0.0, 0.2, 1.0), Word("好", 0.2, 0.9, 1.0)]
    assert cues([segment(words)]) == [(0.0, 0.9, "你好")]
    many = [Word("字", 0.1 * at, 0.1 * at + 0.1, 1.0) for at in range(60)]
    ((_, _, text),) = cues([segment(many)])
    assert [len(line) for line in text.splitlines()] == [30, 30]


def test_a_loop_without_spaces_is_cut_into_lines() -> None:
    found = cues([segment([Word(" " + "ha" * 100, 1.0, 11.0, 1.0)])])
    assert all(len(line) <= 42 for _, _, text in found for line in text.splitlines())
    assert "".join(text.replace("\n", "") for _, _, text in found) == "ha" * 100


def test_a_short_word_stays_until_it_is_read_but_not_past_the_next_or_the_end() -> None:
    alone, later = segment([Word(" Extraordinary circumstances.", 1.0, 1.1, 1.0)]), segment(row("Yes.", start=2.1))
    assert cues([alone])[0][:2] == (1.0, 2.333)
    assert cues([alone, later], SubtitleRules(gap=0.1))[0][:2] == (1.0, 2.0)
    assert cues([alone], until=1.5)[0][:2] == (1.0, 1.5)


def test_a_short_word_is_joined_to_what_follows_at_once() -> None:
    alone, next_one = segment([Word(" Yes.", 1.0, 1.1, 1.0)]), segment(row("It is so.", start=1.2))
    assert cues([alone, next_one]) == [(1.0, 2.1, "Yes. It is so.")]


def test_a_long_text_stays_until_it_is_read() -> None:
    text = "extraordinarily complicated institutional arrangements"
    ((start, end, _),) = cues([segment(row(text, each=0.2))])
    assert end - start == pytest.approx(len(text) / RULES.reading_speed, abs=0.06)


def test_two_voices_at_once_share_a_cue_when_it_has_room() -> None:
    one, other = segment(row("Hello there."), 0), segment(row("Hi.", start=0.2), 1)
    assert cues([one, other], label=label) == [(0.0, 1.095, "[1] Hello there.\n[2] Hi.")]


def test_a_cue_before_the_one_before_it_is_put_in_order() -> None:
    late, early = segment(row("second", start=5.0)), segment(row("first", start=2.0))
    assert [text for _, _, text in cues([late, early])] == ["first", "second"]


@pytest.mark.parametrize("edge", [0.9995, 59.9996, 3599.9999, 359_999.9996])
def test_times_come_out_on_whole_milliseconds(edge: float) -> None:
    ((start, end, _),) = cues([segment([Word(" x", edge - 0.9, edge, 1.0)])])
    assert (start, end) == (round(edge - 0.9, 3), round(edge, 3))
