"""Output never depends on how the client cut its frames: the same events with the same times, from 1 sample to 10 s."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speech.asr import SAMPLE_RATE, Samples
from speech.config import StreamConfig
from speech.events import Event, Final, Partial
from tests.speech.sounds import joined, not_speech, recording, silence
from tests.speech.stages import Loudness, Stage, everything, say, stage, without_lag

AUTOMATIC = StreamConfig("loudness", idle_timeout=1.5)
MANUAL = replace(AUTOMATIC, automatic=False)
SHORT = replace(AUTOMATIC, max_utterance=3.0, partial_interval=0.4)


@pytest.fixture(scope="module")
def loudness() -> Iterator[Stage]:
    made = stage(Loudness())
    yield made
    made.close()


def scene() -> Samples:
    return joined(
        silence(0.4), recording("austen-0880.wav"), silence(2.2), recording("austen-0930.wav"), silence(0.8),
        not_speech("music", 1.0),
    )  # fmt: skip


async def listen(
    stage: Stage, config: StreamConfig, samples: Samples, cuts: list[int]
) -> tuple[list[Event], list[Event]]:
    stream = stage.stream(config, max_lag=math.inf)
    reader = asyncio.create_task(everything(stream))
    await say(stream, samples, cuts)
    if not config.automatic:
        await stream.commit()
    await stream.finish()
    return without_lag(await reader)


@pytest.mark.parametrize("config", [AUTOMATIC, MANUAL, SHORT])
def test_any_cut_gives_the_same_events(loudness: Stage, config: StreamConfig) -> None:
    expected = asyncio.run(listen(loudness, config, scene(), []))
    decoded = expected[1]
    assert sum(isinstance(event, Final) for event in decoded) >= 1
    assert sum(isinstance(event, Partial) and bool(event.stable) for event in decoded) >= 1

    cut = st.one_of(st.integers(1, 2000), st.integers(1, 10 * SAMPLE_RATE))

    @settings(max_examples=30, deadline=None)
    @given(st.lists(cut, max_size=60))
    def same(cuts: list[int]) -> None:
        assert asyncio.run(listen(loudness, config, scene(), cuts)) == expected

    same()


def test_one_sample_at_a_time(loudness: Stage) -> None:
    clip = joined(recording("austen-0880.wav")[: 2 * SAMPLE_RATE + 77], silence(0.6))
    expected = asyncio.run(listen(loudness, AUTOMATIC, clip, []))
    assert any(isinstance(event, Final) for event in expected[1])
    assert asyncio.run(listen(loudness, AUTOMATIC, clip, [1] * len(clip))) == expected


def test_the_same_with_real_time_between_the_frames(loudness: Stage) -> None:
    """Audio that trickles in while decodes run: 20 ms frames, eight times faster than life, partials never late."""
    clip = joined(recording("austen-0880.wav"), silence(0.6))

    async def trickle() -> tuple[list[Event], list[Event]]:
        stream = loudness.stream(AUTOMATIC, max_lag=30.0)
        reader = asyncio.create_task(everything(stream))
        for i in range(0, len(clip), 320):
            await stream.append(clip[i : i + 320])
            await asyncio.sleep(0.0025)
        await stream.finish()
        return without_lag(await reader)

    assert asyncio.run(trickle()) == asyncio.run(listen(loudness, AUTOMATIC, clip, []))
