"""The voice "heart" on trial: int8 rows and batched rows, against float32 a row at a time."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from speech.dense import Cast, Int8, Plain
from speech.models.bundled import part_path
from speech.models.manifest import bundles
from speech.text.spoken import Spoken
from speech.tts import PlanRequest, RenderRequest, SegmentText, Sound, Voicing
from speech.voices.hibari.backend import HibariBackend
from speech.voices.hibari.layers_int8 import Layer
from speech.voices.hibari.voice import HibariVoice
from speech.voices.hibari.wave import RATE
from speech.voices.hibari.weights import read_weights
from workers.gate.helping import answers, cancelled, count_calls, running_on
from workers.gate.subject import Floats, Option, Run, Settings
from workers.gate.texts import sentences

_TOKEN = re.compile(r"[\w'’-]+|[^\w\s]")
_BINS = 1024
_BAND, _STRETCH = 12, 0.05
"""Frames that two sounds may be apart, and what a frame of stretching costs (in decades of power)."""


class VoiceSubject:
    """Options: "precision" "int8", "rows" "together"."""

    name, modality, rate = "heart", "tts", RATE

    def __init__(self) -> None:
        self._voice = HibariVoice(precision="float32")
        self._backends: dict[tuple[str, bool], HibariBackend] = {}
        self._counts: Counter[str] = Counter()

    def identity(self) -> Mapping[str, str]:
        return identity_of()

    def options(self) -> Sequence[Option]:
        return [
            Option("precision", "int8"),
            Option("rows", "together"),
            Option("pace", 1.5, harmful=True),
            Option("coarse", 3, harmful=True),
        ]

    def items(self, n: int, seed: int) -> Sequence[str]:
        return sentences(n, seed)

    def run(self, settings: Settings, items: Sequence[str]) -> Run:
        backend = self._backend(settings)
        self._counts.clear()
        outputs, seconds = [], []
        for text in items:
            began = time.perf_counter()
            sound = self._spoken(backend, [self._voicing(text, settings)])[0]
            coarse = settings.get("coarse")
            if isinstance(coarse, int):  # harmful: so many bits of each sample
                sound = np.round(sound * 2 ** (coarse - 1)).astype(np.float32) / 2 ** (coarse - 1)
                self._counts["coarse"] += 1
            seconds.append(time.perf_counter() - began)
            outputs.append(sound)
        return Run(outputs, np.array(seconds), self._counts.copy())

    def score(
        self, reference: Sequence[Sound], candidate: Sequence[Sound], items: Sequence[str]
    ) -> Mapping[str, Floats]:
        pairs = list(zip(reference, candidate, strict=True))
        return {
            "likeness": np.array([likeness(a, b) for a, b in pairs]),
            "timing": np.array([1 - abs(len(a) - len(b)) / max(1, len(a)) for a, b in pairs]),
        }

    def control(self, seconds_per_item: float) -> Settings | None:
        return None  # a voice has no steps, and there is no smaller one

    def isolation(self, settings: Settings) -> list[str]:
        """Alone, among three others, and after one that was dropped."""
        backend = self._backend(settings)
        texts = self.items(4, 99)
        alone = [self._spoken(backend, [self._voicing(text, settings)])[0] for text in texts]
        among = self._spoken(backend, [self._voicing(text, settings) for text in texts])
        found = []
        if not all(_same(a, b) for a, b in zip(alone, among, strict=True)):
            found.append("other samples among others than alone")
        cancelled(backend, PlanRequest(self._voicing(texts[0], settings)), 1)
        if not _same(self._spoken(backend, [self._voicing(texts[1], settings)])[0], alone[1]):
            found.append("other samples after a request that was dropped")
        return found

    def show(self, output: Sound) -> str:
        return f"{len(output) / self.rate:.2f} s, {20 * np.log10(max(1e-9, float(np.std(output)))):.1f} dB"

    def caption(self, item: str) -> str:
        return item

    def _voicing(self, text: str, settings: Settings) -> Voicing:
        spoken = tuple(
            Spoken(m.group(), m.start(), m.end(), "word" if m.group()[0].isalnum() else "punctuation")
            for m in _TOKEN.finditer(text)
        )
        pace = settings.get("pace", 1.0)
        assert isinstance(pace, float)
        return Voicing(SegmentText(spoken, self._voice.phonemes(spoken), pace, seed=7, index=0, first=True))

    def _spoken(self, backend: HibariBackend, voicings: Sequence[Voicing]) -> list[Sound]:
        plans = answers(backend, [PlanRequest(one) for one in voicings])
        made: list[list[Sound]] = [[] for _ in voicings]
        longest = max(len(plan.windows) for plan in plans)
        for window in range(longest):
            going = [n for n, plan in enumerate(plans) if window < len(plan.windows)]
            found: list[Any] = answers(backend, [RenderRequest(voicings[n], window) for n in going])
            for n, one in zip(going, found, strict=True):
                made[n].append(one.samples)
        return [np.concatenate(parts) for parts in made]

    def _backend(self, settings: Settings) -> HibariBackend:
        key = str(settings.get("precision", "float32")), settings.get("rows") == "together"
        if key not in self._backends:
            torch.set_num_threads(1)
            graph = part_path(next(file.parts[0] for file in bundles()["hibari"].files if file.name == "hibari.onnx"))
            made = HibariBackend(read_weights(graph), precision=key[0], batched=key[1])
            made.load("cpu")
            count_calls(made, (Plain, Cast, Int8, Layer), self._counts)
            self._backends[key] = made
        return self._backends[key]


def identity_of() -> Mapping[str, str]:
    """Of the voice as it is now, on this machine."""
    return {"weights": bundles()["hibari"].revision, **running_on("cpu", ("torch", "numpy", "speechlane"))}


def likeness(a: Sound, b: Sound) -> float:
    """Correlation of log spectra in bands as the ear has them, 1 for the same. Frame by frame along the best warping of
    at most 130 ms: a phoneme that is a frame longer is timing, which is judged apart."""
    if np.array_equal(a, b):
        return 1.0
    first, second = _bands(a), _bands(b)
    if float(first.std()) == 0 or float(second.std()) == 0:
        return 0.0
    path = _warped(first, second)
    return float(np.corrcoef(first[path[:, 0]].ravel(), second[path[:, 1]].ravel())[0, 1])


def _warped(first: Floats, second: Floats) -> NDArray[np.int64]:
    """Pairs of frames (n, 2), by dynamic time warping within a band around the diagonal."""
    rows, columns = len(first), len(second)
    cost = np.full((rows + 1, columns + 1), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, rows + 1):
        middle = round(i * columns / rows)
        low, high = max(1, middle - _BAND), min(columns, middle + _BAND)
        apart = np.abs(second[low - 1 : high] - first[i - 1]).mean(1)
        for j in range(low, high + 1):
            before = min(cost[i - 1, j - 1], cost[i - 1, j] + _STRETCH, cost[i, j - 1] + _STRETCH)
            cost[i, j] = apart[j - low] + before
    i, j, path = rows, columns, []
    while i > 0 and j > 0:
        path.append((i - 1, j - 1))
        ways = ((cost[i - 1, j - 1], i - 1, j - 1), (cost[i - 1, j], i - 1, j), (cost[i, j - 1], i, j - 1))
        _, i, j = min(ways)
    return np.array(path)


def _bands(sound: Sound) -> Floats:
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(sound, (0, _BINS)), _BINS)[:: _BINS // 4]
    power = np.abs(np.fft.rfft(frames * np.hanning(_BINS), axis=1)) ** 2
    edges = np.unique(np.geomspace(4, power.shape[1], 33).astype(int))
    found: Floats = np.log10(np.add.reduceat(power, edges[:-1], axis=1) + 1e-5)
    return found


def _same(a: Sound, b: Sound) -> bool:
    """To a sixteen-bit step: rows that are computed together are summed in another order."""
    return a.shape == b.shape and bool(np.abs(a - b).max(initial=0) <= 2 / 32768)
