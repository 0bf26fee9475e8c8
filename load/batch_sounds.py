"""Sounds in which nobody speaks, and recordings cut, tiled and joined: what makes small models loop and invent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
import soxr

from speech.asr import SAMPLE_RATE, Samples


def recording(path: Path) -> Samples:
    """A file as mono float32 at 16 kHz, its loudest sample at 0.5."""
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    mono = samples.mean(axis=1)
    heard = soxr.resample(mono, rate, SAMPLE_RATE) if rate != SAMPLE_RATE else mono
    even: Samples = (heard * (0.5 / max(float(np.abs(heard).max()), 1e-3))).astype(np.float32)
    return even


def silence(seconds: float, seed: int = 0) -> Samples:
    """As a microphone in an empty room gives it: noise at -80 dB."""
    return white(seconds, seed, level=1e-4)


def white(seconds: float, seed: int, level: float = 0.02) -> Samples:
    return (np.random.default_rng(seed).standard_normal(_count(seconds)) * level).astype(np.float32)


def pink(seconds: float, seed: int, level: float = 0.05) -> Samples:
    """Noise with equal power in every octave."""
    count = _count(seconds)
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(count))
    spectrum /= np.sqrt(np.maximum(np.arange(len(spectrum)), 1.0))
    sound = np.fft.irfft(spectrum, count)
    pinkish: Samples = (sound / sound.std() * level).astype(np.float32)
    return pinkish


def hum(seconds: float, seed: int, level: float = 0.1) -> Samples:
    """Mains hum: 50 or 60 Hz and its odd harmonics, in a little noise."""
    time = np.arange(_count(seconds)) / SAMPLE_RATE
    base = (50, 60)[seed % 2]
    sound = sum(level / k * np.sin(2 * np.pi * base * k * time) for k in (1, 3, 5, 7))
    return np.asarray(sound + white(seconds, seed, 0.002)).astype(np.float32)


def music(seconds: float, seed: int, level: float = 0.1) -> Samples:
    """A tune of decaying chords, a new one every half second."""
    random, count, beat = np.random.default_rng(seed), _count(seconds), SAMPLE_RATE // 2
    notes = 220 * 2 ** (random.choice([0, 2, 4, 5, 7, 9, 11, 12, 14, 16], count // beat + 1) / 12)
    phase = 2 * np.pi * np.cumsum(np.repeat(notes, beat)[:count]) / SAMPLE_RATE
    chord = sum(np.sin(phase * k) / k for k in (1.0, 1.25, 1.5, 2.0))
    return np.asarray(level * chord * np.exp(-(np.arange(count) % beat) / (SAMPLE_RATE * 0.3))).astype(np.float32)


def bursts(seconds: float, seed: int, level: float = 0.1) -> Samples:
    """Noise that comes and goes a few times a second, as applause or breaking waves."""
    time = np.arange(_count(seconds)) / SAMPLE_RATE
    rate = 0.7 + (seed % 5) * 0.6
    return (pink(seconds, seed, level) * (0.5 + 0.5 * np.sin(2 * np.pi * rate * time))).astype(np.float32)


NOTHING_SAID: dict[str, Callable[[float, int], Samples]] = {
    "silence": silence,
    "white noise": white,
    "pink noise": pink,
    "hum": hum,
    "music": music,
    "bursts": bursts,
}


def tiled(samples: Samples, seconds: float) -> Samples:
    """The sound over and over until `seconds` are full of whole ones."""
    return np.tile(samples, max(1, int(seconds * SAMPLE_RATE // len(samples))))


def joined(parts: list[Samples], pause: float) -> Samples:
    """The parts with `pause` seconds of room silence before, between and behind them."""
    out: list[Samples] = [silence(pause)]
    for n, part in enumerate(parts):
        out += [part, silence(pause, n + 1)]
    return np.concatenate(out)


def _count(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE)
