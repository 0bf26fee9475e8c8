"""The tiny codec model as backends, segments to speak, and a loop that steps them in batches as a device does."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import torch

from speech.text.spoken import Spoken
from speech.tts import PlanRequest, Rendered, RenderRequest, SegmentText, Sound, Voicing
from speech.voices.codec.backend import CodecBackend
from speech.voices.codec.model import CodecModel
from speech.voices.codec.voice import CodecVoice, load_voices
from tests.speech.voices.tiny_codec import save
from workers.backend import Done, More

TEXTS = (
    "Hello there , my friend .",
    "It is twenty three degrees outside .",
    "No .",
    "The quick brown fox jumps over the lazy dog , and then it sleeps .",
)


@cache
def folders() -> tuple[Path, Path]:
    """The tiny model's folders, for as long as the tests run."""
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="tiny-codec-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return save(folder)


@cache
def model() -> CodecModel:
    return CodecModel("tiny", *folders())


@cache
def voice() -> CodecVoice:
    return load_voices(*map(str, folders()), speakers=("tara", "leo"))[0]


def backend(slots: int = 4, *, capacity: int = 2048, voicings: int = 64, apart: bool | None = None) -> CodecBackend:
    made = CodecBackend(model(), slots=slots, capacity=capacity, voicings=voicings, apart=apart)
    made.load("cpu")
    return made


def tokens(text: str) -> tuple[Spoken, ...]:
    out, at = [], 0
    for word in text.split(" "):
        out.append(Spoken(word, at, at + len(word), "word" if word[:1].isalnum() else "punctuation"))
        at += len(word) + 1
    return tuple(out)


def voicing(text: str, *, seed: int = 0, index: int = 0, first: bool = True, speed: float = 1.0) -> Voicing:
    spoken = tokens(text)
    return Voicing(SegmentText(spoken, voice().phonemes(spoken), speed, seed, index, first))


def run(backend: CodecBackend, *requests: PlanRequest | RenderRequest) -> list[object]:
    """The outputs, or errors, of requests that share steps where they can."""
    jobs = [backend.open(request) for request in requests]
    ended: dict[int, object] = {}
    while len(ended) < len(jobs):
        groups: dict[Hashable, list[int]] = {}
        for n, job in enumerate(jobs):
            if n not in ended:
                groups.setdefault(backend.demand(job).bucket, []).append(n)
        batch = max(groups.values(), key=len)[: backend.limits.items]
        for n, result in zip(batch, backend.step([jobs[n] for n in batch]), strict=True):
            if not isinstance(result, More):
                ended[n] = result.output if isinstance(result, Done) else result
                backend.discard(jobs[n])
    return [ended[n] for n in range(len(jobs))]


@dataclass(eq=False)
class Heard:
    """A segment as far as it was spoken."""

    voicing: Voicing
    windows: list[Rendered] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return bool(self.windows) and self.windows[-1].last

    @property
    def next(self) -> RenderRequest:
        return RenderRequest(self.voicing, len(self.windows))

    @property
    def samples(self) -> Sound:
        return np.concatenate([window.samples for window in self.windows])


def speak(backend: CodecBackend, voicings: Sequence[Voicing], *, windows: int = 1000) -> list[Heard]:
    """All segments, side by side, up to that many windows of each; nothing is released."""
    heard = [Heard(each) for each in voicings]
    run(backend, *(PlanRequest(each) for each in voicings))
    go_on(backend, heard, windows=windows)
    return heard


def go_on(backend: CodecBackend, heard: Sequence[Heard], *, windows: int = 1000) -> None:
    while going := [each for each in heard if not each.over and len(each.windows) < windows]:
        for each, answer in zip(going, run(backend, *(each.next for each in going)), strict=True):
            assert isinstance(answer, Rendered), answer
            each.windows.append(answer)


def alone(text: str, **options: int) -> Sound:
    """What a segment sounds like on a device of its own."""
    return _alone(text, tuple(sorted(options.items())))


@cache
def _alone(text: str, options: tuple[tuple[str, int], ...]) -> Sound:
    (heard,) = speak(_lonely(), [voicing(text, **dict(options))])
    heard.voicing.release()
    return heard.samples


@cache
def _lonely() -> CodecBackend:
    return backend(1)
