"""Window by window gives what the whole segment at once gives, against two references.

One is the package's own graph, de-quantised, run whole by onnxruntime, with the package's synthesis behind it. It is
given this plan's pitch, since pulses count on over the segment: one unit in the last place of every pitch puts the
package 40 to 80 dB away from itself. The other is the decoder here, run over the whole segment in one go.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
import torch

from speech.tts import Voicing
from speech.voices.hibari.decoder import DELAY
from speech.voices.hibari.wave import HOP, frame_noise
from tests.speech.voices.hibari_voices import (
    SENTENCE,
    TEXTS,
    backend,
    plan,
    reference,
    reference_sound,
    render,
    segment,
    snr,
    speak,
)

EXACT = 100.0  # dB


def test_there_are_enough_texts_of_every_length() -> None:
    assert len(TEXTS) >= 12
    assert "Hi." in TEXTS
    assert {25, 300} <= {len(text.split()) for text in TEXTS}


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:20])
def test_windows_give_the_sound_of_the_whole_segment(text: str) -> None:
    said = segment(text, seed=7, index=3)
    voicing = Voicing(said)
    planned = plan(backend(), voicing)
    assert planned.windows is not None
    planned_pitch, durations = voicing.cache.plan.pitch, voicing.cache.plan.durations
    sound = np.concatenate([render(backend(), voicing, window) for window in range(len(planned.windows))])
    spectra, pitch, pairs = reference(said)
    assert durations.tolist() == (2 * pairs).tolist()
    assert len(sound) == sum(planned.windows) == HOP * len(pitch)
    assert np.abs(pitch - planned_pitch).max() < 1e-3  # Hz
    assert snr(reference_sound(spectra, planned_pitch, said), sound) >= EXACT


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("speed", [0.25, 1.0, 4.0])
def test_windows_and_one_run_of_the_decoder_agree_at_every_speed_and_at_the_seams(speed: float, precision: str) -> None:
    said = segment(SENTENCE, speed=speed, seed=2**64 + 5)
    voicing = Voicing(said)
    model = backend(precision)
    planned = plan(model, voicing)
    assert planned.windows is not None
    whole_plan, decoder = voicing.cache.plan, model._decoder
    with torch.inference_mode():
        spectra, _ = decoder.run([whole_plan], [decoder.opening()], [0], whole_plan.frames + DELAY)
    parts = spectra[0].unflatten(-1, (5, 601)).permute(1, 2, 0).contiguous().numpy()
    whole = reference_sound(list(parts), whole_plan.pitch, said)
    sound = np.concatenate([render(model, voicing, window) for window in range(len(planned.windows))])
    assert snr(whole, sound) >= EXACT
    for seam in list(accumulate(planned.windows))[:-1]:
        assert np.abs(whole[seam - HOP : seam + HOP] - sound[seam - HOP : seam + HOP]).max() < 1e-5


@pytest.mark.parametrize("text", [*TEXTS[:4], "Fish.", "Shh."], ids=lambda text: text[:20])
@pytest.mark.parametrize("speed", [0.25, 1.0, 4.0])
def test_the_head_of_a_streams_first_segment_is_silent_for_30_ms_at_most(text: str, speed: float) -> None:
    planned, sound = speak(backend(), segment(text, speed=speed, first=True))
    _, whole = speak(backend(), segment(text, speed=speed))
    level = np.sqrt((sound[: len(sound) // 120 * 120].reshape(-1, 120) ** 2).mean(1))
    assert np.flatnonzero(level > 10 ** (-50 / 20))[0] <= 6  # spans of 5 ms
    assert planned.windows is not None
    assert len(sound) == sum(planned.windows)
    assert snr(whole[-len(sound) :], sound) >= EXACT
    left_out = whole[: len(whole) - len(sound)]
    assert np.abs(left_out).max(initial=0) < 0.02
    assert len(left_out) > 4000 or speed > 1


@pytest.mark.parametrize("text", [TEXTS[5], TEXTS[6], SENTENCE], ids=lambda text: text[:20])
def test_int8_is_as_close_to_float32_as_the_package_itself(text: str) -> None:
    said = segment(text)
    exact, short = Voicing(said), Voicing(said)
    plan(backend(), exact)
    plan(backend("int8"), short)
    frames = exact.cache.plan.frames
    assert abs(short.cache.plan.frames - frames) <= frames / 100
    # The decoder alone, given the same plan: the package's int8 graph is 28 to 31 dB away.
    short.cache = exact.cache
    windows = range(exact.cache.windows)
    reference_windows = np.concatenate([render(backend(), exact, window) for window in windows])
    assert snr(reference_windows, np.concatenate([render(backend("int8"), short, window) for window in windows])) > 25


def test_noise_is_normal_and_that_of_a_frame_is_its_own() -> None:
    noise = frame_noise(1, 2, 0, 400)
    both = np.stack((noise.real, noise.imag))
    assert abs(both.mean()) < 0.01
    assert abs(both.std() - 1) < 0.01
    assert abs((both[0] * both[1]).mean()) < 0.01
    assert abs((noise[1:] * noise[:-1].conj()).mean()) < 0.01
    assert (frame_noise(1, 2, 123, 130) == noise[123:130]).all()
    for other in (frame_noise(2, 2, 0, 4), frame_noise(1, 3, 0, 4), frame_noise(-1, 2, 0, 4)):
        assert abs((other * noise[:4].conj()).mean()) < 0.2


@pytest.mark.parametrize(("speed", "most_lost"), [(2.5, 0.0), (3.0, 0.2), (4.0, 0.4)])
def test_who_speaks_fast_leaves_out_no_symbol_before_all_are_as_short_as_can_be(speed: float, most_lost: float) -> None:
    durations = {}
    for name, factor in (("fastest", 2.0), ("faster", speed)):
        voicing = Voicing(segment(SENTENCE, speed=factor))
        plan(backend(), voicing)
        durations[name] = voicing.cache.plan.durations
    assert durations["fastest"].min() == 2
    assert durations["faster"].sum() == pytest.approx(durations["fastest"].sum() * 2 / speed, abs=2)
    lost = float((durations["faster"] == 0).mean())
    assert lost <= most_lost
    assert not lost or durations["faster"].max() == 2
    assert (durations["faster"] <= durations["fastest"]).all()
