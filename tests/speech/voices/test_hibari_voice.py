"""Phonemes token by token, and what happens with a graph that is not the known one."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from hibari import Hibari
from hypothesis import given, settings
from hypothesis import strategies as st

from speech.text import normalise
from speech.text.spoken import Spoken
from speech.voices.hibari.voice import HibariVoice
from speech.voices.hibari.whole import WholeBackend
from tests.speech.voices.hibari_voices import GRAPH, SENTENCE, TEXTS, segment, speak, tokens, voice
from workers.errors import InputInvalid

SENTENCES = (
    *(text for text in TEXTS[:-1] if "“" not in text),
    "The apple and the pear, to eat and to see.",
    "Read the book I read yesterday; I used to read what I used.",
    "The answer is no.",
    "They live to record a live record (really) — in the days of old.",
    "Kubernetes, NASA and McDonald can't; the dogs won't.",
    "A man, an owl, a well-known state-of-the-art thing.",
)


@pytest.mark.parametrize("text", SENTENCES, ids=lambda text: text[:20])
def test_phonemes_are_those_the_package_reads_without_its_normaliser(text: str) -> None:
    package = Hibari(g2p=voice()._phonemizer._rules)
    made = voice().phonemes(tokens(text))
    assert list(made.ids) == package.ids(package.g2p(text, normalize_text=False))


def test_every_phoneme_knows_its_token() -> None:
    text = "He said, “the apple is the first.” I read to eat — I have read it!"
    said = dict(zip([t.text for t in tokens(text)], voice().phonemes(tokens(text)).text, strict=True))
    assert said["apple"] == "ˈæpᵊl"
    assert said["read"] == "ɹˈɛd"  # the last of the two: a participle
    assert (said["“"], said["—"], said["!"]) == ("“", "—", "!")
    made = voice().phonemes(tokens(text))
    shown = [token.text for token, phonemes in zip(tokens(text), made.text, strict=True) if phonemes]
    assert [tokens(text)[n].text for n in dict.fromkeys(s for s in made.sources if s >= 0)] == shown
    assert made.text[tokens(text).index(Spoken("the", 10, 13, "word"))] == "ði"
    straight = voice().phonemes(tokens('"No," he said - and left.')).text
    assert straight == ("“", "nˈO", ",", "”", "hi", "sˈɛd", "—", "ænd", "lˈɛft", ".")


def test_a_token_may_be_several_words_and_a_lexicon_is_obeyed() -> None:
    made = voice().phonemes(
        (
            Spoken("twenty three", 0, 2, "cardinal"),
            Spoken("doctors", 3, 7, "word"),
            Spoken("Nguyen Van", 8, 18, "lexicon", "wˈɪn vˈɑn"),
            Spoken(".", 18, 19, "punctuation"),
        )
    )
    assert made.text == ("twˈɛntiθɹˈi", "dˈɑktəɹz", "wˈɪnvˈɑn", ".")
    assert list(dict.fromkeys(made.sources)) == [-1, 0, 1, 2, 3]
    assert made.sources[0] == made.sources[-1] == -1


@pytest.mark.parametrize("text", ["At 9:30 a.m.", "The USA", "An API", "AAA batteries", "mRNA", "Options A/B"])
def test_an_a_that_is_spelled_is_a_letter_and_no_article(text: str) -> None:
    said = normalise(text)
    spelled = [n for n, token in enumerate(said) if "A" in token.text.split()]
    assert spelled
    sounds = voice().phonemes(said).text
    assert all("ˈA" in sounds[n] and "ɐ" not in sounds[n] for n in spelled), sounds


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.text(min_size=1, max_size=12), st.booleans()), max_size=8))
def test_any_tokens_give_phonemes_of_the_vocabulary(pieces: list[tuple[str, bool]]) -> None:
    spoken, place = [], 0
    for text, touching in pieces:
        place += not touching
        spoken.append(Spoken(text, place, place + len(text)))
        place += len(text)
    made = voice().phonemes(spoken)
    assert len(made.ids) == len(made.sources)
    assert len(made.text) == len(spoken)
    assert all(-1 <= source < len(spoken) for source in made.sources)
    assert set(made.ids) <= {0, *voice()._phonemizer.vocabulary.values()}
    assert made == voice().phonemes(spoken)


@pytest.mark.parametrize("text", ["İ% ǲ", "x² and ¹", "\ud800", "\x00\x01", "漢字", "مرحبا", "é" * 400])
def test_odd_letters_never_raise(text: str) -> None:
    made = voice().phonemes((Spoken(text, 0, len(text)),))
    assert len(made.text) == 1


def test_the_known_graph_is_exact_and_described() -> None:
    info = voice().info
    assert (info.name, info.model, info.rate, info.exact, info.languages) == ("heart", "hibari", 24000, True, ("en",))
    assert voice().backend().spec.model == "hibari"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> HibariVoice:
    """The voice with a graph that computes the same but is another file."""
    model = onnx.load(GRAPH)
    model.doc_string = "changed"
    path = tmp_path_factory.mktemp("graph") / "other.onnx"
    onnx.save(model, path)
    return HibariVoice(path)


def test_another_graph_is_spoken_whole_and_says_so(other: HibariVoice) -> None:
    assert not other.info.exact
    model = other.backend()
    assert isinstance(model, WholeBackend)
    model.load("cpu")
    said = segment(SENTENCE, seed=3, index=1)
    planned, sound = speak(model, said)
    generator = np.random.default_rng([3, 1])
    assert (sound == Hibari(model=str(GRAPH), g2p=False).from_ids(said.phonemes.ids, 1.0, generator)).all()
    assert planned.times[-1].end <= len(sound) / 24000
    for earlier, later in zip(planned.times, planned.times[1:], strict=False):
        assert earlier.start < earlier.end <= later.start
    trimmed, shorter = speak(model, segment(SENTENCE, seed=3, index=1, first=True))
    assert 4000 < len(sound) - len(shorter) < 8000
    assert (sound[-len(shorter) :] == shorter).all()
    assert trimmed.windows is not None
    assert speak(model, segment("...", first=True))[0].windows == ()
    with pytest.raises(InputInvalid):
        speak(model, segment("Hi.", speed=9))


def test_falling_back_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "other.onnx"
    path.write_bytes(GRAPH.read_bytes() + b"\x00")
    with caplog.at_level(logging.WARNING):
        assert not HibariVoice(path).info.exact
    assert "whole segment" in caplog.text
