"""One utterance as a live stream has it decoded: a partial every second, and the final; CPU seconds of each part."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from speech.agreement import LocalAgreement
from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, PartialRequest, Samples, Transcript, Utterance
from speech.config import StreamConfig
from speech.finals import final
from speech.pieces import Piece
from workers.backend import Done

PARTS = ("partial encode", "partial decode", "final encode", "final decode")


class Engine(Protocol):
    """A `WhisperBackend`, or what steps and answers as it does."""

    def open(self, payload: Any) -> Any: ...
    def step(self, jobs: Any) -> Any: ...
    def discard(self, job: Any) -> None: ...


@dataclass(slots=True)
class Played:
    """What came of one utterance. `spent`: CPU seconds by PARTS; `partials`: the texts, one a second."""

    text: str = ""
    partials: list[str] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))

    @property
    def seconds(self) -> float:
        """Of the processor, for all of it."""
        return sum(self.spent.values())


def play(engine: Engine, samples: Samples, language: str = "en") -> Played:
    """Decode mono float32 samples at 16 kHz as a live stream would, alone and as fast as it goes."""
    played, options = Played(), DecodeOptions(language=language)
    utterance, agreement = Utterance(), LocalAgreement()
    for end in range(SAMPLE_RATE, len(samples), SAMPLE_RATE):
        utterance.append(samples[utterance.length : end])
        request = PartialRequest(utterance, end, agreement.tokens, options)
        hypothesis = _answer(engine, request, "partial", played)
        agreement.update(hypothesis, end / SAMPLE_RATE)
        played.partials.append(agreement.text + "".join(text for text, _ in hypothesis.pieces))
    draft = agreement.tokens + agreement.tail

    async def decode(request: FinalRequest) -> Transcript:
        found: Transcript = _answer(engine, request, "final", played)
        return found

    played.text = asyncio.run(final(_piece(samples, options), samples, decode, None, draft)).text
    utterance.release()
    return played


def _answer(engine: Engine, request: PartialRequest | FinalRequest, kind: str, played: Played) -> Any:
    job = engine.open(request)
    try:
        while True:
            part = f"{kind} {'encode' if job.sequence is None else 'decode'}"
            took, (result,) = _cpu(lambda: engine.step([job]))
            played.spent[part] += took
            if isinstance(result, Exception):
                raise result
            if isinstance(result, Done):
                return result.output
    finally:
        engine.discard(job)


def _cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    out = work()
    return time.process_time() - start, out


def _piece(samples: Samples, options: DecodeOptions) -> Piece:
    """The whole of a recording, with its voice where it is loud."""
    voice = np.flatnonzero(np.abs(samples) > 0.05 * np.abs(samples).max())
    piece = Piece(0, StreamConfig("measured", options))
    piece.append(samples, 0)
    piece.voice(int(voice[0]), int(voice[-1]) + 1)
    return piece
