"""A long recording with a known text: the recordings of load/corpora.py in random order, with pauses.

    python -m load.long_file --minutes 60

prints where it is. It is made once and kept in the cache.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from load import corpora

RATE = 16_000
SHORTEST_PAUSE, LONGEST_PAUSE = 0.3, 3.0
_FRAME = RATE // 100
_VOICE = 10 ** (-35 / 20)
"""Beside the loudest parts of a recording, the level from which on a frame of 10 ms is voice."""
_FORM = 1
"""Counted up when the same minutes and seed give another file."""


class Said(NamedTuple):
    """One recording in the file: seconds at which its voice begins and ends, and its text."""

    start: float
    end: float
    text: str


def build(minutes: float, seed: int, clips: Sequence[corpora.Clip] | None = None) -> tuple[Path, list[Said]]:
    """A FLAC file (16 kHz mono) of `minutes` and the rest of its last recording, and what is said in it.

    The repository's recordings and Debian's English prompts, or `clips`: every one is said before any is said again.
    """
    chosen = list(clips) if clips is not None else recordings()
    told = "\n".join(f"{clip.path.name}\t{clip.text}" for clip in chosen)
    mark = hashlib.sha256(f"{_FORM}\n{told}".encode()).hexdigest()[:8]
    path = corpora.cache() / f"long-{minutes:g}min-{seed}-{mark}.flac"
    text = path.with_suffix(".json")
    if not (path.exists() and text.exists()):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{os.getpid()}-{path.name}")
        said = _write(beside, round(minutes * 60 * RATE), random.Random(seed), chosen)
        text.write_text(json.dumps(said, ensure_ascii=False))
        os.replace(beside, path)
    return path, [Said(*row) for row in json.loads(text.read_text())]


def recordings() -> list[corpora.Clip]:
    """The repository's recordings and the prompts that are not among them."""
    own = list(corpora.bundled())
    names = {clip.path.stem for clip in own}
    return own + [clip for clip in corpora.prompts("en") if clip.path.stem not in names]


def _write(path: Path, samples: int, chance: random.Random, clips: Sequence[corpora.Clip]) -> list[Said]:
    said: list[Said] = []
    at, waiting = 0, list[corpora.Clip]()
    with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16", format="FLAC") as file:
        while at < samples:
            pause = round(chance.uniform(SHORTEST_PAUSE, LONGEST_PAUSE) * RATE)
            waiting = waiting or chance.sample(clips, len(clips))
            clip = waiting.pop()
            pcm = audio(clip.path)
            first, last = _voice(clip.path)
            file.write(np.zeros(pause, np.int16))
            file.write(pcm)
            at += pause
            said.append(Said((at + first) / RATE, (at + last) / RATE, clip.text))
            at += len(pcm)
    return said


@cache
def audio(path: Path) -> NDArray[np.int16]:
    """A recording as mono PCM16 at 16 kHz."""
    samples, own = soundfile.read(path, dtype="float32", always_2d=True)
    mono = samples.mean(axis=1)
    heard = soxr.resample(mono, own, RATE) if own != RATE else mono
    samples16: NDArray[np.int16] = np.round(np.clip(heard, -1.0, 1.0) * 32_767).astype(np.int16)
    return samples16


@cache
def _voice(path: Path) -> tuple[int, int]:
    """The samples of a recording between which its voice lies, by level alone."""
    pcm = audio(path).astype(np.float64)
    frames = pcm[: len(pcm) // _FRAME * _FRAME].reshape(-1, _FRAME)
    level = np.sqrt(np.square(frames).mean(axis=1))
    loud = np.flatnonzero(level > _VOICE * np.quantile(level, 0.95))
    return (int(loud[0]) * _FRAME, int(loud[-1] + 1) * _FRAME) if len(loud) else (0, len(pcm))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="length (default %(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="which order and pauses (default %(default)s)")
    options = parser.parse_args()
    path, said = build(options.minutes, options.seed)
    print(f"{path}  {soundfile.info(path).duration:.1f} s, {len(said)} recordings")


if __name__ == "__main__":
    main()
