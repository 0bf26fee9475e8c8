"""Plots as SVG without scripts or styles, and pictures as data URLs: what a page may hold that loads nothing."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 30, 40


@dataclass(frozen=True, slots=True)
class Dot:
    """A point with its name. `low` and `high` of x are its spread. `kind` is a class of the page's style."""

    x: float
    y: float
    name: str
    kind: str
    low: float | None = None
    high: float | None = None


def scatter(dots: Sequence[Dot], *, x_name: str, y_name: str, bar: float | None = None) -> str:
    """Dots with their spread; names are shown when one points at them, and told to those who cannot see."""
    if not dots:
        return ""
    xs = [value for dot in dots for value in (dot.x, dot.low, dot.high) if value is not None]
    ys = [dot.y for dot in dots] + ([bar] if bar is not None else [])
    x_ticks, y_ticks = _ticks(min(xs), max(xs)), _ticks(min(ys), max(ys))

    def px(x: float) -> float:
        share = (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def py(y: float) -> float:
        return _TOP + (1 - (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])) * (HEIGHT - _TOP - _BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y_name)} against {escape(x_name)}">']
    for x in x_ticks:
        parts.append(f'<line class="grid" x1="{px(x):.1f}" y1="{_TOP}" x2="{px(x):.1f}" y2="{HEIGHT - _BOTTOM}"/>')
        parts.append(f'<text x="{px(x):.1f}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{_short(x)}</text>')
    for y in y_ticks:
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{py(y):.1f}" x2="{WIDTH - _RIGHT}" y2="{py(y):.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{py(y) + 4:.1f}" text-anchor="end">{_short(y)}</text>')
    if bar is not None:
        parts.append(f'<line class="bar" x1="{_LEFT}" y1="{py(bar):.1f}" x2="{WIDTH - _RIGHT}" y2="{py(bar):.1f}"/>')
    for dot in dots:
        if dot.low is not None and dot.high is not None:
            ends = f'x1="{px(dot.low):.1f}" y1="{py(dot.y):.1f}" x2="{px(dot.high):.1f}" y2="{py(dot.y):.1f}"'
            parts.append(f'<line class="spread {dot.kind}" {ends}/>')
        told = f"{escape(dot.name)}: {_short(dot.x)} {escape(x_name)}, {_short(dot.y)} {escape(y_name)}"
        parts.append(
            f'<circle class="{dot.kind}" cx="{px(dot.x):.1f}" cy="{py(dot.y):.1f}" r="5"><title>{told}</title></circle>'
        )
    parts.append(f'<text class="name" x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_name)}</text>')
    parts.append(f'<text class="name" x="14" y="14">{escape(y_name)}</text></svg>')
    return "".join(parts)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers that hold all, three to eight of them."""
    if high - low < 1e-9:
        low, high = low - 0.05 * max(1.0, abs(low)), high + 0.05 * max(1.0, abs(high))
    step = 10 ** floor(log10((high - low) / 3))
    for times in (1, 2, 5, 10):
        if (high - low) / (step * times) <= 6:
            step *= times
            break
    return [round(n * step, 10) for n in range(floor(low / step), ceil(high / step) + 1)]


def _short(value: float) -> str:
    return f"{value:.4g}"


def png(pixels: NDArray[np.uint8], least: int = 96) -> str:
    """A data URL of (height, width, 3); small ones larger by whole factors, so that every pixel is seen."""
    times = max(1, least // max(1, pixels.shape[0]))
    large = pixels.repeat(times, axis=0).repeat(times, axis=1)
    height, width = large.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    rows[:, 1:] = large.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header)
    data += _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
