"""Spans transcribed again: the score, what is kept, and real loops of the real tiny.en mended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from batch_jobs.inspect import thresholds as limits
from batch_jobs.inspect.inspection import inspect
from batch_jobs.inspect.loops import loops
from batch_jobs.inspect.units import units
from batch_jobs.inspect.voice import Voice
from batch_jobs.repair.attempts import pieces, ways
from batch_jobs.repair.plan import RepairTask, apply, plan
from batch_jobs.repair.repairing import repair
from batch_jobs.repair.score import score
from batch_jobs.transcript import Repair, Segment, Suspicion
from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, Samples, Transcript
from speech.events import Word
from tests.batch_jobs.test_inspect_text import spoken
from tests.speech.sounds import joined, not_speech, recording, silence
from tests.speech.whisper_models import reference, run

SENTENCE = "he might even have been made amiable himself"
Spans = list[tuple[float, float]]


def answer(text: str, *, at: float = 0.5, logprob: float = -0.2, no_speech: float = 0.05) -> Transcript:
    words = tuple(Word(f" {w}", at + 0.4 * n, at + 0.4 * (n + 1), 0.9) for n, w in enumerate(text.split()))
    return Transcript(text, words, (), "en", 1.0, logprob, no_speech, 1.2, 0.0, 5.0)


class Answers:
    """Answers requests in turn and keeps them; the last one again and again."""

    def __init__(self, *answers: Transcript) -> None:
        self.answers, self.requests = list(answers), list[FinalRequest]()

    async def __call__(self, request: FinalRequest) -> Transcript:
        self.requests.append(request)
        return self.answers[min(len(self.requests), len(self.answers)) - 1]


def task(before: Sequence[Segment], end: float, voice: Spans, rule: str = "unsure") -> RepairTask:
    reason = Suspicion(rule, 0.0, end, 0, 1.0, 1.0)
    return RepairTask(0.0, end, 0, (reason,), tuple(before), tuple(voice), limits.TRIES, "en")


def tried(work: RepairTask, answers: Answers, other: Answers | None = None) -> Repair:
    samples = np.random.default_rng(1).normal(0, 0.1, round(work.end * SAMPLE_RATE)).astype(np.float32)
    return asyncio.run(repair(work, samples, answers, DecodeOptions(), other))


def text(segments: Sequence[Segment]) -> str:
    return " ".join(s.text for s in segments).strip()


# The score


def test_no_text_is_best_where_nobody_speaks_and_worst_where_somebody_does() -> None:
    made_up = spoken("thank you for watching", avg_logprob=-0.3)
    for voice, better in (([], True), ([(0.0, 1.4)], False)):
        empty = score((), Voice(voice), None, (0.0, 2.0), 0.1).total
        assert (empty > score((made_up,), Voice(voice), None, (0.0, 2.0), 0.1).total) == better
    assert score((), Voice([(0.0, 3.0)]), None, (0.0, 3.0), 0.9).total == 0.0


@pytest.mark.parametrize(
    ("factor", "segment", "voice"),
    [
        ("belief", spoken(SENTENCE, avg_logprob=-2.0), [(0.0, 2.7)]),
        ("free", spoken("no " * 8), [(0.0, 2.7)]),
        ("heard", spoken(SENTENCE), [(0.0, 0.8)]),
        ("covered", spoken(SENTENCE), [(0.0, 2.7), (4.0, 9.0)]),
        ("pace", spoken(SENTENCE, rate=30.0), [(0.0, 2.7)]),
    ],
)
def test_each_factor_falls_for_its_own_fault(factor: str, segment: Segment, voice: Spans) -> None:
    good = score((spoken(SENTENCE),), Voice([(0.0, 2.7)]), None, (0.0, 9.0), 0.1)
    bad = score((segment,), Voice(voice), None, (0.0, 9.0), 0.1)
    assert getattr(bad, factor) < 0.6 < getattr(good, factor)
    assert 0.0 <= bad.total < good.total <= 1.0


def test_two_decodes_that_agree_bear_each_other_out() -> None:
    said = (spoken(SENTENCE),)
    alone = score(said, Voice([(7.0, 8.0)]), None, (0.0, 9.0), 0.1)
    agreed = score(said, Voice([(7.0, 8.0)]), None, (0.0, 9.0), 0.1, [said])
    assert (alone.heard, agreed.heard) == (0.0, 1.0)
    doubtful = (replace(said[0], avg_logprob=-1.5),)
    assert score(said, Voice([(7.0, 8.0)]), None, (0.0, 9.0), 0.1, [doubtful]).heard == 0.0


# What is kept


def test_a_better_text_takes_the_place_and_what_stood_there_is_kept_for_the_record() -> None:
    before = spoken("it was the the the the the the the of himself", avg_logprob=-1.4)
    made = tried(task([before], 4.0, [(0.2, 3.8)], "loop"), Answers(answer(SENTENCE)))
    assert (made.kept, text(made.after), made.before) == (True, SENTENCE, (before,))
    assert made.score_after > made.score_before
    assert made.attempts == 2  # the second says the same
    assert made.how


def test_never_worse_than_before() -> None:
    before = spoken(SENTENCE, avg_logprob=-0.3, start=0.3)
    made = tried(task([before], 4.0, [(0.2, 3.2)]), Answers(answer("mumble", logprob=-2.5)))
    assert not made.kept
    assert made.score_after <= made.score_before
    assert apply([before], [(made.start, made.end, 0, made.after)] if made.kept else []) == (before,)


def test_the_same_text_is_no_repair() -> None:
    before = spoken(SENTENCE, avg_logprob=-1.1)
    made = tried(task([before], 4.0, [(0.0, 3.8)]), Answers(answer(SENTENCE)))
    assert not made.kept
    assert made.attempts == 1


def test_where_nobody_speaks_nothing_is_decoded_unless_the_text_is_believed() -> None:
    answers = Answers(answer(SENTENCE))
    made = tried(task([spoken("Thank you.", avg_logprob=-1.5)], 9.0, []), answers)
    assert (made.kept, made.after, made.attempts) == (True, (), 0)
    believed = [spoken(SENTENCE)]
    assert not tried(task(believed, 9.0, []), answers).kept  # heard twice alike: voice activity missed it
    assert len(answers.requests) == 1
    invented = tried(task(believed, 9.0, []), Answers(answer("so what did you think of that video")))
    assert (invented.kept, invented.after) == (True, ())


def test_effort_is_bounded_and_every_way_is_another() -> None:
    answers = Answers(answer("mumble", logprob=-1.9))
    made = tried(task([spoken("no " * 40)], 12.0, [(0.0, 11.8)], "loop"), answers, other := Answers(answers.answers[0]))
    assert made.attempts == len(answers.requests) + len(other.requests) <= limits.TRIES
    assert all(request.options.prompt == "" and len(request.options.temperatures) == 1 for request in answers.requests)
    assert all(request.options.language is None for request in other.requests)
    assert {request.options.language for request in answers.requests} == {"en", None}
    few = replace(task([spoken("no " * 40)], 12.0, [(0.0, 11.8)], "loop"), decodes=1)
    assert tried(few, Answers(answers.answers[0])).attempts == 1


def test_pieces_cover_all_voice_and_end_in_silences() -> None:
    samples = np.random.default_rng(1).normal(0, 0.1, 12 * SAMPLE_RATE).astype(np.float32)
    voice = Voice([(0.5, 3.0), (3.2, 6.1), (8.0, 11.5)])
    for way in ways(looped=True, other=True):
        parts = pieces(way, (0.0, 12.0), voice, samples)
        for start, end in voice.spans:
            heard = sum(max(0.0, min(end, at + len(part) / SAMPLE_RATE) - max(start, at)) for at, part in parts)
            assert heard >= end - start - 1e-3, way.name
        for at, part in parts:
            assert at >= -0.5 and len(part) / SAMPLE_RATE < 15.0


# Real loops and inventions of tiny.en


async def decode(request: FinalRequest) -> Transcript:
    (result,) = run(request)
    assert isinstance(result, Transcript), result
    return result


def bare(samples: Samples) -> list[Segment]:
    """What tiny.en makes of it without any guard."""
    found, _ = reference().transcribe(
        samples, language="en", beam_size=1, temperature=0.0, compression_ratio_threshold=None,
        log_prob_threshold=None, no_speech_threshold=None, word_timestamps=True,
    )  # fmt: skip
    return [
        Segment(
            start=s.start,
            end=s.end,
            text=s.text.strip(),
            words=tuple(Word(w.word, w.start, w.end, w.probability) for w in s.words or ()),
            language="en",
            avg_logprob=s.avg_logprob,
            no_speech=s.no_speech_prob,
        )
        for s in found
    ]


def turns(segments: Sequence[Segment]) -> float:
    """How often the text says what it repeats."""
    said = units([word for s in segments for word in s.words])
    return sum(loop.times for loop in loops(said))


def mended(samples: Samples, segments: Sequence[Segment], voice: Spans) -> tuple[list[str], list[Repair], str]:
    """(rules that were broken, repairs, text in the end)."""

    def audio(channel: int, start: float, end: float) -> Samples:
        return samples[max(round(start * SAMPLE_RATE), 0) : max(round(end * SAMPLE_RATE), 0)]

    doubts = inspect(segments, {0: voice}, audio)
    made = [
        asyncio.run(repair(work, audio(0, work.start, work.end), decode, DecodeOptions("en")))
        for work in plan(doubts, segments, {0: voice}, len(samples) / SAMPLE_RATE)
    ]
    after = apply(segments, [(r.start, r.end, r.channel, r.after) for r in made if r.kept])
    return [s.rule for s in doubts], made, text(after)


def waves(seconds: float) -> Samples:
    """Noise that comes and goes: tiny.en hears sentences in it and says them over and over."""
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return (not_speech("white noise", seconds) * (0.6 + 0.6 * np.sin(2 * np.pi * 1.3 * time))).astype(np.float32)


def test_what_is_made_up_over_noise_goes() -> None:
    samples = joined(waves(14.0))
    segments = bare(samples) or [spoken("I'm going to do that. " * 6, avg_logprob=-0.3)]
    rules, made, after = mended(samples, segments, [])
    assert "no voice" in rules
    assert after == ""
    assert sum(r.attempts for r in made) <= 1


@pytest.mark.long
def test_a_scrap_of_speech_over_and_over_is_not_said_more_often_than_it_is_heard() -> None:
    scrap = recording("jfk.flac")[int(8.2 * SAMPLE_RATE) : int(9.0 * SAMPLE_RATE)]  # "ask what"
    samples = np.tile(scrap, 7)
    segments = bare(samples)
    assert turns(segments) > 10.0
    rules, made, after = mended(samples, segments, [(0.0, 5.6)])
    assert {"loop", "instant words"} & set(rules)
    assert 4.0 <= turns([s for r in made if r.kept for s in r.after]) <= 9.0
    assert after
    assert all(r.score_after > r.score_before for r in made if r.kept)


def test_a_sentence_really_said_three_times_stays() -> None:
    sentence = recording("prompts/vm-newpassword.wav")
    samples = joined(silence(0.5), sentence, silence(0.5), sentence, silence(0.5), sentence, silence(0.5))
    length = len(sentence) / SAMPLE_RATE
    voice = [(0.5 + n * (length + 0.5), (n + 1) * (length + 0.5)) for n in range(3)]
    said = asyncio.run(decode(FinalRequest(samples, DecodeOptions("en", temperatures=(0.0,)))))
    segment = Segment(said.words[0].start, said.words[-1].end, said.text, said.words, 0, "en", said.avg_logprob)
    assert said.text.lower().count("pound key") == 3
    assert mended(samples, [segment], voice) == ([], [], said.text)


def test_a_missed_sentence_is_heard_in_the_second_try() -> None:
    samples = joined(recording("austen-0930.wav"), silence(1.0), recording("prompts/all-circuits-busy-now.wav"))
    first = len(recording("austen-0930.wav")) / SAMPLE_RATE
    voice = [(0.1, first - 0.1), (first + 1.1, len(samples) / SAMPLE_RATE - 0.1)]
    rules, (made,), after = mended(samples, [spoken(SENTENCE, rate=8 / (first - 0.3))], voice)
    assert rules == ["no words"]
    assert made.kept and made.before == ()
    assert "circuits are busy now" in after.lower()
    assert after.startswith(SENTENCE)


def test_a_first_temperature_is_sampled_at_and_gives_the_same_every_time() -> None:
    samples = joined(recording("austen-0880.wav"))
    cold, warm, again = run(
        *(FinalRequest(samples, DecodeOptions("en", temperatures=(value,))) for value in (0.0, 1.0, 1.0))
    )
    assert (warm.temperature, warm.token_ids) == (1.0, again.token_ids)
    assert warm.token_ids != cold.token_ids
