"""Recordings and made-up sounds for the speech tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import av
import numpy as np

from speech.asr import SAMPLE_RATE, Samples

DATA = Path(__file__).parents[1] / "data"


@cache
def recording(name: str) -> Samples:
    """A file of tests/data as mono float32 at 16 kHz. Shared: do not write to it."""
    resampler = av.AudioResampler("flt", "mono", SAMPLE_RATE)
    with av.open(str(DATA / name)) as container:
        frames = [out for frame in container.decode(audio=0) for out in resampler.resample(frame)]
    frames += resampler.resample(None)
    samples = np.concatenate([frame.to_ndarray()[0] for frame in frames]).astype(np.float32)
    samples.setflags(write=False)
    return samples


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * SAMPLE_RATE), np.float32)


def joined(*parts: Samples) -> Samples:
    return np.concatenate(parts).astype(np.float32)


def telephone(samples: Samples, decibels: float) -> Samples:
    """Only 300 to 3400 Hz, made louder by `decibels`."""
    spectrum = np.fft.rfft(samples)
    hertz = np.fft.rfftfreq(len(samples), 1 / SAMPLE_RATE)
    spectrum[(hertz < 300) | (hertz > 3400)] = 0
    return (np.fft.irfft(spectrum, len(samples)) * 10 ** (decibels / 20)).astype(np.float32)


def not_speech(kind: str, seconds: float) -> Samples:
    """Ways to say nothing: silence, white noise, mains hum, or a tune of decaying chords."""
    count = round(seconds * SAMPLE_RATE)
    time = np.arange(count) / SAMPLE_RATE
    random = np.random.default_rng(7)
    if kind == "silence":
        return silence(seconds)
    if kind == "white noise":
        return random.normal(0, 0.05, count).astype(np.float32)
    if kind == "hum":
        return sum(0.2 / k * np.sin(2 * np.pi * 50 * k * time) for k in (1, 3, 5)).astype(np.float32)
    assert kind == "music"
    beat = SAMPLE_RATE // 2
    notes = 220 * 2 ** (random.integers(0, 24, count // beat + 1) / 12)
    phase = 2 * np.pi * np.cumsum(np.repeat(notes, beat)[:count]) / SAMPLE_RATE
    chord = sum(np.sin(phase * k) / k for k in (1.0, 1.25, 1.5, 2.0))
    envelope = np.exp(-(np.arange(count) % beat) / (SAMPLE_RATE * 0.3))
    return (0.1 * chord * envelope).astype(np.float32)
