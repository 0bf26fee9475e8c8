"""The rules of inspection that read the text: periods, compression, rates, phrases, languages."""

from __future__ import annotations

import pytest

from batch_jobs.inspect import languages, loops, phrases, rates
from batch_jobs.inspect.inspection import inspect
from batch_jobs.inspect.units import units
from batch_jobs.transcript import Segment
from speech.events import Word

GOOD = (
    "And so my fellow Americans ask not what your country can do for you ask what you can do for your country and "
    "Mister John Dashwood had then leisure to consider how much there might be prudently in his power to do for them"
)


def spoken(text: str, rate: float = 3.0, start: float = 0.0, **fields: object) -> Segment:
    """A segment of words, so many a second, without pauses."""
    words = tuple(
        Word(f" {word}", start + n / rate, start + (n + 1) / rate, 0.9) for n, word in enumerate(text.split())
    )
    values = {"language": "en", "avg_logprob": -0.3, "no_speech": 0.05, **fields}
    return Segment(words[0].start, words[-1].end, text, words, **values)  # type: ignore[arg-type]


def of(text: str) -> list[str]:
    return [unit.key for unit in units(spoken(text).words)]


def found(text: str) -> list[tuple[int, float]]:
    """(period, times) of the loops of a text."""
    return [(loop.period, round(loop.times, 1)) for loop in loops.loops(units(spoken(text).words))]


def rules(*segments: Segment, voice: list[tuple[float, float]] | None = None) -> list[str]:
    end = max((s.end for s in segments), default=0.0)
    return [s.rule for s in inspect(segments, {0: voice if voice is not None else [(0.0, end)]})]


# Units


def test_units_are_words_without_case_and_punctuation() -> None:
    assert of("Don’t STOP, 8-12-8 … yes!") == ["dont", "stop", "8", "12", "8", "…", "yes"]


def test_scripts_without_spaces_are_compared_by_characters() -> None:
    assert of("谢谢大家 ありがとう hello") == [*"谢谢大家", *"ありがとう", "hello"]


def test_a_stutter_within_a_word_is_taken_apart() -> None:
    assert of("hahahahahaha") == ["ha"] * 6
    assert of("Mississippi banana") == ["mississippi", "banana"]


def test_the_parts_of_a_word_share_its_time() -> None:
    made = units([Word(" 8-12-8", 1.0, 2.0, 0.9)])
    assert [(unit.start, unit.end) for unit in made] == [(1.0, 1.25), (1.25, 1.75), (1.75, 2.0)]
    assert [unit.word for unit in made] == [0, 0, 0]


# Loops


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no no no", []),
        ("Thank you. Thank you.", []),
        ("Thank you. " * 6, [(2, 6.0)]),
        ("1-2-3-4-5-8-12-8-12-8-12", [(2, 3.0)]),
        (GOOD, []),
        (f"{GOOD} {'Thank you. ' * 8}", [(2, 8.0)]),
        ("he was not an ill disposed young man " * 2, [(8, 2.0)]),
        ("six " * 40, [(1, 40.0)]),
        (". " * 12, [(1, 12.0)]),
        (f"{GOOD} " * 2, [(44, 2.0)]),
        ("谢谢大家" * 5, [(4, 5.0)]),
        ("hahahahahahahaha", [(1, 8.0)]),
    ],
)
def test_periods(text: str, expected: list[tuple[int, float]]) -> None:
    assert found(text) == expected


def test_a_loop_runs_over_segments_and_has_its_shortest_period() -> None:
    segments = [spoken("I am not going to do that.", start=3.0 * n) for n in range(5)]
    said = units([word for s in segments for word in s.words])
    (loop,) = loops.loops(said)
    assert (loop.period, loop.times) == (7, 5.0)
    assert len(loop.turns()) == 5


def test_a_loop_without_audio_is_suspicious_and_named() -> None:
    found = inspect([spoken("Thank you. " * 6)], {0: [(0.0, 4.0)]})
    (loop,) = (s for s in found if s.rule == "loop")
    assert (loop.value, loop.start, loop.end) == (6.0, 0.0, 4.0)
    assert "thank you" in loop.detail


def test_counted_numbers_are_no_loop() -> None:
    assert rules(spoken(" ".join(map(str, range(1, 30))))) == []


# Compression, rates


def test_compression_sees_a_rambling_loop_and_lets_good_text_be() -> None:
    rambling = "the video of the video in the description of the video and the video of the description in the video "
    assert rates.compressible(units(spoken(rambling * 2).words))
    assert not rates.compressible(units(spoken(GOOD).words))


def test_compression_means_the_same_in_every_script() -> None:
    russian = "Набранный вами абонент не отвечает на звонки с неопределяемых номеров и просит перезвонить ему позже"
    latin = rates.compression(of("the subscriber you called does not answer calls from hidden numbers, call again"))
    assert abs(rates.compression(of(russian)) - latin) < 0.3


@pytest.mark.parametrize(("rate", "fast"), [(2.5, False), (5.0, False), (9.0, True), (50.0, True)])
def test_more_letters_than_anybody_says(rate: float, fast: bool) -> None:
    assert ("rate" in rules(spoken(GOOD, rate))) == fast


def test_words_of_no_length() -> None:
    words = [Word(f" word{n}", 1.0 + 0.5 * (n // 4), 1.0 + 0.5 * (n // 4), 0.9) for n in range(12)]
    assert rates.instant(words) == [(0, 12, 1.0)]
    assert rates.instant(spoken(GOOD).words) == []


# Phrases and doubt


def test_a_known_phrase_is_suspicious_only_when_something_else_speaks_against_it() -> None:
    thanks = spoken("Thank you for watching!")
    assert rules(thanks) == []
    assert rules(spoken("Thank you for watching!", avg_logprob=-0.9)) == ["made-up phrase"]
    assert rules(spoken("Thank you for watching!", no_speech=0.8)) == ["made-up phrase"]
    assert "made-up phrase" in rules(thanks, voice=[(1.2, 1.3)])
    assert rules(spoken("Thank him for his patience.", avg_logprob=-0.9)) == []


@pytest.mark.parametrize(
    "text",
    ["Thank you.", "Thank you. Thank you.", "ご視聴ありがとうございました", "Продолжение следует...", "谢谢大家！"],
)
def test_known_phrases(text: str) -> None:
    assert phrases.phrase(units(spoken(text).words))


def test_a_model_that_does_not_believe_itself() -> None:
    assert rules(spoken(GOOD, avg_logprob=-1.2)) == ["unsure"]


# Languages


def test_a_short_stretch_in_another_language_is_a_flip() -> None:
    english = [spoken(GOOD, start=20.0 * n) for n in range(3)]
    welsh = spoken("mae hi yn oer", start=60.0, language="cy")
    assert [s for s, _ in languages.flips([*english, welsh])] == [welsh]
    long = [spoken(GOOD, start=60.0 + 20.0 * n, language="fr") for n in range(3)]
    assert languages.flips([*english, *long]) == []


def test_letters_that_a_language_does_not_have() -> None:
    assert languages.foreign("Спасибо за внимание", "en") == 1.0
    assert languages.foreign("Спасибо за внимание", "ru") == 0.0
    assert languages.foreign("ありがとう、東京", "ja") == 0.0
    assert languages.foreign("Naïve café", "en") == 0.0
    assert languages.foreign("Open the Яндекс page now please", "en") < 0.5
