"""Requests that cross to another host: the same answers there, and every sample crosses once."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, PartialRequest, Utterance
from speech.parcels import SpeechPacking
from tests.speech.whisper_models import recording, run
from workers.cluster.line import Line
from workers.cluster.packing import Copy, Gone, Kept

GREEDY = DecodeOptions(language="en", temperatures=(0.0,))


class Way:
    """One way to a device, with what is kept there."""

    def __init__(self) -> None:
        self.packing = SpeechPacking()
        self.kept = Kept(self.packing.drop)
        self.bytes = 0
        self.line = Line(1, 0.0)

    def send(self, request: PartialRequest | FinalRequest) -> Any:
        parcel = pickle.dumps(self.packing.pack(request, self.line), protocol=5)
        self.bytes += len(parcel)
        return self.packing.unpack(pickle.loads(parcel), self.kept)

    def tidy(self) -> None:
        for key in self.line.dropped():
            self.kept.forget(key)


@pytest.mark.long
def test_partials_of_a_growing_utterance_are_what_they_are_here() -> None:
    sound, way = recording("jfk.flac"), Way()
    here, there = Utterance(), Utterance()
    for first in range(0, 4 * SAMPLE_RATE, SAMPLE_RATE):
        for utterance in (here, there):
            utterance.append(sound[first : first + SAMPLE_RATE])
        end = first + SAMPLE_RATE
        (wanted,) = run(PartialRequest(here, end, options=GREEDY))
        (got,) = run(way.send(PartialRequest(there, end, options=GREEDY)))
        assert got == wanted
    assert way.bytes < 1.02 * 4 * SAMPLE_RATE * 4 + 10_000, "every sample once"
    (mirror,) = way.kept._things.values()
    assert mirror.cache is not None and isinstance(there.cache, Copy)
    there.release()
    way.tidy()
    assert mirror.released and mirror.cache is None and not len(way.kept)


def test_an_utterance_that_moves_is_sent_whole_once() -> None:
    sound = np.arange(3 * SAMPLE_RATE, dtype=np.float32)
    one, two, utterance = Way(), Way(), Utterance()
    utterance.append(sound[:SAMPLE_RATE])
    one.send(PartialRequest(utterance, SAMPLE_RATE))
    utterance.append(sound[SAMPLE_RATE:])
    got = two.send(PartialRequest(utterance, 2 * SAMPLE_RATE))
    assert np.array_equal(got.utterance.samples, sound[: 2 * SAMPLE_RATE]) and got.end == 2 * SAMPLE_RATE
    one.tidy()
    assert not len(one.kept), "where it was nothing is kept"
    before = two.bytes
    got = two.send(PartialRequest(utterance, 3 * SAMPLE_RATE, stable=(1, 2)))
    assert np.array_equal(got.utterance.samples, sound) and got.stable == (1, 2)
    assert two.bytes - before < 4.2 * SAMPLE_RATE
    shorter = two.send(PartialRequest(utterance, 2 * SAMPLE_RATE))
    assert shorter.utterance is got.utterance and shorter.end == 2 * SAMPLE_RATE


def test_what_was_forgotten_is_sent_anew() -> None:
    way, utterance = Way(), Utterance()
    utterance.append(np.ones(2 * SAMPLE_RATE, np.float32))
    way.send(PartialRequest(utterance, SAMPLE_RATE))
    way.kept.clear()
    request = PartialRequest(utterance, 2 * SAMPLE_RATE)
    with pytest.raises(Gone):
        way.send(request)
    way.packing.renew(request)
    assert len(way.send(request).utterance.samples) == 2 * SAMPLE_RATE


def test_the_copies_of_many_utterances_are_bounded() -> None:
    kept = Kept(SpeechPacking().drop, most=3)
    copies = [Utterance() for _ in range(5)]
    for key, copy in enumerate(copies):
        kept.put(key, copy)
        if key:
            kept.get(1)
    assert [copy.released for copy in copies] == [True, False, True, False, False]


def test_an_utterance_that_was_let_go_leaves_no_copy() -> None:
    way, utterance = Way(), Utterance()
    utterance.append(np.ones(SAMPLE_RATE, np.float32))
    request = PartialRequest(utterance, SAMPLE_RATE)
    utterance.release()
    got = way.send(request)
    assert utterance.cache is None
    way.tidy()
    assert not len(way.kept) and got.utterance.released


def test_a_final_is_its_own_memory() -> None:
    samples = np.ones(SAMPLE_RATE, np.float32)
    samples.setflags(write=False)
    got = SpeechPacking().unpack(FinalRequest(samples, GREEDY, (5,)), Kept(lambda thing: None))
    assert got.samples.flags.writeable and got.options == GREEDY and got.draft == (5,)
