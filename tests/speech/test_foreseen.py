"""The final that is begun while the silence is still waited for: taken over when it was right, let go when not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from speech.asr import SAMPLE_RATE, DecodeOptions
from speech.config import StreamConfig, VadConfig
from speech.events import Final
from tests.speech.sounds import joined, recording, silence
from tests.speech.stages import Loudness, Stage, everything, say, stage

CONFIG = StreamConfig("any", DecodeOptions(language="en"), vad=VadConfig(silence=0.6), partials=False)
SPEECH = recording("austen-0880.wav")


@pytest.fixture
def loudness() -> Iterator[Stage]:
    made = stage(Loudness())
    yield made
    made.backend.gate.set()
    made.close()


async def final_after(made: Stage, sound: np.ndarray, config: StreamConfig = CONFIG) -> Final:
    stream = made.stream(config)
    reader = asyncio.create_task(everything(stream))
    await say(stream, sound, tuple(range(1600, len(sound), 1600)))
    await stream.finish()
    finals = [event for event in await reader if isinstance(event, Final)]
    assert len(finals) == 1
    return finals[0]


async def test_one_pass_serves_the_pause_and_the_end(loudness: Stage) -> None:
    final = await final_after(loudness, joined(SPEECH, silence(1)))
    heard = loudness.backend.finals
    assert len(heard) == 1, "the final that was begun ahead is the final"
    assert final.text and len(heard[0].samples) < (final.end - final.start - 0.2) * SAMPLE_RATE


async def test_a_pause_inside_the_utterance_changes_nothing(loudness: Stage) -> None:
    patient = replace(CONFIG, vad=VadConfig(silence=1.5))
    sound = joined(SPEECH, silence(0.4), SPEECH, silence(2))
    final = await final_after(loudness, sound, patient)
    begun = loudness.backend.finals
    assert len(begun) >= 2, "one for every pause, one for the end"
    assert len(begun[0].samples) < len(SPEECH) + 0.4 * SAMPLE_RATE < 2 * len(SPEECH) < len(begun[-1].samples)
    assert final.words[-1].end > len(SPEECH) / SAMPLE_RATE + 0.4, "it covers what came after the pause"


async def test_a_final_that_is_still_under_way_when_the_speech_ends_is_waited_for(loudness: Stage) -> None:
    stream = loudness.stream(CONFIG)
    reader = asyncio.create_task(everything(stream))
    loudness.backend.gate.clear()
    sound = joined(SPEECH, silence(1))
    await say(stream, sound, tuple(range(1600, len(sound), 1600)))
    finish = asyncio.create_task(stream.finish())
    await asyncio.sleep(0.2)
    assert len(loudness.backend.finals) == 1
    loudness.backend.gate.set()
    await finish
    assert [event.text != "" for event in await reader if isinstance(event, Final)] == [True]
    assert len(loudness.backend.finals) == 1


async def test_a_guess_that_fails_is_made_again_as_a_final(loudness: Stage) -> None:
    failed: list[int] = []

    def once(samples: np.ndarray) -> bool:
        failed.append(len(samples))
        return len(failed) == 1

    loudness.backend.fails = once
    final = await final_after(loudness, joined(SPEECH, silence(1)))
    assert final.text and len(failed) == 2


async def test_clearing_in_the_pause_frees_the_guess(loudness: Stage) -> None:
    stream = loudness.stream(CONFIG)
    reader = asyncio.create_task(everything(stream))
    loudness.backend.gate.clear()
    sound = joined(SPEECH, silence(0.4))
    await say(stream, sound, tuple(range(1600, len(sound), 1600)))
    await asyncio.sleep(0.1)
    clear = asyncio.create_task(stream.clear())
    await asyncio.sleep(0.05)
    loudness.backend.gate.set()
    await clear
    await stream.finish()
    assert not [event for event in await reader if isinstance(event, Final)]
