"""What the tests of live streams stand on: devices with real voice activity, and an ASR that hears loudness.

`Loudness` is a small deterministic model on the step loop: every 0.3 s of sound is one word that says how loud it is,
so its answers come from the audio alone, and a sample lost or doubled anywhere changes them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from speech.asr import SAMPLE_RATE, FinalRequest, Hypothesis, PartialRequest, Samples, Transcript
from speech.config import StreamConfig
from speech.events import Event, Failed, Final, IdleTimeout, Lagging, Partial, Token, Word
from speech.transcriber import Transcriber
from speech.vad import SileroVad
from workers.backend import Demand, Done, Limits, More, Spec, StepResult
from workers.device import Device
from workers.pool import Pool

BLOCK = 4800


@dataclass
class Job:
    request: PartialRequest | FinalRequest
    left: int


class Loudness:
    """One step for every second of audio. `fails` decides which finals break; `gate` can hold all steps up."""

    def __init__(self) -> None:
        self.spec = Spec("asr", "loudness")
        self.limits = Limits()
        self.gate = threading.Event()
        self.gate.set()
        self.finals: list[FinalRequest] = []
        self.partials: list[PartialRequest] = []
        self.fails = lambda samples: False

    def load(self, device: str) -> None: ...

    def check(self) -> None: ...

    def open(self, payload: PartialRequest | FinalRequest) -> Job:
        if isinstance(payload, FinalRequest):
            self.finals.append(payload)
            return Job(payload, 1 + len(payload.samples) // SAMPLE_RATE)
        self.partials.append(payload)
        return Job(payload, 1)

    def demand(self, job: Job) -> Demand:
        return Demand("step", 1.0)

    def step(self, jobs: Sequence[Job]) -> list[StepResult]:
        self.gate.wait(10)
        return [self._advance(job) for job in jobs]

    def _advance(self, job: Job) -> StepResult:
        job.left -= 1
        if job.left > 0:
            return More()
        if isinstance(job.request, FinalRequest):
            if self.fails(job.request.samples):
                return RuntimeError("this sound breaks the model")
            return Done(transcript(job.request))
        heard = words(job.request.utterance.samples[: job.request.end])[len(job.request.stable) :]
        return Done(Hypothesis(tuple(heard), tuple((f" {word}", 1) for word in heard)))

    def discard(self, job: Job) -> None: ...

    def close(self) -> None: ...


def words(samples: Samples) -> list[int]:
    """Loudness of each block, and of the rest when it is over 0.1 s."""
    blocks = [samples[i : i + BLOCK] for i in range(0, len(samples), BLOCK)]
    return [int(1e5 * np.sqrt(np.mean(b.astype(np.float64) ** 2))) for b in blocks if len(b) > SAMPLE_RATE // 10]


def transcript(request: FinalRequest) -> Transcript:
    seconds = len(request.samples) / SAMPLE_RATE
    heard = words(request.samples)
    return Transcript(
        text=" ".join(map(str, heard)),
        words=tuple(Word(f" {w}", i * 0.3, min((i + 1) * 0.3, seconds), 1.0) for i, w in enumerate(heard)),
        tokens=tuple(Token(f" {w}", b"", -0.1) for w in heard),
        language=request.options.language or "en",
        language_probability=1.0,
        avg_logprob=-0.1,
        no_speech=0.0,
        compression_ratio=1.0,
        temperature=0.0,
        seconds=seconds,
    )


@dataclass
class Stage:
    """Devices that run, with an ASR pool and a voice activity pool on them."""

    asr: Pool
    vad: Pool
    devices: tuple[Device, ...]
    backend: Any

    def stream(self, config: StreamConfig, **how: Any) -> Transcriber:
        return Transcriber(config, asr=self.asr, vad=self.vad, **how)

    def close(self) -> None:
        for device in self.devices:
            device.close()


def stage(backend: Any, vad: Any = None) -> Stage:
    ears, device = Device("vad"), Device("cpu:0")
    ears.add(vad or SileroVad())
    device.add(backend)
    for each in (ears, device):
        each.start()
    return Stage(Pool(backend.spec.model, [device]), Pool("silero", [ears]), (ears, device), backend)


async def say(stream: Transcriber, samples: Samples, cuts: Sequence[int] = ()) -> None:
    """Append in pieces of these lengths, the rest at once."""
    at = 0
    for cut in cuts:
        if at >= len(samples):
            break
        await stream.append(samples[at : at + cut])
        at += cut
    await stream.append(samples[at:])


async def everything(stream: Transcriber) -> list[Event]:
    return [event async for event in stream.events()]


def without_lag(events: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """(what the segmenter says, what the decodes say), each in its order, without wall time."""
    decoded = [e for e in events if isinstance(e, Partial | Final | Failed)]
    others = [e for e in events if not isinstance(e, Partial | Final | Failed | Lagging | IdleTimeout)]
    others += [e for e in events if isinstance(e, IdleTimeout)]
    return others, [e if isinstance(e, Failed) else replace(e, lag=0.0, model_seconds=0.0) for e in decoded]
