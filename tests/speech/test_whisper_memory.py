"""An utterance's caches, tens of megabytes, go with the utterance and do not wait for the garbage collector."""

from __future__ import annotations

import gc
import weakref

from speech.asr import SAMPLE_RATE, DecodeOptions, PartialRequest, Utterance
from tests.speech.whisper_models import backend, recording
from workers.backend import Done


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
