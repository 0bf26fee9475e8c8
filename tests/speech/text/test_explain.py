"""A lexicon changes what is said; an explanation tells why something is said as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from speech.text import Lexicon, Spoken, explain, normalise
from speech.tts import Phonemes, VoiceInfo
from workers.backend import Backend
from workers.errors import InputInvalid, InputTooLarge


def words(text: str, entries: dict[str, str]) -> list[str]:
    return [one.text for one in normalise(text, lexicon=Lexicon(entries))]


def test_a_lexicon_respells() -> None:
    (token, _) = normalise("kubectl!", lexicon=Lexicon({"kubectl": "cube control"}))
    assert token == Spoken("cube control", 0, 7, "lexicon")


def test_a_lexicon_gives_phonemes() -> None:
    (token,) = normalise("Nguyen", lexicon=Lexicon({"nguyen": "/wˈɪn/"}))
    assert (token.text, token.phonemes, token.rule) == ("Nguyen", "wˈɪn", "lexicon")


def test_case_matters_only_where_it_is_written() -> None:
    assert words("Read READ read", {"read": "red"}) == ["red", "red", "red"]
    assert words("Polish polish", {"Polish": "poe lish"}) == ["poe lish", "polish"]
    assert words("SQL sql", {"SQL": "sequel", "sql": "S Q L"}) == ["sequel", "S Q L"]


def test_whole_words_only_and_the_longest_first() -> None:
    assert words("cat category", {"cat": "dog"}) == ["dog", "category"]
    assert words("New York New", {"new york": "the big apple", "new": "old"}) == ["the big apple", "old"]
    assert words("C++ code", {"C++": "see plus plus"}) == ["see plus plus", "code"]
    assert words("it’s", {"it's": "it is"}) == ["it is"]


def test_a_respelling_is_read_like_text() -> None:
    assert words("B52", {"B52": "B 52 bomber"}) == ["B fifty two bomber"]


@pytest.mark.parametrize(
    "entries", [{"": "x"}, {"a": ""}, {"a": "//"}, {"a": 5}, {"a" * 65: "b"}, {"a": "b" * 257}, {"a": "?!"}, ["a"]]
)
def test_what_can_not_be_used_is_refused(entries: object) -> None:
    with pytest.raises(InputInvalid) as caught:
        Lexicon(entries)  # type: ignore[arg-type]
    assert caught.value.param == "lexicon"


def test_a_lexicon_is_bounded() -> None:
    with pytest.raises(InputTooLarge):
        Lexicon({f"w{number}": "x" for number in range(10_001)})


def test_a_lexicon_is_loaded_from_json_and_toml(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"kubectl": "cube control"}), "utf-8")
    (tmp_path / "a.toml").write_text('kubectl = "cube control"\n"AC/DC" = "ay see dee see"\n', "utf-8")
    (tmp_path / "bad.json").write_text("{", "utf-8")
    assert len(Lexicon.load(tmp_path / "a.json")) == 1
    assert len(Lexicon.load(tmp_path / "a.toml")) == 2
    for name in ("bad.json", "missing.toml"):
        with pytest.raises(InputInvalid, match=name):
            Lexicon.load(tmp_path / name)


def test_an_explanation_shows_tokens_rules_and_what_is_left_out() -> None:
    found = explain("**Dr.** Smith paid $5 🙂.")
    assert found.spoken == "Doctor Smith paid five dollars."
    assert [(one.written, one.spoken, one.rule) for one in found.tokens] == [
        ("Dr.", "Doctor", "abbreviation"),
        ("Smith", "Smith", "word"),
        ("paid", "paid", "word"),
        ("$5", "five dollars", "money"),
        (".", ".", "punctuation"),
    ]
    assert [(one.written, one.policy) for one in found.removed] == [
        ("**", "markdown"),
        ("**", "markdown"),
        ("🙂", "emoji"),
    ]
    assert json.loads(json.dumps(found.as_json()))["tokens"][3]["start"] == 19


class Letters:
    """A voice whose phonemes are the letters themselves."""

    info = VoiceInfo("letters", "letters", ("en",), 24_000)

    def phonemes(self, tokens: Sequence[Spoken]) -> Phonemes:
        text = tuple(one.phonemes or one.text.lower() for one in tokens)
        ids = tuple(ord(one) for part in text for one in part)
        return Phonemes(ids, tuple(number for number, part in enumerate(text) for _ in part), text)

    def backend(self) -> Backend:
        raise NotImplementedError


def test_an_explanation_has_the_phonemes_of_a_voice() -> None:
    found = explain("Hi 5", lexicon=Lexicon({"hi": "/haɪ/"}), voice=Letters())
    assert [one.phonemes for one in found.tokens] == ["haɪ", "five"]
    assert found.voice == "letters"
