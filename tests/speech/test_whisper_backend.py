"""The engine on real recordings: the words of the full window, whatever the batch, the draft and the growth."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from whisper_normalizer.english import EnglishTextNormalizer

from load.whisper_window import full_window
from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, Hypothesis, PartialRequest, Transcript, Utterance
from speech.whisper.profile import Precision
from tests.speech.whisper_models import backend, noise, recording, reference, run
from workers.backend import Done
from workers.errors import InputInvalid, InputTooLarge

GREEDY = DecodeOptions(temperatures=(0.0,))
FEW = ("austen-0870.wav", "austen-0930.wav", "jfk.flac", "prompts/auth-incorrect.wav", "prompts/pbx-invalid.wav")
words_of = EnglishTextNormalizer()


@cache
def alone(name: str) -> Transcript:
    """The greedy answer to one recording by itself."""
    (answer,) = run(FinalRequest(recording(name), GREEDY))
    return answer


@pytest.mark.parametrize("name", FEW)
def test_frozen_padding_gives_the_full_windows_words(name: str) -> None:
    theirs = full_window(backend(), recording(name), GREEDY)[0].text
    assert words_of(alone(name).text) == words_of(theirs)
    (unprobed,) = run(FinalRequest(recording(name), GREEDY), probes=0)
    assert words_of(unprobed.text) == words_of(theirs)


@pytest.mark.skipif(not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="bfloat16 is emulated here: minutes")
def test_the_precisions_that_are_measured_give_the_same_words() -> None:
    short = run(*(FinalRequest(recording(name), GREEDY) for name in FEW), precision=Precision("bfloat16", "int8"))
    same = [words_of(alone(name).text) == words_of(answer.text) for name, answer in zip(FEW, short, strict=True)]
    assert sum(same) >= len(FEW) - 1  # a near-tie may flip


def test_an_answer_does_not_depend_on_batch_mates() -> None:
    together = run(*(FinalRequest(recording(name), GREEDY) for name in FEW))
    for name, b in zip(FEW, together, strict=True):
        a = alone(name)
        assert (a.text, a.token_ids, [w.text for w in a.words]) == (b.text, b.token_ids, [w.text for w in b.words]), (
            name
        )
        assert np.allclose([w.start for w in a.words], [w.start for w in b.words], atol=0.021)


TRUE = "austen-0870.wav"
tokens = st.lists(st.integers(0, 50255), max_size=40)


@st.composite
def drafts(draw: st.DrawFn) -> tuple[int, ...]:
    """The true tokens, damaged: left out, put in, replaced, cut off; or anything at all."""
    if draw(st.booleans()):
        return tuple(draw(tokens))
    out = list(alone(TRUE).token_ids)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(out) - 1)))
        damage = draw(st.sampled_from(["drop", "insert", "replace", "cut"]))
        if damage == "drop":
            del out[at : at + 1]
        elif damage == "insert":
            out.insert(at, draw(st.integers(0, 50255)))
        elif damage == "replace" and out:
            out[at] = draw(st.integers(0, 50255))
        else:
            out = out[:at]
    return tuple(out)


@settings(max_examples=12, deadline=None)
@given(drafts())
@pytest.mark.long
def test_no_draft_changes_a_final(draft: tuple[int, ...]) -> None:
    plain = alone(TRUE)
    (drafted,) = run(FinalRequest(recording(TRUE), GREEDY, draft))
    assert drafted.token_ids == plain.token_ids
    assert drafted.avg_logprob == pytest.approx(plain.avg_logprob, abs=1e-3)
    assert [w.text for w in drafted.words] == [w.text for w in plain.words]


def test_a_right_draft_saves_nearly_all_token_steps() -> None:
    plain = alone(TRUE)
    steps = {}
    for draft in ((), plain.token_ids):
        job, count = backend().open(FinalRequest(recording(TRUE), GREEDY, draft)), 0
        while not isinstance(backend().step([job])[0], Done):
            count += job.generation is not None
        steps[draft] = count
    assert steps[plain.token_ids] <= 2 < 20 < steps[()]


def test_partials_grow_into_the_final_and_keep_forced_words() -> None:
    samples, utterance, texts, stable = recording(TRUE), Utterance(), [], ()
    for end in [*range(SAMPLE_RATE, len(samples), SAMPLE_RATE), len(samples)]:
        utterance.append(samples[utterance.length : end])
        (answer,) = run(PartialRequest(utterance, end, stable, GREEDY))
        assert isinstance(answer, Hypothesis)
        assert sum(count for _, count in answer.pieces) == len(answer.tokens)
        before = backend().vocabulary.text(list(stable))
        texts.append(before + "".join(text for text, _ in answer.pieces))
        assert texts[-1].startswith(before)
        stable = (*stable, *answer.tokens[:-4])
    (final,) = run(FinalRequest(samples, GREEDY, utterance.cache.hypothesis))
    assert texts[-1].strip() == final.text
    assert "Dashwood" in texts[2] and "power" not in texts[2]


def test_two_partials_of_one_utterance_at_once_the_newer_one_wins() -> None:
    utterance = Utterance()
    utterance.append(recording(TRUE)[: 3 * SAMPLE_RATE])
    old, new = run(PartialRequest(utterance, 2 * SAMPLE_RATE), PartialRequest(utterance, 3 * SAMPLE_RATE))
    assert isinstance(old, Exception) and isinstance(new, Hypothesis)


def test_a_failing_decode_is_tried_hotter_alone() -> None:
    options = DecodeOptions(temperatures=(0.0, 0.4, 0.8))
    hurried = recording("jfk.flac")[::3].copy()  # so fast that the model repeats itself
    engine = backend()
    jobs = [
        engine.open(FinalRequest(recording("austen-0880.wav"), options)),
        engine.open(FinalRequest(hurried, options)),
    ]
    answers: list[Transcript] = []
    for job in jobs:
        while not isinstance(result := engine.step([job])[0], Done):
            pass
        answers.append(result.output)
    assert [a.temperature for a in jobs[0].attempts] == [0.0]
    assert len(jobs[1].attempts) > 1 and jobs[1].attempts[0].ratio > 2.4
    assert [a.temperature for a in jobs[1].attempts] == list(options.temperatures[: len(jobs[1].attempts)])
    assert answers[1].compression_ratio <= 2.4 and answers[1].temperature > 0
    again = engine.open(FinalRequest(hurried, options))
    while not isinstance(result := engine.step([again])[0], Done):
        pass
    assert result.output.text == answers[1].text  # sampling is seeded


def test_a_bad_item_fails_alone() -> None:
    bad = recording(TRUE).copy()
    bad[1000] = np.nan
    good, failed = run(FinalRequest(recording(TRUE)), FinalRequest(bad))
    assert isinstance(failed, InputInvalid) and failed.param == "audio"
    assert good.text.startswith("And Mr. John Dashwood")


@pytest.mark.parametrize(
    ("request_", "error", "param"),
    [
        (FinalRequest(np.zeros(0, np.float32)), InputInvalid, "audio"),
        (FinalRequest(np.zeros(31 * SAMPLE_RATE, np.float32)), InputTooLarge, "audio"),
        (FinalRequest(noise(1.0), DecodeOptions(language="fr")), InputInvalid, "language"),
        (FinalRequest(noise(1.0), DecodeOptions(task="translate")), InputInvalid, "task"),
    ],
)
def test_what_cannot_be_transcribed_is_refused_at_the_door(
    request_: FinalRequest, error: type[Exception], param: str
) -> None:
    with pytest.raises(error) as caught:
        backend().open(request_)
    assert getattr(caught.value, "param", None) == param


@pytest.mark.parametrize("name", ["austen-0870.wav", "jfk.flac"])
def test_words_have_their_times(name: str) -> None:
    (answer,) = run(FinalRequest(recording(name), GREEDY))
    words = answer.words
    assert "".join(w.text for w in words).strip() == answer.text
    assert all(0 <= w.start <= w.end <= answer.seconds and 0 < w.confidence <= 1 for w in words)
    assert all(a.start <= b.start and a.end <= b.end for a, b in itertools.pairwise(words))
    segments, _ = reference().transcribe(recording(name), beam_size=1, word_timestamps=True, language="en")
    theirs = {w.word.strip().strip(",."): w for s in segments for w in s.words or ()}
    apart = [abs(w.end - theirs[key].end) for w in words if (key := w.text.strip().strip(",.")) in theirs]
    assert len(apart) >= 5 and np.median(apart) <= 0.1


def test_a_prompt_and_keywords_steer_the_spelling() -> None:
    plain = alone(TRUE)
    steered = DecodeOptions(temperatures=(0.0,), keywords=("Dashwoode",))
    (answer,) = run(FinalRequest(recording("austen-0870.wav"), steered))
    assert "Dashwood " in plain.text and "Dashwoode" in answer.text


def test_the_models_own_segments_hold_all_of_the_text() -> None:
    samples = np.concatenate([recording("austen-0870.wav"), np.zeros(8000, np.float32), recording("austen-0890.wav")])
    (answer,) = run(FinalRequest(samples, DecodeOptions(timestamps=True, temperatures=(0.0,))))
    assert len(answer.segments) >= 2
    assert " ".join(text for text, _ in answer.segments) == answer.text
    assert sum(count for _, count in answer.segments) == len(answer.token_ids) == len(answer.tokens)
    assert b"".join(t.bytes for t in answer.tokens).decode().strip() == answer.text
