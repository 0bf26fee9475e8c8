"""The third stage: spectra and pitch to samples.

    spectrum = exp(harmonic) · e^(iπ tanh θ) · STFT(pulses) + exp(noise) · Z + exp(free) · e^(iφ)

and back by an inverse transform with overlapping windows. Pulses run on from window to window with their phase, and so
do the tails of overlapping frames; a window of frames gives samples up to two frames before its last, because those
still miss what comes next. Z depends on seed, segment and frame alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speech.tts import Sound
from speech.voices.hibari.decoder import BINS

RATE = 24000
HOP = 300
"""Samples per frame."""
SIZE = 1200
"""Samples of a transform's window."""
_OVERLAP = SIZE // HOP
LAG = 2
"""Frames that must be known after a frame before its samples are final."""
_LOUDEST = 7.0
_UNVOICED = 40.0  # Hz
_HIGHEST = 11000.0  # Hz
_NEAR = 2e-3
"""Where sin(t / 2) is this small, the pulse takes its limit."""

_HANN = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(SIZE) / SIZE)).astype(np.float32)
_ANALYSIS = torch.from_numpy(_HANN) / (SIZE / 4)
"""A cosine of amplitude 1 peaks at half the window's sum: so scaled, exp(harmonic) is a harmonic's magnitude."""
_SQUARES = (_HANN * _HANN).reshape(_OVERLAP, HOP)
_PLACE = (np.arange(HOP) + 0.5) / HOP
_WEIGHT = np.where(_PLACE < 0.5, _PLACE + 0.5, _PLACE - 0.5).astype(np.float32)
"""Of the later of the two frames' middles around each sample of a frame."""

_DRAWS = 304
"""64-bit numbers of a frame: 16 bits for each part of a bin's noise, in whole blocks of the generator (4)."""
_LEVELS = torch.special.ndtri((torch.arange(1 << 16, dtype=torch.float64) + 0.5) / (1 << 16)).float().numpy()
"""The normal distribution in 65,536 steps of the same probability."""


@dataclass(frozen=True, slots=True)
class WaveCarry:
    """What the next window needs: `phase` in samples times Hz, after the pulses of `pulsed` frames; the last `pulses`
    (up to 900 samples); `tails` [3, 300] of frames that overlap with those to come."""

    phase: float
    pulsed: int
    pulses: Sound
    tails: Sound


OPENING = WaveCarry(0.0, 0, np.zeros(0, np.float32), np.zeros((_OVERLAP - 1, HOP), np.float32))


@dataclass(frozen=True, slots=True)
class WaveRow:
    """Frames `first` to `last` of a segment with `pitch` [frames] in Hz; `seed` and `index` choose its noise."""

    pitch: NDArray[np.float32]
    first: int
    last: int
    seed: int
    index: int


class Wave:
    """The transforms on one device."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._window, self._analysis = torch.from_numpy(_HANN).to(device), _ANALYSIS.to(device)

    def run(
        self, rows: Sequence[WaveRow], carries: Sequence[WaveCarry], spectra: Tensor
    ) -> list[tuple[Sound, WaveCarry]]:
        """`spectra` [rows, frames, 3005], of which each row uses its first `last - first` frames.

        For each row samples [300 * frames that became final], and what to carry on.
        """
        count = spectra.shape[1]
        sources, next_pulses = zip(*map(_source, rows, carries, [count] * len(rows)), strict=True)
        noise = np.stack([_padded(frame_noise(row.seed, row.index, row.first, row.last), count) for row in rows])
        make = _blocks_on_cpu if self.device.startswith("cpu") else self._blocks
        blocks = make(torch.from_numpy(np.stack(sources)), torch.from_numpy(noise), spectra)
        return [
            _assemble(row, carry, pulses, made)
            for row, carry, pulses, made in zip(rows, carries, next_pulses, blocks, strict=True)
        ]

    def _blocks(self, sources: Tensor, noise: Tensor, spectra: Tensor) -> NDArray[np.float32]:
        """Windowed frames [rows, frames, 4, 300] to be added up, on the host."""
        harmonic, theta, noisy, free, phi = spectra.unflatten(-1, (-1, BINS)).unbind(2)
        frames = sources.to(self.device).unfold(1, SIZE, HOP) * self._analysis
        spectrum = torch.fft.rfft(frames)
        spectrum *= torch.polar(_level(harmonic), torch.tanh(theta) * np.pi)
        spectrum += _level(noisy) * noise.to(self.device)
        spectrum += torch.polar(_level(free), phi)
        made = torch.fft.irfft(spectrum, SIZE) * self._window
        blocks: NDArray[np.float32] = made.unflatten(-1, (_OVERLAP, HOP)).cpu().numpy()
        return blocks


def _blocks_on_cpu(sources: Tensor, noise: Tensor, spectra: Tensor) -> NDArray[np.float32]:
    """Wave._blocks with numpy's functions, which take a third of the time of torch's here."""
    harmonic, theta, noisy, free, phi = (part.numpy() for part in spectra.unflatten(-1, (-1, BINS)).unbind(2))
    # Row by row: several transforms at once may be rounded otherwise than one.
    transformed = [torch.fft.rfft(one.unfold(0, SIZE, HOP) * _ANALYSIS) for one in sources]
    spectrum = torch.stack(transformed).numpy()
    turned = np.empty_like(spectrum)
    spectrum *= _turned(harmonic, np.tanh(theta) * np.float32(np.pi), turned)
    spectrum += noise.numpy() * np.exp(np.minimum(noisy, _LOUDEST))
    spectrum += _turned(free, phi, turned)
    made = [torch.fft.irfft(one, SIZE) for one in torch.from_numpy(spectrum)]
    blocks = torch.stack(made).numpy()
    blocks *= _HANN
    return blocks.reshape(*spectrum.shape[:2], _OVERLAP, HOP)


def _turned(log: NDArray[np.float32], angle: NDArray[np.float32], out: NDArray[np.complex64]) -> NDArray[np.complex64]:
    """exp(log) at an angle, in `out`."""
    level = np.exp(np.minimum(log, _LOUDEST))
    np.multiply(level, np.cos(angle), out=out.real)
    np.multiply(level, np.sin(angle), out=out.imag)
    return out


def frame_noise(seed: int, index: int, first: int, last: int) -> NDArray[np.complex64]:
    """Normal noise [last - first, 601] of a segment's frames, real and imaginary parts of variance 1.

    A frame's numbers follow from (seed, index, frame) alone, so windows and other streams don't change them.
    """
    key = np.array([seed % (1 << 64), index], np.uint64)
    blocks = np.array([first * (_DRAWS // 4), 0, 0, 0], np.uint64)
    bits = np.random.Philox(key=key, counter=blocks).random_raw((last - first) * _DRAWS)
    drawn = bits.astype("<u8", copy=False).view("<u2").reshape(-1, 4 * _DRAWS)[:, : 2 * BINS]
    noise: NDArray[np.complex64] = np.take(_LEVELS, drawn).view(np.complex64)
    return noise


def pulses(pitch: NDArray[np.float32], first: int, last: int, phase: float) -> tuple[Sound, float]:
    """Pulses [300 * (last - first)] of frames `first` to `last`, and the phase after them.

    Every harmonic below 11 kHz at amplitude 1, from the pitch interpolated between frames' middles; 0 without voice.
    """
    near = np.pad(pitch, 1, mode="edge")[first : last + 2]
    half = HOP // 2
    hz = np.empty((last - first, HOP), np.float32)
    early, late = _WEIGHT[:half], _WEIGHT[half:]
    hz[:, :half] = near[:-2, None] * (1 - early) + near[1:-1, None] * early
    hz[:, half:] = near[1:-1, None] * (1 - late) + near[2:, None] * late
    flat = hz.reshape(-1)
    voiced = flat > _UNVOICED
    np.maximum(flat, _UNVOICED, out=flat)
    # The sum runs on in float64 over the whole segment: a window more or less must not move a pulse.
    run = np.cumsum(np.concatenate(([phase], flat)), dtype=np.float64)
    cycles = run[1:] * (1 / RATE)
    angle = ((cycles - np.floor(cycles)) * (2 * np.pi)).astype(np.float32)
    harmonics = np.floor(_HIGHEST / flat) + np.float32(0.5)
    below = 2 * np.sin(angle * np.float32(0.5))
    limit = np.abs(below) <= _NEAR
    below[limit] = 1
    made = np.where(limit, harmonics, np.sin(harmonics * angle) / below) - np.float32(0.5)
    made[~voiced] = 0
    return made, float(run[-1])


def _source(row: WaveRow, carry: WaveCarry, count: int) -> tuple[Sound, WaveCarry]:
    """Pulses from 600 samples before the first frame's middle to 600 after the last's, filled to `count` frames, and
    the carry with its pulses moved on. The segment is mirrored at its ends."""
    frames = len(row.pitch)
    upto = min(frames, row.last + 1)
    new, phase = pulses(row.pitch, carry.pulsed, upto, carry.phase)
    known = np.concatenate((carry.pulses, new))  # from sample max(0, 300 * first - 600) on
    kept = known[-(upto - row.last) * HOP - SIZE // 2 :]
    source = known
    if row.first == 0:
        source = np.concatenate((known[1 : SIZE // 2 + 1][::-1], source))
    if upto < row.last + 1:
        source = np.concatenate((source, known[-HOP - 1 : -1][::-1]))
    whole = np.zeros((count - 1) * HOP + SIZE, np.float32)
    whole[: len(source)] = source
    return whole, WaveCarry(phase, upto, kept, carry.tails)


def _assemble(row: WaveRow, carry: WaveCarry, moved: WaveCarry, made: NDArray[np.float32]) -> tuple[Sound, WaveCarry]:
    """Add up the overlapping blocks; those no later frame touches become samples."""
    frames, count = len(row.pitch), row.last - row.first
    total = np.zeros((count + _OVERLAP - 1, HOP), np.float32)
    total[: _OVERLAP - 1] = carry.tails
    for part in range(_OVERLAP):
        total[part : part + count] += made[:count, part]
    ended = row.last == frames
    begin = LAG if row.first == 0 else 0  # blocks before the segment's first sample
    final = total[begin : count + LAG if ended else count]
    samples = final * _EVEN
    if row.first == 0:
        samples[0] = final[0] / _SQUARES[:3].sum(0)
    if ended:
        samples[-2] = final[-2] / _SQUARES[1:].sum(0)
        samples[-1] = final[-1] / _SQUARES[2:].sum(0)
    tails = total[count:]
    return samples.reshape(-1), WaveCarry(moved.phase, moved.pulsed, moved.pulses, tails)


_EVEN = 1 / _SQUARES.sum(0)


def _level(log: Tensor) -> Tensor:
    return torch.exp(torch.clamp_max(log, _LOUDEST))


def _padded(noise: NDArray[np.complex64], count: int) -> NDArray[np.complex64]:
    if len(noise) == count:
        return noise
    return np.concatenate((noise, np.zeros((count - len(noise), BINS), np.complex64)))
