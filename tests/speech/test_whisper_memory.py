"""An utterance's caches, tens of megabytes, go with the utterance and do not wait for the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from speech.asr import SAMPLE_RATE, DecodeOptions, PartialRequest, Utterance
from speech.config import StreamConfig
from speech.events import Partial
from speech.whisper.states import Cache
from tests.speech.stages import stage
from tests.speech.whisper_models import backend, recording
from workers.backend import Done


def kept() -> list[Cache]:
    """The caches of utterances that are still somewhere."""
    return [each for each in gc.get_objects() if isinstance(each, Cache)]


def test_caches_are_freed_with_the_utterance() -> None:
    engine = backend()
    gc.disable()
    try:
        utterance = Utterance()
        utterance.append(recording("austen-0880.wav")[:SAMPLE_RATE])
        job = engine.open(PartialRequest(utterance, SAMPLE_RATE, (), DecodeOptions(temperatures=(0.0,))))
        result = None
        while not isinstance(result, Done):
            (result,) = engine.step([job])
        caches = [weakref.ref(utterance.cache.kv), weakref.ref(utterance.cache.cross)]
        engine.discard(job)
        assert all(cache() is not None for cache in caches)  # for the next partial
        del utterance, job
        assert [cache() for cache in caches] == [None, None]
    finally:
        gc.enable()


@pytest.mark.long
async def test_a_stream_that_is_left_in_mid_word_frees_its_caches() -> None:
    played = stage(backend.__wrapped__())  # closing it closes the model, which others share
    gc.collect()
    gc.disable()
    try:
        stream = played.stream(StreamConfig("tiny.en", DecodeOptions(language="en")))
        reading = asyncio.create_task(anext(event async for event in stream.events() if isinstance(event, Partial)))
        await stream.append(recording("austen-0880.wav")[: 3 * SAMPLE_RATE // 2])
        await asyncio.wait_for(reading, 30)
        assert kept()
        await stream.close()
        for _ in range(100):
            if not kept():
                break
            await asyncio.sleep(0.05)  # the device's thread frees what the last step left
        assert not kept()
    finally:
        gc.enable()
        played.close()
