"""Which spans are transcribed again: where they are cut, what they may cost, and how their text is put in."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from batch_jobs import wire
from batch_jobs.inspect import thresholds as limits
from batch_jobs.repair.plan import RepairTask, apply, plan
from batch_jobs.transcript import Segment, Suspicion
from speech.events import Word


def said(text: str, start: float, each: float = 0.4, channel: int = 0, language: str = "en") -> Segment:
    words = tuple(
        Word(f" {word}", start + n * each, start + (n + 1) * each, 0.9) for n, word in enumerate(text.split())
    )
    return Segment(start, words[-1].end, text, words, channel, language, avg_logprob=-0.3)


def doubt(start: float, end: float, rule: str = "loop", channel: int = 0) -> Suspicion:
    return Suspicion(rule, start, end, channel, 5.0, 4.0)


def texts(segments: tuple[Segment, ...]) -> list[str]:
    return [segment.text for segment in segments]


def test_a_span_is_cut_in_the_silences_around_it() -> None:
    speech = {0: [(1.0, 4.0), (4.6, 9.0), (9.4, 12.0)]}
    segments = [said("one two three four five six seven", 1.1), said("a b c d e f g h i j", 4.7), said("x y z", 9.5)]
    (task,) = plan([doubt(5.5, 8.0)], segments, speech, 600.0)
    assert (round(task.start, 2), round(task.end, 2)) == (4.3, 9.2)
    assert texts(task.before) == ["a b c d e f g h i j"]
    assert task.speech == ((4.6, 9.0),)


def test_without_a_silence_near_no_word_is_cut() -> None:
    words = [Word(f" w{n}", n * 0.5, n * 0.5 + 0.4, 0.9) for n in range(60)]
    segments = [Segment(0.0, 30.0, "", tuple(words), language="en")]
    (task,) = plan([doubt(14.1, 15.9)], segments, {0: [(0.0, 30.0)]}, 600.0)
    for edge in (task.start, task.end):
        assert not any(word.start < edge < word.end for word in words)
    assert task.start <= 14.1 and task.end >= 15.9
    assert task.end - task.start < 4.0


def test_words_without_length_at_the_end_belong_to_the_span() -> None:
    words = (*said("one two three", 0.0).words, *(Word(" the", 10.0, 10.0, 0.9) for _ in range(30)))
    segments = [Segment(0.0, 10.0, "", words, language="en")]
    (task,) = plan([doubt(10.0, 10.0)], segments, {0: [(0.0, 1.4)]}, 10.0)
    assert sum(len(s.words) for s in task.before) == 30
    (rest,) = apply(segments, [(task.start, task.end, 0, ())])
    assert rest.text == "one two three"


def test_suspicions_that_touch_are_one_span() -> None:
    segments = [said("a b c d e f g h i j k l", 1.0)]
    (task,) = plan([doubt(1.0, 3.0), doubt(2.0, 5.0, "rate")], segments, {0: [(1.0, 6.0)]}, 600.0)
    assert {reason.rule for reason in task.reasons} == {"loop", "rate"}


def test_a_long_span_is_divided_at_its_longest_silences() -> None:
    speech = {0: [(0.0, 15.0), (15.1, 20.0), (22.0, 40.0), (40.5, 70.0)]}
    segments = [said("no " * 170, 0.0)]
    tasks = plan([doubt(0.0, 69.0, "unsure")], segments, speech, 3600.0)
    assert all(task.end - task.start <= limits.SPAN + 0.02 for task in tasks)
    assert round(tasks[0].end, 2) == 21.0
    assert [a.end == b.start for a, b in pairwise(tasks)] == [True] * (len(tasks) - 1)
    assert sum(len(s.words) for task in tasks for s in task.before) == 170
    shorter = plan([doubt(0.0, 69.0, "loop")], segments, speech, 3600.0)
    assert all(task.end - task.start <= limits.LOOP_SPAN + 0.02 for task in shorter)


def test_the_worst_is_repaired_first_when_the_budget_is_short() -> None:
    speech = {0: [(30.0 * n, 30.0 * n + 20.0) for n in range(20)]}
    segments = [said("word " * 40, 30.0 * n) for n in range(20)]
    doubts = [doubt(30.0 * n, 30.0 * n + 19.0, "loop" if n in (7, 15) else "unsure") for n in range(20)]
    tasks = plan(doubts, segments, speech, 600.0)
    spent = sum(task.decodes * (task.end - task.start) for task in tasks)
    assert spent <= max(limits.BUDGET * 600.0, limits.BUDGET_FLOOR) + 2.0
    assert {7, 15} <= {round(task.start / 30) for task in tasks}
    assert all(1 <= task.decodes <= limits.TRIES for task in tasks)


def test_channels_are_apart() -> None:
    segments = [said("left left left left", 1.0), said("right", 1.0, channel=1)]
    (task,) = plan([doubt(1.0, 2.0)], segments, {0: [(1.0, 3.0)], 1: [(0.0, 3.0)]}, 600.0)
    assert (task.channel, texts(task.before)) == (0, ["left left left left"])
    assert texts(apply(segments, [(0.0, 5.0, 0, ())])) == ["right"]


def test_the_language_is_that_of_the_speech_around() -> None:
    segments = [said("good morning to you all", 0.0), said("mae hi yn oer", 5.0, language="cy")]
    (task,) = plan([doubt(5.0, 6.5, "language")], segments, {0: [(0.0, 2.0), (5.0, 6.6)]}, 600.0)
    assert task.language == "en"


def test_the_new_text_takes_the_place_of_the_words_of_the_span() -> None:
    segments = [said("one two three four five", 0.0), said("six seven", 3.0)]
    new = replace(said("THREE", 0.9), language="en")
    made = apply(segments, [(0.8, 1.2, 0, [new])])
    assert texts(made) == ["one two", "THREE", "four five", "six seven"]
    assert [s.start for s in made] == sorted(s.start for s in made)


def test_a_task_goes_through_json_unchanged() -> None:
    (task,) = plan([doubt(1.0, 2.0)], [said("a a a a", 0.8)], {0: [(0.5, 3.0)]}, 60.0)
    assert wire.load(RepairTask, wire.dump(task)) == task


def test_a_long_invention_in_silence_is_divided_too_and_nothing_of_it_is_left() -> None:
    segments = [said("thank you " * 40, 100.0 * n, each=0.5) for n in range(3)]
    tasks = plan([doubt(s.start, s.end, "no voice") for s in segments], segments, {}, 400.0)
    assert all(limits.SPAN / 4 <= task.end - task.start <= limits.SPAN + 0.02 for task in tasks)
    assert apply(segments, [(task.start, task.end, 0, ()) for task in tasks]) == ()
    assert all(len(wire.dump(task)) < 65_536 for task in tasks)
