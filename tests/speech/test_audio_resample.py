"""Resampling: no clicks at the borders of frames, right length, right time, little held back, nothing aliased."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
import soxr

from speech.resample import Resampler

DATA = Path(__file__).parent.parent / "data"
RATES = [8_000, 8_001, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_099, 44_100, 48_000]


def resample(rate: int, samples: np.ndarray, piece: int | None = None) -> np.ndarray:
    resampler = Resampler(rate)
    samples = samples.astype(np.float32)
    step = piece or max(1, len(samples))
    out = [resampler.feed(samples[at : at + step]) for at in range(0, len(samples), step)]
    return np.concatenate([*out, resampler.flush()])


def decibels(signal: np.ndarray, error: np.ndarray) -> float:
    return float(10 * np.log10((signal.astype(float) ** 2).sum() / (error.astype(float) ** 2).sum()))


@pytest.mark.parametrize("piece", [1, 7, 320, 4801])
@pytest.mark.parametrize("rate", [8_000, 24_000, 44_100, 48_000, 44_099])
def test_a_sine_cut_in_pieces_has_no_clicks(rate: int, piece: int) -> None:
    seconds, frequency = 0.6, 440.0
    out = resample(rate, 0.5 * np.sin(2 * np.pi * frequency * np.arange(int(seconds * rate)) / rate), piece)
    ideal = 0.5 * np.sin(2 * np.pi * frequency * np.arange(len(out)) / 16_000)
    inner = slice(200, -200)  # at its ends the sine itself begins and stops in a step
    assert decibels(ideal[inner], out[inner] - ideal[inner]) > 80
    steps = np.abs(np.diff(out[inner], 2)).max()
    assert steps <= 1.01 * np.abs(np.diff(ideal, 2)).max()


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_tones_of_the_band_pass_unharmed(rate: int, share: float) -> None:
    frequency = share * min(rate, 16_000) / 2
    out = resample(rate, 0.5 * np.sin(2 * np.pi * frequency * np.arange(rate) / rate))
    ideal = 0.5 * np.sin(2 * np.pi * frequency * np.arange(len(out)) / 16_000)
    assert decibels(ideal[300:-300], (out - ideal)[300:-300]) > 60


@pytest.mark.parametrize("rate", [22_050, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("frequency", [8_100, 9_500, 10_900])
def test_what_lies_over_the_band_is_not_folded_into_it(rate: int, frequency: int) -> None:
    tone = 0.5 * np.sin(2 * np.pi * frequency * np.arange(rate) / rate)
    assert decibels(tone[: rate // 2], resample(rate, tone)[300:-300][: rate // 2]) > 80


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("count", [0, 1, 2, 57, 4_801, 30_011])
def test_total_length(rate: int, count: int) -> None:
    assert abs(len(resample(rate, np.zeros(count), 977)) - count * 16_000 / rate) <= 1


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("at", [0.0, 0.1234, 0.4999])
def test_a_click_comes_out_when_it_went_in(rate: int, at: float) -> None:
    clicks = np.zeros(rate // 2)
    position = min(int(at * rate), len(clicks) - 1)
    clicks[position] = 1.0
    assert abs(int(np.abs(resample(rate, clicks, 320)).argmax()) - position / rate * 16_000) <= 1


@pytest.mark.parametrize(
    ("rate", "most"), [(8_000, 0.031), (16_000, 0.0), (24_000, 0.040), (44_100, 0.040), (48_000, 0.040)]
)
def test_little_is_held_back(rate: int, most: float) -> None:
    resampler, received, made = Resampler(rate), 0, 0
    for _ in range(50):
        received += rate // 50
        made += len(resampler.feed(np.zeros(rate // 50, np.float32)))
        assert received / rate - made / 16_000 <= most


def test_speech_agrees_with_an_independent_resampler() -> None:
    with wave.open(str(DATA / "prompts" / "vm-nobodyavail.wav")) as file:
        speech = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
        assert file.getframerate() == 8_000
    ours, theirs = resample(8_000, speech, 160), soxr.resample(speech, 8_000, 16_000, quality="VHQ")
    assert len(ours) == len(theirs)
    assert decibels(theirs, ours - theirs) > 45  # the filters differ where the telephone band ends


def test_16_khz_passes_unchanged() -> None:
    samples = np.random.default_rng(1).uniform(-1, 1, 1_000).astype(np.float32)
    np.testing.assert_array_equal(resample(16_000, samples, 77), samples)


@pytest.mark.parametrize("rate", [8_000, 24_000, 44_100])
def test_a_wave_at_full_scale_stays_within_it(rate: int) -> None:
    square = np.where(np.arange(rate) // 5 % 2, 1.0, -1.0)
    assert np.abs(resample(rate, square, 320)).max() == 1.0
