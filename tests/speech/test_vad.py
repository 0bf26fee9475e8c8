"""Silero as a backend: the same numbers as Silero's own wrapper, whatever the batch, the cut and the graph."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from silero_vad import load_silero_vad

from speech.asr import Samples
from speech.vad import WINDOW, Gain, SileroVad, VadRequest, VadResult, VadState
from tests.speech.sounds import joined, recording, silence, telephone
from workers.backend import Done, More
from workers.errors import InputInvalid


@pytest.fixture(scope="module")
def vad() -> SileroVad:
    backend = SileroVad()
    backend.load("cpu")
    return backend


def windows(samples: Samples) -> Samples:
    return np.ascontiguousarray(samples[: len(samples) // WINDOW * WINDOW]).reshape(-1, WINDOW)


def together(vad: SileroVad, requests: list[VadRequest]) -> list[VadResult]:
    """As the step loop does it: states of one bucket step together, until all have ended."""
    states = {i: vad.open(request) for i, request in enumerate(requests)}
    results: dict[int, VadResult] = {}
    while states:
        bucket = vad.demand(next(iter(states.values()))).bucket
        batch = [i for i, state in states.items() if vad.demand(state).bucket == bucket]
        for i, result in zip(batch, vad.step([states[i] for i in batch]), strict=True):
            if isinstance(result, More):
                continue
            assert isinstance(result, Done)
            results[i] = result.output
            vad.discard(states.pop(i))
    return [results[i] for i in range(len(requests))]


def alone(vad: SileroVad, samples: Samples) -> np.ndarray:
    return together(vad, [VadRequest(VadState.fresh(), windows(samples))])[0].probabilities


@pytest.mark.parametrize("name", ["austen-0870.wav", "jfk.flac"])
def test_probabilities_are_those_of_the_packages_own_wrapper(vad: SileroVad, name: str) -> None:
    reference = load_silero_vad(onnx=True)
    parts = windows(recording(name))
    theirs = [float(reference(torch.tensor(part), 16_000)[0, 0]) for part in parts]
    np.testing.assert_allclose(alone(vad, recording(name)), theirs, atol=1e-6)
    state, ours = VadState.fresh(), []
    for part in parts:
        [result] = together(vad, [VadRequest(state, part.reshape(1, -1))])
        state = result.state
        ours.append(float(result.probabilities[0]))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_streams_join_and_leave_a_batch_without_changing_each_other(vad: SileroVad) -> None:
    sounds = [recording("austen-0880.wav")[i * 5000 : i * 5000 + 512 * (i + 1)] for i in range(7)]
    sounds.append(recording("jfk.flac"))
    expected = [alone(vad, sound) for sound in sounds]
    results = together(vad, [VadRequest(VadState.fresh(), windows(sound)) for sound in sounds])
    for result, probabilities in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.probabilities, probabilities, atol=1e-6)


def test_any_cut_of_a_stream_gives_the_same(vad: SileroVad) -> None:
    parts = windows(recording("austen-0930.wav"))
    expected = alone(vad, recording("austen-0930.wav"))
    random, at, state, got = np.random.default_rng(3), 0, VadState.fresh(), []
    while at < len(parts):
        count = int(random.integers(1, 30))
        [result] = together(vad, [VadRequest(state, parts[at : at + count])])
        state = result.state
        got.append(result.probabilities)
        at += count
    np.testing.assert_allclose(np.concatenate(got), expected, atol=1e-6)


def test_a_request_can_be_run_again(vad: SileroVad) -> None:
    request = VadRequest(VadState.fresh(), windows(recording("austen-0880.wav")))
    [first], [again] = together(vad, [request]), together(vad, [request])
    np.testing.assert_array_equal(first.probabilities, again.probabilities)


def test_samples_that_are_not_numbers_never_reach_a_batch(vad: SileroVad) -> None:
    with pytest.raises(InputInvalid, match="not numbers"):
        vad.open(VadRequest(VadState.fresh(), np.full((1, WINDOW), np.nan, np.float32)))


@pytest.mark.parametrize("shape", [(0, WINDOW), (3, 100)])
def test_other_windows_are_refused(vad: SileroVad, shape: tuple[int, int]) -> None:
    with pytest.raises(InputInvalid, match="window"):
        vad.open(VadRequest(VadState.fresh(), np.zeros(shape, np.float32)))


def test_loading_again_opens_nothing_and_no_thread_is_made(vad: SileroVad) -> None:
    before = threading.active_count()
    session = vad._batch
    vad.load("cpu")
    assert vad._batch is session
    assert threading.active_count() == before


def test_gain_is_bounded_and_knows_no_framing() -> None:
    quiet = windows(telephone(joined(silence(0.5), recording("austen-0880.wav")), -20))
    whole, after = Gain().apply(quiet)
    gain, parts = Gain(), []
    for i in range(len(quiet)):
        part, gain = gain.apply(quiet[i : i + 1])
        parts.append(part)
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert gain == after
    assert np.abs(whole).max() <= 1.0
    assert (np.abs(whole) <= 10.001 * np.abs(quiet) + 1e-9).all()
    loud = np.tile(np.sin(np.arange(WINDOW, dtype=np.float32) / 5), (50, 1)) * np.float32(0.5)
    np.testing.assert_array_equal(Gain().apply(loud)[0], loud)


def test_quiet_telephone_speech_is_heard(vad: SileroVad) -> None:
    quiet = windows(telephone(joined(silence(0.5), recording("austen-0880.wav"), silence(0.5)), -20))
    with_gain = together(vad, [VadRequest(VadState.fresh(Gain()), quiet)])[0].probabilities
    normal = alone(vad, joined(silence(0.5), recording("austen-0880.wav"), silence(0.5)))
    assert (with_gain >= 0.5).sum() >= 0.7 * (normal >= 0.5).sum()
