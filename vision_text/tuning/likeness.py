"""How alike two pictures or clips are, without a model: each measure 1 for the same, higher is better."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workers.gate.subject import Floats

Frames = NDArray[np.uint8]
"""(frames, height, width, 3)."""
_LIKE_GROUND = 60.0
_SCALES = 3


def psnr(a: Frames, b: Frames) -> float:
    """Of the worst frame, in dB over 100; 1 for the same."""
    error = ((a.astype(np.float64) - b) ** 2).mean(axis=(1, 2, 3)).max()
    return 1.0 if error == 0 else min(1.0, float(10 * np.log10(255**2 / error)) / 100)


def ssim(a: Frames, b: Frames) -> float:
    """Of the worst frame."""
    return min(_ssim(x, y) for x, y in zip(a, b, strict=True))


def ms_ssim(a: Frames, b: Frames) -> float:
    """Mean over scales of the worst frame's; small pictures have fewer scales."""
    found = []
    for _ in range(_SCALES):
        found.append(min(_ssim(x, y) for x, y in zip(a, b, strict=True)))
        if min(a.shape[1:3]) < 16:
            break
        a, b = _half(a), _half(b)
    return float(np.mean(found))


def steady(a: Frames, b: Frames) -> float:
    """1 less the flicker that `b` has and `a` has not: change of brightness from frame to frame, share of all."""
    return 1 - max(0.0, _flicker(b) - _flicker(a))


def smooth(a: Frames, b: Frames) -> float:
    """1 less the jitter that `b` has and `a` has not: second difference of the middle of what stands out, share of the
    side."""
    return 1 - max(0.0, _jitter(b) - _jitter(a))


def _ssim(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    from skimage.metrics import structural_similarity

    side = min(7, a.shape[0] - (a.shape[0] + 1) % 2, a.shape[1] - (a.shape[1] + 1) % 2)
    compare: Any = structural_similarity
    found: Any = compare(a, b, channel_axis=2, data_range=255, win_size=side)
    return float(found)


def _half(frames: Frames) -> Frames:
    high, wide = frames.shape[1] // 2 * 2, frames.shape[2] // 2 * 2
    cut = frames[:, :high, :wide].astype(np.float64)
    shrunk = cut.reshape(len(cut), high // 2, 2, wide // 2, 2, 3).mean(axis=(2, 4))
    halved: Frames = np.rint(shrunk).astype(np.uint8)
    return halved


def _flicker(frames: Frames) -> float:
    return float(np.abs(np.diff(frames.mean(axis=(1, 2, 3)))).mean() / 255) if len(frames) > 1 else 0.0


def _jitter(frames: Frames) -> float:
    if len(frames) < 3:
        return 0.0
    middles = np.array([_middle(frame) for frame in frames])
    return float(np.linalg.norm(np.diff(middles, n=2, axis=0), axis=1).mean())


def _middle(frame: NDArray[np.uint8]) -> Floats:
    """(x, y) as shares of the sides, of what is unlike the corners; the frame's own middle when nothing is."""
    ground = np.median(frame[[0, 0, -1, -1], [0, -1, 0, -1]].astype(np.float64), axis=0)
    out = np.linalg.norm(frame - ground, axis=2) > _LIKE_GROUND
    if not out.any():
        return np.array([0.5, 0.5])
    y, x = np.nonzero(out)
    return np.array([(x.mean() + 0.5) / frame.shape[1], (y.mean() + 0.5) / frame.shape[0]])
