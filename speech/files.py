"""A whole recording through the live path's parts: cut by voice activity, transcribed side by side, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace

from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, Samples, Transcript
from speech.config import StreamConfig, VadConfig
from speech.events import Token, Word
from speech.finals import Spoken, final
from speech.hearing import Hearing
from speech.language import LanguageLock
from speech.pieces import Piece, Sealed
from speech.segmenter import Segmenter
from workers.clock import Clock
from workers.pool import Pool
from workers.task import Lane

_VAD = VadConfig(silence=2.0, prefix=0.3)
"""Nobody waits for the end of an utterance here, and the model does better with what was said around a pause."""
_STRIDE = 10 * SAMPLE_RATE
_AHEAD = 4
"""Pieces decoded at a time: enough to share steps, few enough to leave the queue to others."""
_DEADLINE = 10.0


@dataclass(frozen=True, slots=True)
class Segment:
    """One stretch of speech in a file; times in seconds from its start. `token_ids` are the model's."""

    id: int
    start: float
    end: float
    text: str
    words: tuple[Word, ...]
    tokens: tuple[Token, ...]
    token_ids: tuple[int, ...]
    avg_logprob: float
    no_speech: float
    compression_ratio: float
    temperature: float
    language: str


async def transcribe(
    samples: Samples,
    options: DecodeOptions,
    *,
    model: str,
    asr: Pool,
    vad: Pool,
    multilingual: bool,
    clock: Clock,
) -> AsyncGenerator[Segment, None]:
    """Segments of `samples` (16 kHz) in order. Raises ServingError; ending the iteration cancels the rest."""
    lock = LanguageLock() if multilingual and options.language is None else None
    config = StreamConfig(model, replace(options, timestamps=True), vad=_VAD, partials=False)
    running: deque[asyncio.Task[list[Segment]]] = deque()
    number = 0
    try:
        async for piece, audio in _pieces(samples, config, vad, clock):
            work = _piece(piece, audio, asr, lock, clock)
            running.append(asyncio.create_task(work))
            # Until the language is settled, one piece waits for the one before.
            while len(running) >= (_AHEAD if lock is None or lock.current else 1):
                for segment in await running[0]:
                    yield replace(segment, id=number)
                    number += 1
                running.popleft()
        while running:
            for segment in await running[0]:
                yield replace(segment, id=number)
                number += 1
            running.popleft()
    finally:
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)


async def _pieces(
    samples: Samples, config: StreamConfig, vad: Pool, clock: Clock
) -> AsyncIterator[tuple[Piece, Samples]]:
    segmenter, hearing = Segmenter(config), Hearing(vad, clock, Lane.INTERACTIVE, _DEADLINE)
    for first in range(0, len(samples), _STRIDE):
        for signal in segmenter.push(*await hearing.hear(samples[first : first + _STRIDE])):
            if isinstance(signal, Sealed):
                yield signal.piece, signal.samples
    for signal in segmenter.finish(hearing.tail):
        if isinstance(signal, Sealed):
            yield signal.piece, signal.samples


async def _piece(piece: Piece, samples: Samples, asr: Pool, lock: LanguageLock | None, clock: Clock) -> list[Segment]:
    answers: list[Transcript] = []

    async def decode(request: FinalRequest) -> Transcript:
        handle = asr.submit(request, lane=Lane.INTERACTIVE, deadline=clock() + _DEADLINE)
        try:
            answer: Transcript = await handle.result()
        finally:
            handle.cancel()
        answers.append(answer)
        return answer

    spoken = await final(piece, samples, decode, lock, ())
    return _split(spoken, answers[0]) if spoken.text else []


def _split(spoken: Spoken, answer: Transcript) -> list[Segment]:
    """A segment for each stretch the model itself divided the text into; one when the text was changed since."""
    parts = answer.segments
    if spoken.text != answer.text or sum(count for _, count in parts) != len(spoken.tokens):
        parts = ((spoken.text, len(spoken.tokens)),)
    out, word, token = [], 0, 0
    for n, (text, count) in enumerate(parts):
        size = len(text.replace(" ", ""))
        first, spelled = word, 0
        while word < len(spoken.words) and (spelled < size or n == len(parts) - 1):
            spelled += len(spoken.words[word].text.replace(" ", ""))
            word += 1
        words = spoken.words[first:word]
        if words:
            segment = Segment(
                id=0,
                start=words[0].start,
                end=words[-1].end,
                text=text,
                words=words,
                tokens=spoken.tokens[token : token + count],
                token_ids=answer.token_ids[token : token + count],
                avg_logprob=spoken.logprob,
                no_speech=spoken.no_speech,
                compression_ratio=answer.compression_ratio,
                temperature=answer.temperature,
                language=spoken.language,
            )
            out.append(segment)
        token += count
    return out
