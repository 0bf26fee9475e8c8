"""The two kinds of work: a partial over a growing utterance, and the final over a whole one.

Each is a small machine: encode (in one or several steps), then decode token by token. The backend moves many of them
together; what a machine keeps is only its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from speech.asr import SAMPLE_RATE, FinalRequest, PartialRequest, Samples
from speech.whisper.decoder import Sequence
from speech.whisper.encoder import FRAMES, REDO, Encoder, Encoding, floor_of, frames_of
from speech.whisper.features import LogMel, MelFilter
from speech.whisper.generation import Generation
from speech.whisper.results import Attempt


@dataclass(slots=True)
class Cache:
    """What stays with an utterance between partials; `owner` is the partial that may write it."""

    mel: LogMel
    floor: float
    kv: Tensor
    cross: Tensor
    encoded: int = 0
    sequence: Sequence | None = None
    language: str | None = None
    hypothesis: tuple[int, ...] = ()
    owner: object = None


@dataclass(slots=True)
class Job:
    """A state of the step loop. `generation` is None until the encoder is through."""

    request: PartialRequest | FinalRequest
    samples: Samples
    frames: int
    cache: Cache | None = None
    """Of a partial's utterance, which may let go of it in the middle of a step."""
    encoding: Encoding | None = None
    sequence: Sequence | None = None
    generation: Generation | None = None
    language: str | None = None
    language_probability: float = 1.0
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return len(self.samples) / SAMPLE_RATE

    @property
    def rows(self) -> int:
        """Encoder rows to compute: everything for a final, the newest frames for a partial."""
        if isinstance(self.request, FinalRequest):
            return self.frames
        cache = self.request.utterance.cache
        return self.frames - first_row(cache)


def first_row(cache: Cache | None) -> int:
    """Where a partial begins to encode: `REDO` frames before what has been encoded."""
    return max(0, cache.encoded - REDO) if cache is not None else 0


def open_job(request: PartialRequest | FinalRequest) -> Job:
    """A job for checked input; no work yet."""
    samples = request.samples if isinstance(request, FinalRequest) else request.utterance.samples[: request.end]
    return Job(request, samples, frames_of(len(samples)), language=request.options.language)


def begin_encoding(job: Job, encoder: Encoder, bank: MelFilter, cross: Callable[[float], Tensor]) -> None:
    """Compute the features and make the encoding; a first partial gets its utterance's caches."""
    if isinstance(job.request, FinalRequest):
        mel = LogMel(bank)
        mel.extend(job.samples)
        lo, floor, kv = 0, floor_of(mel.floor), None
        encoder.frozen(floor)
    else:
        cache = job.request.utterance.cache
        if cache is None:
            mel = LogMel(bank)
            mel.extend(job.samples)
            floor = floor_of(mel.floor)
            cache = Cache(mel, floor, encoder.buffer(floor), cross(floor).clone())
            job.request.utterance.cache = cache
        else:
            cache.mel.extend(job.samples)
        cache.owner, job.cache = job, cache
        mel, floor, kv, lo = cache.mel, cache.floor, cache.kv, first_row(cache)
    begin, end = encoder.context(lo, job.frames)
    x = encoder.stem(mel.window(2 * begin, 2 * end), begin, lo, job.frames)
    if kv is None:
        job.encoding = encoder.whole(x, mel.floor, floor)
    else:
        job.encoding = Encoding(x, lo, job.frames, floor, kv)


def end_encoding(job: Job, own: Tensor, frozen: Tensor, new_sequence: Callable[[Tensor], Sequence]) -> None:
    """Put the utterance's cross-attention keys and values beside the frozen ones and prepare a sequence."""
    e = job.encoding
    assert e is not None
    if isinstance(job.request, FinalRequest):
        if e.probes is not None:
            own = e.probes.pad(own, frozen)
        elif e.hi < FRAMES:
            own = torch.cat([own, frozen[:, :, :, e.hi :]], 3)
        job.sequence = new_sequence(own)
    else:
        cache = job.cache
        assert cache is not None
        cache.cross[:, :, :, e.lo : e.hi] = own
        cache.encoded = e.hi
        cache.sequence = cache.sequence or new_sequence(cache.cross)
        job.sequence, job.language = cache.sequence, job.language or cache.language
    job.encoding = None
