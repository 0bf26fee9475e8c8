"""One stream of speech on virtual time, with a voice of sines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from speech.speaking.config import SpeakConfig, checked
from speech.speaking.events import Progress, SoundMade, SpeechDone, SpeechFailed, WordsTimed
from speech.speaking.making import PATIENCE
from speech.speaking.pacing import UNREAD
from speech.speaking.script import MOST_TEXT
from speech.speaking.speaker import Speaker
from speech.speaking.tally import Tally
from tests.speech.speaking.sines import FIRST_WINDOW, RATE, WINDOW, WORD
from tests.speech.speaking.stage import Listener, Stage, stage
from workers.errors import BackendFailed, Expired, InputInvalid, InputTooLarge
from workers.task import Phase

ONE = "One two three four five six seven eight nine ten."
TEXT = f"{ONE} Eleven twelve thirteen. {ONE}"
CONVERSATION = SpeakConfig()
FILE = SpeakConfig(lead=None)


def quick() -> Stage:
    return stage(a=0.004, k=0.001)


def opened(made: Stage, config: SpeakConfig = CONVERSATION, **how: Any) -> Speaker:
    return Speaker(config, voice=made.voice, pool=made.pool, clock=made.clock, **how)


def heard(made: Stage, text: str, config: SpeakConfig = CONVERSATION, reports: float = 0.0) -> Listener:
    async def play() -> Listener:
        speaker = opened(made, config)
        await speaker.say(text)
        await speaker.end()
        return await Listener(speaker, made.clock, reports).listen()

    listener: Listener = made.run(play())
    return listener


# The sound


def test_sound_and_words_of_a_text() -> None:
    listener = heard(quick(), TEXT)
    assert listener.end == SpeechDone(pytest.approx(23 * WORD))
    assert len(listener.sound) == round(23 * WORD * RATE)
    starts = [event.start for event in listener.events if isinstance(event, SoundMade)]
    lengths = [len(event.samples) for event in listener.events if isinstance(event, SoundMade)]
    assert starts == [0, *np.cumsum(lengths)[:-1].tolist()]
    assert lengths[0] == FIRST_WINDOW and max(lengths) == WINDOW
    assert [word.text for word in listener.words] == TEXT.replace(".", "").split()
    for number, word in enumerate(listener.words):
        assert word.text == TEXT[word.start_char : word.end_char]
        assert (word.start, word.end) == (pytest.approx(number * WORD), pytest.approx((number + 1) * WORD))


def test_words_come_no_later_than_their_first_sample() -> None:
    known = made = 0.0
    for event in heard(quick(), TEXT).events:
        if isinstance(event, WordsTimed):
            assert all(word.start >= made - 1e-6 for word in event.words)
            known = event.words[-1].end
        elif isinstance(event, SoundMade):
            made = (event.start + len(event.samples)) / RATE
            assert known >= made - 1e-6


def test_the_sound_is_the_same_however_the_text_comes_and_whoever_listens() -> None:
    made = quick()
    whole = heard(made, TEXT)

    async def play() -> Listener:
        speaker = opened(made)
        listening = asyncio.create_task(Listener(speaker, made.clock, 0.2).listen())
        for letter in TEXT:
            await speaker.say(letter)
            await asyncio.sleep(0.001)
        await speaker.end()
        return await listening

    pieces: Listener = made.run(play())
    file = heard(made, TEXT, FILE)
    for other in (pieces, file):
        assert np.array_equal(whole.sound, other.sound)
        assert whole.words == other.words
    assert not np.array_equal(whole.sound, heard(made, TEXT, SpeakConfig(seed=1)).sound)
    assert made.quiet


def test_the_next_segment_is_planned_while_one_plays_so_that_no_gap_is_between_them() -> None:
    listener = heard(stage(a=0.1), f"{ONE} {ONE} {ONE} {ONE}")
    assert listener.gaps == []


@pytest.mark.parametrize("text", ["", " ", "\n\n", "...", "?!", "\x00\x07"])
def test_nothing_to_say_is_done_at_once(text: str) -> None:
    listener = heard(quick(), text)
    assert listener.events == [SpeechDone(0.0)]


def test_a_sentence_without_sound_leaves_the_trim_to_the_first_that_has_one() -> None:
    listener = heard(quick(), f"!!! ?? ... {ONE}")
    assert listener.arrivals[0][1] == FIRST_WINDOW


def test_text_that_stalls_is_spoken_without_its_end() -> None:
    made = quick()

    async def play() -> float:
        speaker = opened(made)
        await speaker.say("one two three four fi")
        listener = Listener(speaker, made.clock)
        listening = asyncio.create_task(listener.listen())
        await asyncio.sleep(2.0)
        assert [word.text for word in listener.words] == ["one", "two", "three", "four"]
        first = listener.arrivals[0][0]
        await speaker.say("ve.")
        await speaker.end()
        await listening
        assert [word.text for word in listener.words][-1] == "five"
        return first

    assert CONVERSATION.stall <= made.run(play()) <= CONVERSATION.stall + 0.1


def test_flush_speaks_what_there_is_and_the_stream_goes_on() -> None:
    made = quick()

    async def play() -> None:
        speaker = opened(made, SpeakConfig(stall=30.0))
        listener = Listener(speaker, made.clock)
        listening = asyncio.create_task(listener.listen())
        await speaker.say("one two")
        await asyncio.sleep(1.0)
        assert not listener.events
        await speaker.flush()
        await asyncio.sleep(1.0)
        assert [word.text for word in listener.words] == ["one", "two"]
        await speaker.say(" three")
        await speaker.end()
        await listening
        assert [word.text for word in listener.words] == ["one", "two", "three"]

    made.run(play())


# The pace


@pytest.mark.parametrize("reports", [0.0, 0.25])
def test_no_more_is_made_than_the_lead_allows(reports: float) -> None:
    made = quick()
    most = 0.0

    async def play() -> None:
        nonlocal most
        speaker = opened(made)
        listener = Listener(speaker, made.clock, reports)
        listening = asyncio.create_task(listener.listen())
        await speaker.say(f"{ONE} " * 5)
        await speaker.end()
        while not listening.done():
            await asyncio.sleep(0.013)
            most = max(most, speaker.progress().made - listener.playhead(made.clock.now))
        assert listener.gaps == []

    made.run(play())
    assert CONVERSATION.lead is not None and CONVERSATION.lead - 0.7 <= most <= CONVERSATION.lead + 1e-6


def test_a_file_is_made_as_fast_as_it_is_read() -> None:
    made = quick()
    listener = heard(made, f"{ONE} " * 40, FILE)
    assert listener.end == SpeechDone(pytest.approx(400 * WORD))
    assert made.clock.now < 400 * WORD / 10


def test_a_reader_that_stops_stops_its_own_stream_alone_and_is_given_up_in_the_end() -> None:
    made = quick()

    async def play() -> None:
        for config, bound in ((CONVERSATION, CONVERSATION.lead), (FILE, UNREAD + 1.0)):
            speaker = opened(made, config)
            await speaker.say(f"{ONE} " * 50)
            await asyncio.sleep(20.0)
            other = Listener(opened(made), made.clock)
            await other.speaker.say(ONE)
            await other.speaker.end()
            assert (await other.listen()).gaps == []
            assert bound is not None and speaker.progress().made <= bound
            await asyncio.sleep(PATIENCE)
            assert made.quiet
            events = [event async for event in speaker.events()]
            assert isinstance(events[-1], SpeechFailed) and isinstance(events[-1].error, Expired)
            assert any(isinstance(event, SoundMade) for event in events), "what was made is still there"
            with pytest.raises(Expired):
                await speaker.say("more")

    made.run(play())


def test_reports_move_the_deadline_of_the_window_under_way() -> None:
    """The device is busy; a listener whose playback stands still is no longer the most urgent."""
    made = stage(a=0.2, items=1)

    async def play() -> None:
        speaker = opened(made)
        listener = Listener(speaker, made.clock)
        listening = asyncio.create_task(listener.listen())
        await speaker.say(ONE)
        await speaker.end()
        while len(listener.arrivals) < 3:
            await asyncio.sleep(0.01)
        while (window := speaker._maker._window) is None or window.phase is not Phase.WAITING:
            await asyncio.sleep(0.001)
        before = window.task.deadline
        speaker.played(speaker.progress().played - 0.05)
        assert window.task.deadline == pytest.approx(before + 0.05, abs=0.005)
        await asyncio.sleep(0.0)
        listening.cancel()
        await speaker.close()

    made.run(play())


def test_what_the_gateway_says_it_sent_counts_instead_of_what_was_read() -> None:
    made = quick()

    async def play() -> None:
        speaker = opened(made)
        listening = asyncio.create_task(Listener(speaker, made.clock).listen())
        speaker.sent(0.0)
        await speaker.say(f"{ONE} " * 3)
        await asyncio.sleep(10.0)
        assert speaker.progress().played == 0.0
        assert speaker.progress().made <= 1.75
        speaker.sent(1.0)
        await asyncio.sleep(0.4)
        assert speaker.progress().played == pytest.approx(0.4)
        with pytest.raises(InputInvalid):
            speaker.sent(float("nan"))
        await speaker.cancel()
        await listening

    made.run(play())


def test_after_a_hold_the_same_samples_go_on() -> None:
    made = quick()
    whole = heard(made, TEXT)

    async def play() -> Listener:
        speaker = opened(made)
        listener = Listener(speaker, made.clock)
        listening = asyncio.create_task(listener.listen())
        await speaker.say(TEXT)
        await speaker.end()
        for pause in (0.0031, 0.0057, 0.6, 0.9, 0.011, 1.3):
            await asyncio.sleep(pause)
            speaker.hold()
            await asyncio.sleep(0.02)
            steps, got = made.voice.made.steps, len(listener.events)
            await asyncio.sleep(3.0)
            assert made.voice.made.steps == steps, "nothing is made"
            assert len(listener.events) == got, "nothing is handed out"
            speaker.hold()
            speaker.resume()
            speaker.resume()
        speaker.hold()
        speaker.resume()  # at once: what was taken back is asked for again
        return await listening

    listener: Listener = made.run(play())
    assert np.array_equal(listener.sound, whole.sound)
    assert listener.words == whole.words
    assert made.quiet


# The end


async def at(moment: float, made: Stage, speaker: Speaker) -> tuple[Listener, Progress, int]:
    """(what was heard, the answer to a cancel at `moment`, steps after it)."""
    listener = Listener(speaker, made.clock)
    listening = asyncio.create_task(listener.listen())
    await speaker.say(TEXT)
    await asyncio.sleep(moment)
    steps, events = made.voice.made.steps, len(listener.events)
    progress = await speaker.cancel()
    await listening
    assert len(listener.events) == events, "no event follows a cancel"
    assert await speaker.cancel() is progress
    assert speaker.progress() is progress
    await speaker.close()
    await asyncio.sleep(1.0)
    return listener, progress, made.voice.made.steps - steps


@pytest.mark.parametrize("moment", [0.0, 0.001, 0.006, 0.011, 0.013, 0.1, 0.5, 0.93, 1.0, 3.3, 5.0, 6.8, 7.5, 60.0])
def test_a_cancel_costs_at_most_a_step_and_tells_what_was_heard(moment: float) -> None:
    made, tally = quick(), Tally(lambda: 0.0)

    async def play() -> tuple[Listener, Progress, int]:
        return await at(moment, made, opened(made, tally=tally))

    listener, progress, steps = made.run(play())
    assert steps <= 1
    assert progress.spoken + progress.unspoken == TEXT
    assert progress.characters == len(progress.spoken)
    speaker_made = len(listener.sound) / RATE
    assert progress.made >= speaker_made - 1e-6
    assert progress.played <= speaker_made + 1e-6
    expected = [word for word in listener.words if word.end <= progress.played + 1e-6]
    assert progress.spoken.replace(".", "").split() == [word.text for word in expected]
    assert not (progress.spoken[-1:].isalnum() and progress.unspoken[:1].isalnum()), "no word is cut"
    assert tally.made == pytest.approx(progress.made)
    assert tally.wasted == pytest.approx(progress.made - progress.played, abs=WINDOW / RATE)
    assert tally.speaking == 0
    assert made.quiet


def test_after_the_end_the_listener_still_hears_and_may_cancel() -> None:
    made, tally = quick(), Tally(lambda: 0.0)

    async def play() -> None:
        speaker = opened(made, tally=tally)
        await speaker.say(ONE)
        await speaker.end()
        listener = await Listener(speaker, made.clock).listen()
        assert isinstance(listener.end, SpeechDone)
        left = speaker.progress()
        assert left.unspoken
        assert (await speaker.cancel()).characters == left.characters
        assert tally.wasted == pytest.approx(left.made - left.played)

    made.run(play())


def test_a_stream_that_was_read_to_its_end_wastes_nothing() -> None:
    made, tally = quick(), Tally(lambda: 0.0)

    async def play() -> None:
        speaker = opened(made, tally=tally)
        await speaker.say(ONE)
        await speaker.end()
        await Listener(speaker, made.clock).listen()
        await speaker.close()
        await speaker.close()
        assert (tally.wasted, tally.speaking) == (0.0, 0)
        await asyncio.sleep(5.0)
        assert speaker.progress().unspoken == ""

    made.run(play())


def test_text_after_the_end_is_an_error_and_ending_twice_is_not() -> None:
    made = quick()

    async def play() -> None:
        speaker = opened(made)
        await speaker.say("one")
        await speaker.end()
        await speaker.end()
        calls: list[Callable[[], Awaitable[None]]] = [lambda: speaker.say("two"), speaker.flush]
        for call in calls:
            with pytest.raises(InputInvalid) as refused:
                await call()
            assert refused.value.param == "text"
        listener = await Listener(speaker, made.clock).listen()
        assert [word.text for word in listener.words] == ["one"]
        await speaker.close()
        with pytest.raises(InputInvalid):
            await speaker.say("two")
        await speaker.end()

    made.run(play())


def test_a_stream_has_a_most_of_text_and_takes_all_of_it() -> None:
    made = quick()

    async def play() -> None:
        speaker = opened(made, FILE)
        await speaker.say("a" * (MOST_TEXT - 1))
        with pytest.raises(InputTooLarge):
            await speaker.say("aa")
        await asyncio.sleep(0.5)
        progress = await speaker.cancel()
        assert progress.spoken + progress.unspoken == "a" * (MOST_TEXT - 1)

    made.run(play())


def test_what_breaks_the_model_ends_its_stream_alone() -> None:
    made = quick()

    async def play() -> tuple[Listener, Listener]:
        poisoned, other = (Listener(opened(made, SpeakConfig(seed=n)), made.clock) for n in range(2))
        for listener, text in ((poisoned, f"{ONE} This poison is a word that breaks the model. {ONE}"), (other, TEXT)):
            await listener.speaker.say(text)
        await other.speaker.end()
        await asyncio.gather(poisoned.listen(), other.listen())
        with pytest.raises(BackendFailed):
            await poisoned.speaker.say("more")
        return poisoned, other

    poisoned, other = made.run(play())
    assert isinstance(poisoned.end, SpeechFailed) and isinstance(poisoned.end.error, BackendFailed)
    assert len(poisoned.sound) == round(10 * WORD * RATE), "what was made before holds"
    assert np.array_equal(other.sound, heard(made, TEXT, SpeakConfig(seed=1)).sound)
    assert made.quiet


def test_a_device_that_is_lost_in_mid_sentence_changes_nothing() -> None:
    made = quick()
    whole, steps = heard(made, TEXT), 0

    def mishap(states: object) -> None:
        nonlocal steps
        steps += 1
        if steps in (1, 4, 9, 16, 25):
            made.voice.made.gone = True
            raise RuntimeError("device lost")

    made.voice.made.before_step = mishap
    again = heard(made, TEXT)
    assert steps > 25
    assert np.array_equal(again.sound, whole.sound)
    assert again.words == whole.words
    assert made.quiet


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("speed", (0.0, -1.0, 0.24, 4.1, float("nan"), float("inf"))),
        ("seed", (-1, 2**63)),
        ("split", ("", "word")),
        ("lead", (0.0, -1.0, float("nan"))),
        ("stall", (0.0, float("nan"))),
        ("max_characters", (0, 1_000_000)),
    ],
)
def test_a_setting_out_of_range_is_named(field: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(InputInvalid) as refused:
            checked(SpeakConfig(**{field: value}))
        assert refused.value.param == field
