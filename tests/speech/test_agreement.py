"""Local agreement on hypotheses written out by hand: what may be called stable, and that it only grows."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from speech.agreement import LocalAgreement
from speech.asr import Hypothesis

VOCABULARY: dict[str, int] = {}


def heard(text: str) -> Hypothesis:
    """A hypothesis with one token for every piece, as Whisper splits: words with their space, punctuation apart."""
    pieces = re.findall(r" ?[^\s.,?!\"-]+| ?[.,?!\"-]", text)
    return Hypothesis(
        tuple(VOCABULARY.setdefault(piece, len(VOCABULARY)) for piece in pieces), tuple((piece, 1) for piece in pieces)
    )


def spelled(tokens: tuple[int, ...]) -> str:
    names = {number: piece for piece, number in VOCABULARY.items()}
    return "".join(names[token] for token in tokens)


def test_one_hypothesis_makes_nothing_stable() -> None:
    assert LocalAgreement().update(heard(" He was not"), 1.0) == ("", " He was not")


def test_words_of_two_hypotheses_become_stable_but_the_newest_does_not() -> None:
    agreement = LocalAgreement()
    agreement.update(heard(" He was not an ill"), 1.0)
    assert agreement.update(heard(" He was not an ill disposed"), 2.0) == (" He was not an ill", " disposed")
    assert agreement.text == spelled(agreement.tokens) == " He was not an ill"
    assert spelled(agreement.tail) == " disposed"


def test_case_and_punctuation_are_no_disagreement_inside() -> None:
    agreement = LocalAgreement()
    agreement.update(heard(" he was. not an ill man"), 1.0)
    assert agreement.update(heard(" He was, not an ill man indeed"), 2.0)[0] == " He was, not an ill man"


def test_a_word_that_may_end_a_sentence_waits_until_that_is_clear() -> None:
    agreement = LocalAgreement()
    agreement.update(heard(" He was selfish. And"), 1.0)
    assert agreement.update(heard(" He was selfish, so they"), 2.0)[0] == " He was"


def test_hypotheses_close_together_do_not_confirm_each_other() -> None:
    agreement = LocalAgreement()
    agreement.update(heard(" He was not an ill"), 1.0)
    assert agreement.update(heard(" He was not an ill man"), 1.3)[0] == ""
    assert agreement.update(heard(" He was not an ill man"), 1.6)[0] == ""
    assert agreement.update(heard(" He was not an ill man indeed"), 1.9)[0] == " He was not an ill"


def test_one_dissenter_in_between_is_enough() -> None:
    agreement = LocalAgreement()
    agreement.update(heard(" He was not an ill"), 1.0)
    agreement.update(heard(" She was not an ill"), 1.5)
    assert agreement.update(heard(" He was not an ill man"), 2.0)[0] == ""


def test_nothing_becomes_stable_where_a_cut_may_still_fall() -> None:
    agreement = LocalAgreement()
    agreement.update(heard(" He was not an ill"), 1.0)
    assert agreement.update(heard(" He was not an ill man"), 2.0, settled=False)[0] == ""
    assert agreement.text == ""


def test_quotes_and_full_stops_go_with_their_words() -> None:
    agreement = LocalAgreement()
    text = ' He said, "Come in. Now'
    agreement.update(heard(text), 1.0)
    agreement.update(heard(text + " then"), 2.0)
    assert agreement.text == ' He said, "Come in. Now'


def test_the_rest_of_a_final_follows_the_stable_words() -> None:
    agreement = LocalAgreement()
    agreement.update(heard(" He was not an ill"), 1.0)
    agreement.update(heard(" He was not an ill man"), 2.0)
    assert agreement.rest("He was not an ill man.") == " man."
    assert agreement.rest("She was not an ill man.") == " man."
    assert agreement.rest("He") == ""


words = st.lists(st.sampled_from(["a", "the", "man", "was", "ill,", "not.", '"No', "-", "He"]), max_size=12)


@given(st.lists(words, max_size=8))
def test_stable_text_only_grows_and_is_what_its_tokens_say(tails: list[list[str]]) -> None:
    agreement, text, tokens = LocalAgreement(), "", ()
    for i, tail in enumerate(tails):
        hypothesis = heard("".join(f" {word}" for word in tail))
        new, unstable = agreement.update(hypothesis, float(i))
        assert new + unstable == spelled(hypothesis.tokens)
        assert agreement.text == text + new
        assert agreement.tokens == tokens + hypothesis.tokens[: len(agreement.tokens) - len(tokens)]
        assert spelled(agreement.tokens) == agreement.text
        assert not hypothesis.tokens or len(agreement.tokens) - len(tokens) < len(hypothesis.tokens)
        text, tokens = agreement.text, agreement.tokens
