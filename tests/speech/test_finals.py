"""Guards of the final, the language of a stream, and the order of what goes out."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np

from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, Transcript
from speech.config import StreamConfig
from speech.events import Event, Final, Partial, SpeechStarted, Word
from speech.finals import Spoken, final
from speech.language import LanguageLock
from speech.outlet import Outlet
from speech.pieces import Piece
from tests.speech.sounds import joined, silence
from workers.errors import BackendFailed

CONFIG = StreamConfig("any", DecodeOptions(language="en"))
OPEN = replace(CONFIG, options=DecodeOptions())


def told(text: str, *times: tuple[float, float], language: str = "en", sure: float = 0.9, logprob: float = -0.2):
    words = tuple(Word(f" {word}", *time, 0.9) for word, time in zip(text.split(), times, strict=True))
    return Transcript(text, words, (), language, sure, logprob, 0.1, 1.2, 0.0, 5.0)


def piece(*speech: tuple[float, float], at: float = 100.0, config: StreamConfig = CONFIG) -> Piece:
    """Loud where there is speech (seconds in the piece); begins at second `at` of the stream."""
    made = Piece(3, config)
    length = speech[-1][1] + 0.4
    sound = np.random.default_rng(1).normal(0, 0.001, round(length * SAMPLE_RATE)).astype(np.float32)
    for start, end in speech:
        part = slice(round(start * SAMPLE_RATE), round(end * SAMPLE_RATE))
        sound[part] += np.sin(np.arange(part.stop - part.start, dtype=np.float32) / 10)
    made.append(sound, round(at * SAMPLE_RATE))
    for start, end in speech:
        made.voice(round((at + start) * SAMPLE_RATE), round((at + end) * SAMPLE_RATE))
    return made


class Answers:
    """Answers requests in turn and keeps them."""

    def __init__(self, *answers: Transcript) -> None:
        self.answers, self.requests = list(answers), list[FinalRequest]()

    async def __call__(self, request: FinalRequest) -> Transcript:
        self.requests.append(request)
        return self.answers[len(self.requests) - 1]


def ask(sound: Piece, answers: Answers, lock: LanguageLock | None = None) -> Spoken:
    return asyncio.run(final(sound, sound.audio.samples, answers, lock, ()))


def test_word_times_are_on_the_clock_of_the_stream() -> None:
    spoken = ask(piece((0.3, 1.3)), Answers(told("two words", (0.3, 0.8), (0.8, 1.3))))
    assert [(word.start, word.end) for word in spoken.words] == [(100.3, 100.8), (100.8, 101.3)]


def parted(*, gap: float, second: tuple[float, float]) -> Piece:
    """Voice in seconds 0.3 to 1.3 of a piece; from its second 1.5 on it lies `gap` seconds later, with voice there."""
    whole = piece((0.3, 1.3), second, at=0.0)
    made, cut = Piece(3, CONFIG), round(1.5 * SAMPLE_RATE)
    made.append(whole.audio.samples[:cut], 0)
    made.append(whole.audio.samples[cut:], cut + round(gap * SAMPLE_RATE))
    for first, last in ((0.3, 1.3), tuple(gap + edge for edge in second)):
        made.voice(round(first * SAMPLE_RATE), round(last * SAMPLE_RATE))
    return made


def test_no_word_lies_in_a_gap() -> None:
    """Not before it, not behind it, and not on both sides: it is where its voice is, else where more of it is."""
    rows = {
        (0.6, 1.5): (0.6, 1.5),  # up to the gap
        (1.5, 2.1): (61.5, 62.1),  # right behind it
        (1.35, 2.0): (61.5, 62.0),  # begins in the silence before
        (0.9, 1.7): (0.9, 1.5),  # ends in the silence behind
        (1.32, 1.6): (1.32, 1.5),  # in silence on both sides
    }
    for said, placed in rows.items():
        spoken = ask(parted(gap=60.0, second=(1.8, 2.4)), Answers(told("word", said)))
        assert [(word.start, word.end) for word in spoken.words] == [placed], said


def test_a_tail_without_words_behind_a_gap_is_decoded_by_itself() -> None:
    answers = Answers(told("one", (0.3, 1.3)), told("two", (0.5, 1.0)))
    spoken = ask(parted(gap=60.0, second=(1.8, 3.4)), answers)
    assert spoken.text == "one two"
    cut = len(answers.requests[0].samples) - len(answers.requests[1].samples)
    assert 1.2 <= cut / SAMPLE_RATE <= 1.7, "in the silence, on either side of the gap"
    assert spoken.words[1].start == 60.0 + round(cut / SAMPLE_RATE + 0.5, 4)


def test_less_voice_than_a_word_asks_nobody() -> None:
    answers = Answers()
    assert ask(piece((0.3, 0.38)), answers).text == ""
    assert not answers.requests


def test_words_far_from_all_voice_are_dropped() -> None:
    answers = Answers(told("Hello there Thank you", (0.3, 0.6), (0.6, 1.0), (2.5, 2.8), (2.8, 3.0)))
    sound = piece((0.3, 1.0), (4.0, 4.5))
    spoken = ask(sound, answers)
    assert spoken.text == "Hello there"
    assert len(spoken.words) == 2


def test_a_sentence_over_a_scrap_of_a_word_is_made_up() -> None:
    sound = piece((0.0, 0.2))
    scrap = sound.audio.samples[: round(0.2 * SAMPLE_RATE)]
    for text, kept in (("one two", "one two"), ("and he was a little bit more patient", "")):
        count = len(text.split())
        answers = Answers(told(text, *((0.2 * n / count, 0.2 * (n + 1) / count) for n in range(count))))
        spoken = asyncio.run(final(sound, scrap, answers, None, ()))
        assert (spoken.text, len(spoken.words)) == (kept, len(kept.split()))


def test_a_missed_tail_is_decoded_once_more_from_a_quiet_point() -> None:
    answers = Answers(told("Hello there", (0.3, 0.6), (0.6, 1.0)), told("my friend", (0.2, 0.6), (0.6, 1.6)))
    spoken = ask(piece((0.3, 1.0), (1.3, 3.0)), answers)
    assert spoken.text == "Hello there my friend"
    first, second = answers.requests
    cut = (len(first.samples) - len(second.samples)) / SAMPLE_RATE
    assert 1.0 <= cut <= 1.3
    assert abs(spoken.words[2].start - (100 + cut + 0.2)) < 1e-3
    np.testing.assert_array_equal(second.samples, first.samples[-len(second.samples) :])


def test_a_short_rest_without_words_is_left_alone() -> None:
    answers = Answers(told("Hello there", (0.3, 0.6), (0.6, 1.0)))
    assert ask(piece((0.3, 1.8)), answers).text == "Hello there"


# Language


def test_the_first_confident_final_fixes_the_language() -> None:
    lock, sound = LanguageLock(), piece((0.3, 2.0), config=OPEN)
    times = ((0.3, 1.0), (1.0, 2.0))
    ask(sound, Answers(told("je ne", *times, language="fr", sure=0.4)), lock)
    assert lock.current is None
    ask(sound, Answers(told("guten Tag", *times, language="de", sure=0.9)), lock)
    assert lock.current == "de"
    answers = Answers(told("ja gut", *times, language="de", sure=1.0))
    ask(sound, answers, lock)
    assert answers.requests[0].options.language == "de"


def test_a_short_word_fixes_nothing() -> None:
    lock = LanguageLock()
    ask(piece((0.3, 0.9), config=OPEN), Answers(told("no", (0.3, 0.9), language="es", sure=0.99)), lock)
    assert lock.current is None


def test_two_confident_others_in_a_row_change_the_language() -> None:
    lock, sound = LanguageLock(), piece((0.3, 2.0), config=OPEN)
    lock.current = "de"
    times = ((0.3, 1.0), (1.0, 2.0))
    bad = told("gud moaning", *times, language="de", sure=1.0, logprob=-1.2)
    good = told("good morning", *times, language="en", sure=0.95, logprob=-0.2)
    answers = Answers(bad, good)
    assert ask(sound, answers, lock).text == "good morning"
    assert [request.options.language for request in answers.requests] == ["de", None]
    assert lock.current == "de"
    ask(sound, Answers(bad, good), lock)
    assert lock.current == "en"


def test_one_other_in_between_is_forgotten() -> None:
    lock, sound = LanguageLock(), piece((0.3, 2.0), config=OPEN)
    lock.current = "de"
    times = ((0.3, 1.0), (1.0, 2.0))
    bad = told("gud moaning", *times, language="de", sure=1.0, logprob=-1.2)
    good = told("good morning", *times, language="en", sure=0.95)
    ask(sound, Answers(bad, good), lock)
    ask(sound, Answers(told("guten Tag", *times, language="de", sure=1.0)), lock)
    ask(sound, Answers(bad, good), lock)
    assert lock.current == "de"


# The way out


def partial(utterance: int, stable: str, unstable: str = "") -> Partial:
    return Partial(utterance, stable, unstable, 1.0)


def ended(utterance: int) -> Final:
    return Final(utterance, "x", (), 0.0, 1.0, "en", 1.0, 0.0, 1.0)


async def test_events_wait_for_their_turn_but_speech_does_not() -> None:
    outlet = Outlet()
    first, second = outlet.reserve(), outlet.reserve()
    outlet.put(partial(1, "later"), second)
    outlet.put(ended(1), second)
    outlet.end(second)
    outlet.put(SpeechStarted(2, 5.0))
    outlet.put(partial(0, "now"), first)
    outlet.end(first)
    outlet.close()
    events: list[Event] = [event async for event in outlet.events()]
    assert events == [SpeechStarted(2, 5.0), partial(0, "now"), partial(1, "later"), ended(1)]


async def test_a_slow_reader_gets_every_final_and_all_stable_text() -> None:
    outlet = Outlet()
    for utterance in range(40):
        turn = outlet.reserve()
        for count in range(10):
            outlet.put(partial(utterance, f" {count}", f"tail {count}"), turn)
        outlet.put(ended(utterance), turn)
        outlet.end(turn)
    assert len(outlet._events) < 200
    outlet.close()
    events = [event async for event in outlet.events()]
    assert [event.utterance for event in events if isinstance(event, Final)] == list(range(40))
    for utterance in range(40):
        partials = [event for event in events if isinstance(event, Partial) and event.utterance == utterance]
        assert "".join(event.stable for event in partials) == "".join(f" {count}" for count in range(10))
        assert partials[-1].unstable == "tail 9"


async def test_the_reader_is_told_what_ended_the_stream() -> None:
    outlet = Outlet()
    outlet.put(SpeechStarted(0, 0.0))
    outlet.close(BackendFailed("broken"))
    seen = []
    try:
        async for event in outlet.events():
            seen.append(event)
    except BackendFailed as error:
        assert error.message == "broken"
    assert seen == [SpeechStarted(0, 0.0)]


def test_positions_in_manual_pieces_skip_the_silence() -> None:
    made = Piece(0, CONFIG)
    made.append(silence(1.0), 0)
    made.append(joined(silence(1.0)), 60 * SAMPLE_RATE)
    made.voice(0, SAMPLE_RATE)
    made.voice(60 * SAMPLE_RATE, 61 * SAMPLE_RATE)
    spoken = ask(made, Answers(told("one two", (0.2, 0.8), (1.2, 1.8))))
    assert [(word.start, word.end) for word in spoken.words] == [(0.2, 0.8), (60.2, 60.8)]
