"""Whisper on trial: precisions, frozen padding and probes, threads, against float32 on whole windows with one thread.

Without recordings of one's own, what it hears is made: sentences that the voice "heart" speaks. They are easy, so they
show what an option breaks and not how good a model is; give recordings with texts where that matters.
"""

from __future__ import annotations

import csv
import os
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, Samples
from speech.containers import decode_file
from speech.dense import Cast, Int8, Plain
from speech.models import resolve
from speech.models.integrity import copy_hashed
from speech.resample import Resampler
from speech.tuning.tts import VoiceSubject
from speech.whisper import profile, weights
from speech.whisper.backend import WhisperBackend
from speech.whisper.profile import Precision
from workers.gate.helping import answers, cancelled, count_calls, running_on
from workers.gate.subject import Floats, Option, Run, Settings

_WORDS = re.compile(r"[^\w' ]+")
LONGEST = 25.0


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """A recording (mono float32, 16 kHz), and what is said in it."""

    samples: Samples = field(repr=False)
    text: str


class WhisperSubject:
    """Options: "precision" ("bfloat16/int8", encoder and decoder), "window" "frozen", "probes" n, "threads" n,
    "model": a smaller one, which is the control."""

    modality = "asr"

    def __init__(self, model: str, *, recordings: Path | None = None, smaller: str | None = None) -> None:
        self._found = resolve(model)
        self.name = self._found.name
        self._recordings, self._smaller = recordings, smaller
        self._backends: dict[tuple[str, str, int, bool], WhisperBackend] = {}
        self._counts: Counter[str] = Counter()

    def identity(self) -> Mapping[str, str]:
        return identity_of(self.name, str(self._recordings or "made by heart"))

    def options(self) -> Sequence[Option]:
        frozen = {"window": "frozen"}
        threads = [n for n in (2, 4, 8) if n <= _cores()]
        return [
            Option("window", "frozen"),
            *(Option("precision", str(one)) for one in profile.proven("cpu")[1:]),
            *(Option("threads", n) for n in threads),
            *(Option("probes", n, together=frozen) for n in (17,)),
            Option("keep_frames", 0.5, harmful=True),
        ]

    def items(self, n: int, seed: int) -> Sequence[Heard]:
        """Recordings of the folder's references.tsv as far as they go, then made ones."""
        found = list(_recorded(self._recordings))[:n] if self._recordings is not None else []
        if len(found) < n:
            found += [Heard(_to_whisper(sound, rate), text) for sound, rate, text in _spoken(n - len(found), seed)]
        return found

    def run(self, settings: Settings, items: Sequence[Heard]) -> Run:
        backend = self._backend(settings)
        before = torch.get_num_threads()
        threads = settings.get("threads", 1)
        assert isinstance(threads, int)
        torch.set_num_threads(threads)
        self._counts.clear()
        outputs, seconds = [], []
        try:
            for item in items:
                samples = item.samples
                if (keep := settings.get("keep_frames")) is not None:
                    assert isinstance(keep, float)
                    samples = samples[: int(len(samples) * keep)]
                began = time.perf_counter()
                outputs += [one.text for one in answers(backend, [FinalRequest(samples, _options())])]
                seconds.append(time.perf_counter() - began)
                self._counts["threads"] += torch.get_num_threads()
        finally:
            torch.set_num_threads(before)
        return Run(outputs, np.array(seconds), self._counts.copy())

    def score(self, reference: Sequence[str], candidate: Sequence[str], items: Sequence[Heard]) -> Mapping[str, Floats]:
        return {
            "words": np.array([1 - errors(item.text, text) for item, text in zip(items, candidate, strict=True)]),
            "same_words": np.array([1 - errors(a, b) for a, b in zip(reference, candidate, strict=True)]),
        }

    def control(self, seconds_per_item: float) -> Settings | None:
        return {"model": self._smaller, "window": "frozen"} if self._smaller else None

    def isolation(self, settings: Settings) -> list[str]:
        """Alone, among three others, and after one that was dropped half way."""
        backend = self._backend(settings)
        items = self.items(4, 99)
        asked = [FinalRequest(item.samples, _options()) for item in items]
        alone = [answers(backend, [one])[0].text for one in asked]
        found = []
        if [one.text for one in answers(backend, asked)] != alone:
            found.append("another text among others than alone")
        cancelled(backend, asked[0], 3)
        if answers(backend, asked[1:2])[0].text != alone[1]:
            found.append("another text after a request that was dropped")
        return found

    def show(self, output: str) -> str:
        return output

    def caption(self, item: Heard) -> str:
        return item.text

    def _backend(self, settings: Settings) -> WhisperBackend:
        name = str(settings.get("model", self.name))
        precision = str(settings.get("precision", "float32/float32"))
        probes = settings.get("probes", 0)
        assert isinstance(probes, int)
        frozen = settings.get("window") == "frozen"
        key = name, precision, probes, frozen
        if key not in self._backends:
            if len(self._backends) > 3:
                self._backends.pop(next(iter(self._backends))).close()
            folder = self._found.directory if name == self.name else resolve(name).directory
            encoder, _, decoder = precision.partition("/")
            whole = frozenset() if frozen else frozenset({"en"})
            made = WhisperBackend(name, weights.load(folder), folder, Precision(encoder, decoder), probes, whole)
            made.load("cpu")
            count_calls(made, (Plain, Cast, Int8), self._counts)
            self._backends[key] = made
        return self._backends[key]


def identity_of(model: str, items: str) -> Mapping[str, str]:
    """Of a model as it is now, on this machine; `items`: what it was tried on. Raises ModelError."""
    return {
        "weights": copy_hashed([resolve(model).directory / "model.bin"])[:12],
        "items": items,
        **running_on("cpu", ("torch", "numpy", "speechlane")),
    }


def errors(text: str, heard: str) -> float:
    """Word error rate after case and punctuation."""
    wanted, got = (_WORDS.sub(" ", one.lower()).split() for one in (text, heard))
    row = list(range(len(got) + 1))
    for n, word in enumerate(wanted, 1):
        last, row[0] = row[0], n
        for m, other in enumerate(got, 1):
            last, row[m] = row[m], min(row[m] + 1, row[m - 1] + 1, last + (word != other))
    return row[-1] / max(1, len(wanted))


def _options() -> DecodeOptions:
    return DecodeOptions(language="en", temperatures=(0.0,))


def _recorded(folder: Path) -> Sequence[Heard]:
    with (folder / "references.tsv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    found = []
    for row in rows:
        with (folder / row["file"]).open("rb") as file:
            samples = np.concatenate(list(decode_file(file, max_seconds=3600)))
        if len(samples) <= LONGEST * SAMPLE_RATE:
            found.append(Heard(samples, row["text"]))
    return found


def _spoken(n: int, seed: int) -> list[tuple[Samples, int, str]]:
    voice = VoiceSubject()
    items = voice.items(n, seed)
    return [(sound, voice.rate, item) for sound, item in zip(voice.run({}, items).outputs, items, strict=True)]


def _to_whisper(sound: Samples, rate: int) -> Samples:
    resampler = Resampler(rate)
    return np.concatenate([resampler.feed(sound), resampler.flush()])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
