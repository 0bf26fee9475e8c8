"""What is written becomes what is said: a table of cases, and what must hold of any text at all."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from speech.text import Lexicon, Reading, TextOptions, normalise, read
from speech.text.explain import as_line
from tests.speech.text.spoken_cases import ALL
from workers.errors import InputInvalid

CASES = [pytest.param(*row, id=f"{theme}: {row[0]!a}") for theme, rows in ALL.items() for row in rows]
MARKS = frozenset([";", ":", ",", ".", "!", "?", "—", "…", '"', "“", "”", "(", ")"])
POLICIES = {
    *("markdown", "link", "code", "emoji", "markup"),
    *("control", "format", "surrogate", "private use", "unassigned", "mark", "decoration", "punctuation"),
}
FRAGMENTS = (
    *("Dr. ", "$29.", "95", "3,497", "10,50 €", "https://a.b/c", "a@b.co", "```", "`", "**", "_", "[x](y)", "<b>"),
    *("</b>", "<", ">", "&amp;", "#", "|", "- ", "1. ", "\n", " ", ".", "...", "?!", "“", "'", "½", "²", "Ⅷ", "你"),
    *("я", "α", "🙂", "👩\u200d👩\u200d👧", "🇩🇪", "1\ufe0f\u20e3", "e\u0301", "\u0301", "\ud800", "\u202e", "\ue001"),
    *("\ue00f", "\x00", "\r\n", "IV", "NASA", "5'10\"", "192.168.0.1", "v1.2", "2024-03-05", "9:30am", "1/2", "5-10"),
    *("+1 (415) 555-0100", "no.", "U.S.", "COVID-19", "٣", "ﬁ", "and/or", "<!--", "](", "World War I"),
)
mixed_text = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=16).map("".join)
any_text = st.one_of(st.text(max_size=80), mixed_text)
any_options = st.builds(
    TextOptions,
    markdown=st.sampled_from(("strip", "speak")),
    code=st.sampled_from(("strip", "speak", "name")),
    emoji=st.sampled_from(("strip", "name", "speak")),
)


def spoken(text: str, options: TextOptions | None = None, lexicon: Lexicon | None = None) -> str:
    return as_line([(one.text, one.rule) for one in normalise(text, options, lexicon)])


def test_the_table_is_long_enough_to_mean_something() -> None:
    assert len(CASES) >= 250
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize(("written", "said"), CASES)
def test_spoken(written: str, said: str) -> None:
    assert spoken(written) == said


NUMERIC = ("numbers", "money", "measures", "phones", "dates", "times", "math")


@pytest.mark.parametrize("written", [row[0] for theme in NUMERIC for row in ALL[theme]])
def test_ranges_are_those_of_the_original_text(written: str) -> None:
    before = "Well, we see: "
    shifted = [(one.text, one.start - len(before), one.end - len(before)) for one in normalise(before + written)]
    assert [one for one in shifted if one[1] >= 0] == [(one.text, one.start, one.end) for one in normalise(written)]


def check(text: str, reading: Reading) -> None:
    tokens, removed = reading.tokens, reading.removed
    covered = bytearray(len(text))
    start = end = 0
    for one in tokens:
        assert 0 <= one.start < one.end <= len(text)
        assert one.start >= start and one.end >= end, "tokens are in order"
        start, end = one.start, one.end
        covered[one.start : one.end] = b"\1" * (one.end - one.start)
        assert one.text == " ".join(one.text.split()) != ""
        if one.rule == "punctuation":
            assert one.text in MARKS
        else:
            assert re.fullmatch(r"[A-Za-zÀ-ſ' -]+", one.text), one
    for one in removed:
        assert 0 <= one.start < one.end <= len(text)
        assert one.policy in POLICIES
        covered[one.start : one.end] = b"\1" * (one.end - one.start)
    lost = [(at, c) for at, c in enumerate(text) if c.isalnum() and not covered[at]]
    assert lost == [], "every letter and digit is spoken, or left out by a policy"


@settings(max_examples=600, deadline=None)
@given(any_text, any_options)
@example("<!-- -->", TextOptions())
@example("a\ue00fb\ue001c\ue002d\ue003e", TextOptions(code="name"))
@example("x" * 300 + "1" * 300 + "я" * 300, TextOptions())
@example("[a](b)[^1](c) ](d)", TextOptions())
@example("e" + "\u0301" * 500, TextOptions())
def test_any_text_is_read_whole_and_in_order(text: str, options: TextOptions) -> None:
    check(text, read(text, options))
    check(text, read(text, options, code=True))


@settings(max_examples=200, deadline=None)
@given(st.integers(0x20, 0x10FFFF))
def test_any_character_is_read(code_point: int) -> None:
    for text in (chr(code_point), f"a{chr(code_point)}b", f"5{chr(code_point)}"):
        check(text, read(text))


def test_every_letter_and_digit_of_the_basic_plane_is_read() -> None:
    text = " ".join(chr(one) for one in range(0x10000) if chr(one).isalnum())
    check(text, read(text))


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    import speech.text  # noqa: F401

    for name, module in sorted(sys.modules.items()):
        if name.startswith("speech.text.") and isinstance(module, ModuleType):
            for attribute, value in vars(module).items():
                if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                    yield f"{name}.{attribute}", value


def repeats(parsed: Any) -> Iterator[int]:
    """The upper bounds of all repeats in a parsed pattern."""
    for _operation, argument in parsed:
        if isinstance(argument, tuple) and len(argument) == 3 and hasattr(argument[2], "data"):
            yield argument[1]
        stack = [argument]
        while stack:
            part = stack.pop()
            if hasattr(part, "data"):
                yield from repeats(part)
            elif isinstance(part, tuple | list):
                stack.extend(part)


def test_every_pattern_of_the_rules_is_bounded() -> None:
    """What keeps the time linear: no rule can look further than a fixed number of characters."""
    found = dict(patterns())
    assert len(found) > 40
    unbounded = []
    for name, pattern in found.items():
        bounds = list(repeats(re._parser.parse(pattern.pattern, pattern.flags)))  # type: ignore[attr-defined]
        if any(int(bound) > 5000 for bound in bounds) and name not in TAKES_WHAT_IT_MATCHES:
            unbounded.append(name)
    assert unbounded == []


TAKES_WHAT_IT_MATCHES = {"speech.text.source._PLAIN"}
"""A single class repeated without a bound, whose match is taken whole, so no character is looked at twice."""


def calls(work: Callable[[], object]) -> int:
    """How many Python functions and methods are called."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "unit",
    ["word and more, ", "1,234.5 $3 ", "1A", *"9a*[<`你🙂.\n\u0301", "<!--", "&a", "- ", "| ", "e\u0301"],
    ids=ascii,
)
def test_twice_the_text_is_twice_the_work(unit: str) -> None:
    once, twice = unit * (4_000 // len(unit)), unit * (8_000 // len(unit))
    read(once)  # fills what is remembered
    assert calls(lambda: read(twice)) <= 2.1 * calls(lambda: read(once)) + 500


def test_a_million_characters() -> None:
    text = ("The 3rd of 1,000 words costs $5.99 — see https://example.com, Dr. Smith! " * 14_000)[:1_000_000]
    tokens = normalise(text)
    assert len(tokens) > 200_000
    assert tokens[-1].end > 999_980


@pytest.mark.parametrize("unit", ["a", "1", "[", "<", "*", "你", "&", "\\", "(", "_", "#", "@", "/", "://", "-1"])
def test_a_long_row_of_the_same_sign(unit: str) -> None:
    text = unit * (20_000 // len(unit))
    check(text, read(text))


def test_policies_of_code() -> None:
    text = "Look:\n```python\nx = 1\n```\nDone."
    assert spoken(text, TextOptions(code="strip")) == "Look: Done."
    assert spoken(text, TextOptions(code="speak")) == "Look: X equals one. Done."
    assert spoken(text, TextOptions(code="name")) == "Look: code block. Done."
    assert [one.policy for one in read(text).removed] == ["code"] * 3


def test_a_text_may_begin_inside_a_block_of_code() -> None:
    tokens = normalise("y = 2\n```\nDone.", code=True)
    assert [one.text for one in tokens] == ["Done", "."]


def test_policies_of_emoji() -> None:
    assert spoken("I ❤️ you 👍🏽!") == "I you!"
    assert spoken("I ❤️ you 👍🏽!", TextOptions(emoji="speak")) == "I red heart you thumbs up!"
    assert spoken("I ❤️ you!", TextOptions(emoji="name")) == "I red heart emoji you!"
    (removed,) = read("👩\u200d👩\u200d👧").removed
    assert (removed.start, removed.end, removed.policy) == (0, 5, "emoji")


def test_markdown_may_be_spoken() -> None:
    assert spoken("**a**", TextOptions(markdown="speak")) == "asterisk asterisk a asterisk asterisk"


@pytest.mark.parametrize("field", ["markdown", "code", "emoji", "language"])
def test_a_wrong_policy_is_named(field: str) -> None:
    with pytest.raises(InputInvalid) as caught:
        TextOptions(**{field: "loud"})  # type: ignore[arg-type]
    assert caught.value.param == field


@pytest.mark.parametrize("text", ["", " ", "\n\n", "🙂", "\ud800", "\x00\x01", "<b></b>", "**", "\u202e\u200b"])
def test_what_says_nothing_gives_no_words(text: str) -> None:
    assert [one for one in normalise(text) if one.rule != "punctuation"] == []
