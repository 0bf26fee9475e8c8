"""One live stream, end to end: real voice activity, and either real Whisper or a model that hears loudness."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from speech.asr import SAMPLE_RATE, DecodeOptions, Samples
from speech.config import StreamConfig
from speech.events import (
    Cleared,
    Committed,
    Event,
    Failed,
    Final,
    IdleTimeout,
    Lagging,
    Partial,
    SpeechStarted,
    SpeechStopped,
)
from speech.models import resolve
from speech.transcriber import Transcriber
from speech.vad import SileroVad
from speech.whisper import weights
from speech.whisper.backend import WhisperBackend
from speech.whisper.profile import Precision
from tests.speech.sounds import joined, not_speech, recording, silence
from tests.speech.stages import Loudness, Stage, everything, say, stage, without_lag, words
from workers.capacity import Capacity
from workers.errors import BackendFailed, InputInvalid, ServingError

AUTOMATIC = StreamConfig("any", DecodeOptions(language="en"))
MANUAL = replace(AUTOMATIC, automatic=False)


@pytest.fixture(scope="module")
def whisper() -> Iterator[Stage]:
    folder = resolve("tiny.en").directory
    made = stage(WhisperBackend("tiny.en", weights.load(folder), folder, Precision()))
    yield made
    made.close()


@pytest.fixture
def loudness() -> Iterator[Stage]:
    made = stage(Loudness())
    yield made
    made.backend.gate.set()
    made.close()


async def hear(stream: Transcriber, samples: Samples, cuts: tuple[int, ...] = ()) -> list[Event]:
    reader = asyncio.create_task(everything(stream))
    await say(stream, samples, cuts)
    await stream.finish()
    return await reader


def of(events: list[Event], kind: type) -> list:
    return [event for event in events if isinstance(event, kind)]


def plain(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == " " else " " for c in text.lower()).split()


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not reached():
            await asyncio.sleep(0.005)


# Real Whisper


async def test_words_come_while_speaking_and_the_final_is_right(whisper: Stage) -> None:
    sound = joined(recording("austen-0890.wav"), silence(1))
    events = await hear(whisper.stream(AUTOMATIC, max_lag=math.inf), sound)
    [started], [stopped], [committed], [final] = (
        of(events, kind) for kind in (SpeechStarted, SpeechStopped, Committed, Final)
    )
    assert plain(final.text) == plain("Unless to be rather cold-hearted and rather selfish is to be ill-disposed")
    assert (final.start, final.end) == (started.at, stopped.at) == (committed.start, committed.end)
    assert committed.reason == "vad"
    assert final.language == "en"
    assert 0.5 < final.confidence <= 1.0
    assert "".join(word.text for word in final.words).strip() == final.text
    times = [time for word in final.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert started.at <= times[0] and times[-1] <= stopped.at
    partials = of(events, Partial)
    stable = [partial for partial in partials if partial.stable]
    assert stable[0].audio_end < final.words[-1].end - 1.0
    said = "".join(partial.stable for partial in partials)
    assert said[0] != " "
    assert plain(said) == plain(final.text)[: len(plain(said))]
    assert [partial.audio_end for partial in partials] == sorted(partial.audio_end for partial in partials)


async def test_one_append_with_speech_silence_speech_is_two_utterances_and_the_first_word_is_kept(
    whisper: Stage,
) -> None:
    first, second = recording("austen-0880.wav")[3200:], recording("austen-0930.wav")
    sound = joined(first, silence(10 - (len(first) + len(second)) / SAMPLE_RATE), second)
    assert len(sound) == 10 * SAMPLE_RATE
    events = await hear(whisper.stream(replace(AUTOMATIC, partials=False)), sound)
    one, two = of(events, Final)
    assert plain(one.text)[:4] + plain(one.text)[-2:] == ["he", "was", "not", "an", "young", "man"]
    assert one.start == 0.0
    assert plain(two.text)[-4:] == ["been", "made", "amiable", "himself"]
    begin = (len(sound) - len(second)) / SAMPLE_RATE
    assert begin - 0.1 < two.words[0].start < begin + 0.8
    assert begin + 2.3 < two.words[-1].end < 10.0
    assert of(events, Committed)[1].reason == "end"


async def test_manual_commit_after_a_minute_of_silence(whisper: Stage) -> None:
    stream = whisper.stream(replace(MANUAL, partials=False))
    reader = asyncio.create_task(everything(stream))
    await say(stream, joined(silence(60), recording("austen-0880.wav"), silence(5)))
    await stream.commit()
    await stream.finish()
    events = await reader
    [committed, final] = events
    assert (committed.start, committed.reason) == (0.0, "client")
    assert plain(final.text)[:4] + plain(final.text)[-2:] == ["he", "was", "not", "an", "young", "man"]
    assert 59.8 < final.words[0].start < 61.0
    assert 62.0 < final.words[-1].end < 63.2


async def test_commit_in_mid_speech_and_on_with_voice_activity(whisper: Stage) -> None:
    sound, at = joined(recording("austen-0870.wav"), silence(1)), round(3.4 * SAMPLE_RATE) + 11
    stream = whisper.stream(replace(AUTOMATIC, partials=False))
    reader = asyncio.create_task(everything(stream))
    await stream.append(sound[:at])
    await stream.commit()
    await stream.append(sound[at:])
    await stream.finish()
    events = await reader
    first, second = of(events, Committed)
    assert (first.reason, second.reason) == ("client", "vad")
    assert first.end == second.start == at / SAMPLE_RATE
    text = plain(" ".join(final.text for final in of(events, Final)))
    assert {"dashwood", "leisure", "prudently", "power"} <= set(text)


@pytest.mark.parametrize("kind", ["silence", "white noise", "hum", "music"])
async def test_a_minute_of_anything_but_speech_has_no_words(whisper: Stage, kind: str) -> None:
    sound = not_speech(kind, 60)
    events = await hear(whisper.stream(AUTOMATIC), sound)
    stream = whisper.stream(MANUAL)
    reader = asyncio.create_task(everything(stream))
    await stream.append(sound)
    await stream.commit()
    await stream.finish()
    events += await reader
    assert all(final.text == "" for final in of(events, Final))
    assert of(events, Final)
    assert not of(events, Partial)


async def test_whisper_gives_the_same_for_any_cut(whisper: Stage) -> None:
    sound = joined(silence(0.3), recording("austen-0880.wav"), silence(1.2), recording("austen-0930.wav"), silence(0.8))
    results = []
    for cuts in ((), (320,) * len(sound), (1, 7, 16_001, 4801)):
        segmented, decoded = without_lag(await hear(whisper.stream(AUTOMATIC, max_lag=math.inf), sound, cuts))
        # Batch mates may change the last bits of a probability, never a word or a time.
        plainly = [
            replace(event, confidence=round(event.confidence, 3), no_speech=round(event.no_speech, 3), tokens=(),
                    words=tuple(replace(word, confidence=round(word.confidence, 3)) for word in event.words))
            if isinstance(event, Final) else event
            for event in decoded
        ]  # fmt: skip
        results.append((segmented, plainly))
    assert len(of(results[0][1], Final)) == 2
    assert results[1] == results[0]
    assert results[2] == results[0]


# Every committed utterance ends once, in order


async def test_a_commit_of_silence_asks_no_model(loudness: Stage) -> None:
    stream = loudness.stream(MANUAL)
    reader = asyncio.create_task(everything(stream))
    await stream.append(silence(20))
    await stream.commit()
    with pytest.raises(InputInvalid) as error:
        await stream.commit()
    assert error.value.code == "input_audio_buffer_commit_empty"
    await stream.finish()
    [committed, final] = await reader
    assert (committed.start, committed.end) == (0.0, 20.0)
    assert (final.text, final.words, final.speech_seconds) == ("", (), 0.0)
    assert not loudness.backend.finals and not loudness.backend.partials


async def test_finals_come_in_order_whatever_takes_longer(loudness: Stage) -> None:
    long, short = recording("austen-0870.wav"), recording("austen-0880.wav")
    loudness.backend.gate.clear()
    stream = loudness.stream(replace(AUTOMATIC, partials=False))
    reader = asyncio.create_task(everything(stream))
    await stream.append(joined(long, silence(1), short, silence(1), short, silence(1)))
    await until(lambda: len(loudness.backend.finals) == 3)
    loudness.backend.gate.set()
    await stream.finish()
    events = await reader
    assert [event.utterance for event in of(events, Final)] == [0, 1, 2]
    for event, request in zip(of(events, Final), loudness.backend.finals, strict=True):
        assert event.text == " ".join(map(str, words(request.samples)))
    last = [type(event) for event in events[-3:]]
    assert last == [Final, Final, Final]


async def test_a_failing_final_is_told_and_the_stream_goes_on(loudness: Stage) -> None:
    loudness.backend.fails = lambda samples: len(samples) > 5 * SAMPLE_RATE
    sound = joined(recording("austen-0870.wav"), silence(1), recording("austen-0880.wav"), silence(1))
    events = await hear(loudness.stream(AUTOMATIC), sound)
    ends = of(events, Failed) + of(events, Final)
    assert [(type(end), end.utterance) for end in ends] == [(Failed, 0), (Final, 1)]
    assert isinstance(ends[0].error, BackendFailed)


async def test_long_speech_is_cut_and_every_sample_is_heard_once(loudness: Stage) -> None:
    speech = joined(*[recording(f"austen-0{n}.wav") for n in (870, 890, 920, 930)])
    config = replace(AUTOMATIC, max_utterance=6.0, partials=False)
    events = await hear(loudness.stream(config), joined(speech, silence(1)))
    cuts = [committed for committed in of(events, Committed) if committed.reason == "length"]
    assert cuts
    ends = {committed.end for committed in cuts}
    starts = {committed.start for committed in of(events, Committed)}
    assert len(ends & starts) >= len(ends) - 1
    assert all(committed.end - committed.start <= 6.1 for committed in of(events, Committed))
    assert [final.utterance for final in of(events, Final)] == list(range(len(of(events, Committed))))


async def test_long_manual_speech_is_one_final_of_several_pieces(loudness: Stage) -> None:
    speech = joined(*[recording("austen-0870.wav")] * 6)
    stream = loudness.stream(replace(MANUAL, partial_interval=2.0), max_lag=math.inf)
    reader = asyncio.create_task(everything(stream))
    await stream.append(speech)
    await stream.commit()
    await stream.finish()
    events = await reader
    [committed], [final] = of(events, Committed), of(events, Final)
    assert len(loudness.backend.finals) >= 2
    assert all(len(request.samples) <= 28.1 * SAMPLE_RATE for request in loudness.backend.finals)
    expected = [word for request in loudness.backend.finals for word in words(request.samples)]
    assert final.text == " ".join(map(str, expected))
    starts = [word.start for word in final.words]
    assert starts == sorted(starts)
    assert starts[-1] > committed.end - 2.0
    stable = "".join(partial.stable for partial in of(events, Partial))
    assert final.text.startswith(stable)
    assert len(stable) > 0.7 * len(final.text)


# Partials, lag, backpressure


async def test_partials_that_come_too_late_are_skipped_and_told_once(loudness: Stage) -> None:
    now = 0.0
    stream = loudness.stream(AUTOMATIC, clock=lambda: now)
    reader = asyncio.create_task(everything(stream))
    loudness.backend.gate.clear()
    await stream.append(recording("austen-0870.wav"))
    await until(lambda: bool(loudness.backend.partials))
    now = 5.0
    loudness.backend.gate.set()
    await until(lambda: stream._newest is not None and not stream._newest._due)
    await stream.append(silence(1))
    await stream.finish()
    events = await reader
    assert len(of(events, Lagging)) == 1
    assert len(of(events, Partial)) <= 1
    assert len(of(events, Final)) == 1


async def test_append_waits_while_voice_activity_is_behind(loudness: Stage) -> None:
    class Slow(SileroVad):
        def step(self, states):  # type: ignore[no-untyped-def]
            loudness.backend.gate.wait(10)
            return super().step(states)

    slow = stage(loudness.backend, vad=Slow())
    loudness.backend.gate.clear()
    stream = slow.stream(AUTOMATIC, max_backlog=3.0)
    reader = asyncio.create_task(everything(stream))
    waiting = asyncio.create_task(stream.append(silence(30)))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    assert stream.position <= 5.0
    loudness.backend.gate.set()
    await waiting
    assert stream.position == 30.0
    await stream.finish()
    assert await reader == []
    await asyncio.to_thread(slow.close)


async def test_a_reader_that_never_reads_bounds_the_stream(loudness: Stage) -> None:
    stream = loudness.stream(replace(AUTOMATIC, vad=replace(AUTOMATIC.vad, silence=0.2)))

    async def talk() -> None:
        for _ in range(400):
            await stream.append(joined(recording("austen-0880.wav"), silence(0.5)))

    talking = asyncio.create_task(talk())
    finals = -1
    while finals != len(loudness.backend.finals):
        finals = len(loudness.backend.finals)
        await asyncio.sleep(0.3)
    assert not talking.done()
    assert len(stream._outlet._events) < 600
    talking.cancel()
    seen = of([event async for event in taken(stream, 400)], Final)
    assert [final.utterance for final in seen] == list(range(len(seen)))
    await stream.close()


async def taken(stream: Transcriber, count: int) -> AsyncIterator[Event]:
    async for event in stream.events():
        yield event
        count -= 1
        if not count:
            return


# Silence of the client, clear, settings, the end


async def test_frames_that_stop_in_mid_word_end_the_utterance(loudness: Stage) -> None:
    stream = loudness.stream(replace(AUTOMATIC, stall_timeout=0.2))
    reader = asyncio.create_task(everything(stream))
    await stream.append(recording("austen-0880.wav")[: 2 * SAMPLE_RATE])
    await until(lambda: bool(loudness.backend.finals))
    await stream.append(joined(recording("austen-0880.wav"), silence(1)))
    await stream.finish()
    events = await reader
    assert [committed.reason for committed in of(events, Committed)] == ["idle", "vad"]
    assert of(events, Committed)[0].end == 2.0
    assert len(of(events, Final)) == 2


async def test_clear_takes_back_what_was_not_committed(loudness: Stage) -> None:
    stream = loudness.stream(AUTOMATIC)
    reader = asyncio.create_task(everything(stream))
    await stream.append(recording("austen-0880.wav")[: 2 * SAMPLE_RATE])
    await stream.clear()
    with pytest.raises(InputInvalid, match="empty"):
        await stream.commit()
    await stream.append(joined(silence(1), recording("austen-0880.wav"), silence(1)))
    await stream.finish()
    events = await reader
    assert len(of(events, Cleared)) == 1
    [committed], [final] = of(events, Committed), of(events, Final)
    assert committed.start >= 2.0
    assert (committed.utterance, final.utterance) == (1, 1)
    assert not [event for event in events[events.index(Cleared()) :] if getattr(event, "utterance", 1) == 0]


async def test_settings_apply_from_the_next_utterance(loudness: Stage) -> None:
    stream = loudness.stream(AUTOMATIC)
    reader = asyncio.create_task(everything(stream))
    sentence = joined(recording("austen-0880.wav"), silence(1))
    await stream.append(sentence[: 2 * SAMPLE_RATE])
    await stream.reconfigure(replace(AUTOMATIC, options=DecodeOptions(language="de", prompt="Wien"), partials=False))
    await stream.append(joined(sentence[2 * SAMPLE_RATE :], sentence))
    await stream.reconfigure(MANUAL)
    await stream.append(sentence)
    await stream.commit()
    with pytest.raises(InputInvalid, match="threshold"):
        await stream.reconfigure(replace(AUTOMATIC, vad=replace(AUTOMATIC.vad, threshold=7)))
    await stream.finish()
    events = await reader
    assert [final.language for final in of(events, Final)] == ["en", "de", "en"]
    assert [request.options.prompt for request in loudness.backend.finals] == ["", "Wien", ""]
    assert not [partial for partial in of(events, Partial) if partial.utterance == 1]
    assert [committed.reason for committed in of(events, Committed)] == ["vad", "vad", "client"]


async def test_idle_timeout_is_told(loudness: Stage) -> None:
    events = await hear(loudness.stream(replace(AUTOMATIC, idle_timeout=2.0)), silence(5))
    [idle] = events
    assert isinstance(idle, IdleTimeout)
    assert (idle.start, round(idle.end, 1)) == (0.0, 2.0)


@pytest.mark.parametrize("end", ["close", "finish"])
async def test_the_end_leaves_no_task_and_gives_the_lease_back(loudness: Stage, end: str) -> None:
    before = asyncio.all_tasks()
    capacity = Capacity([loudness.devices[1]])
    lease = capacity.admit(loudness.asr, 0.1)
    stream = loudness.stream(AUTOMATIC, lease=lease)
    reader = asyncio.create_task(everything(stream))
    await stream.append(joined(recording("austen-0870.wav"), silence(1), recording("austen-0880.wav")))
    await until(lambda: bool(loudness.backend.finals))
    if end == "finish":
        await stream.finish()
    await asyncio.gather(stream.close(), stream.close(), stream.finish())
    await reader
    assert asyncio.all_tasks() == before
    assert capacity.streams(loudness.devices[1]) == 0
    with pytest.raises(InputInvalid, match="ended"):
        await stream.append(silence(1))
    with pytest.raises(InputInvalid, match="ended"):
        await stream.commit()


async def test_a_stream_closed_before_it_took_its_first_step_gives_the_lease_back(loudness: Stage) -> None:
    capacity = Capacity([loudness.devices[1]])
    stream = loudness.stream(AUTOMATIC, lease=capacity.admit(loudness.asr, 0.1))
    reader = asyncio.create_task(everything(stream))
    await stream.append(silence(0.1))
    await stream.close()
    assert capacity.streams(loudness.devices[1]) == 0
    assert await asyncio.wait_for(reader, 5) == []


async def test_manual_audio_that_was_never_committed_is_heard_at_the_end(loudness: Stage) -> None:
    events = await hear(loudness.stream(MANUAL), joined(silence(1), recording("austen-0880.wav")))
    [committed], [final] = of(events, Committed), of(events, Final)
    assert committed.reason == "end"
    assert final.text


async def test_samples_that_are_not_numbers_are_refused_and_the_stream_lives(loudness: Stage) -> None:
    stream = loudness.stream(AUTOMATIC)
    reader = asyncio.create_task(everything(stream))
    with pytest.raises(InputInvalid, match="finite"):
        await stream.append(np.array([0.0, np.nan], np.float32))
    await stream.append(joined(recording("austen-0880.wav"), silence(1)))
    await stream.finish()
    assert len(of(await reader, Final)) == 1


async def test_without_voice_activity_the_stream_says_why_it_ends(loudness: Stage) -> None:
    stream = loudness.stream(AUTOMATIC)
    await asyncio.to_thread(loudness.devices[0].close)
    await stream.append(silence(1))
    with pytest.raises(ServingError):
        await everything(stream)
    with pytest.raises(ServingError):
        await stream.append(silence(1))
