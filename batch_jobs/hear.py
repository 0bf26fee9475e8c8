"""One chunk to words: its audio from the spool, the model's steps in the bulk lane, times on the file's clock."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

import numpy as np

from batch_jobs import wire
from batch_jobs.spool import Spool
from batch_jobs.transcript import Chunk, ChunkResult, Segment, Slice
from speech.asr import DecodeOptions, FinalRequest, Samples, Transcript
from speech.config import StreamConfig
from speech.events import Word
from speech.finals import final
from speech.pieces import Piece
from workers.clock import Clock
from workers.pool import Pool
from workers.task import Lane

_DEADLINE = 60.0
"""Seconds in which a chunk should be done; in bulk this only keeps those of many jobs in the order they came in."""
_PAUSE = 1.0
"""Seconds of silence between two words that end a segment."""
_STOPS = tuple(".?!。？！")
_TITLES = frozenset({"mr.", "mrs.", "ms.", "dr.", "prof.", "st."})
"""With a stop of their own, and a name behind them."""
_FORMAT = 3
"""Goes up when the same chunk would give another result, so that kept results of earlier versions are not used."""


class Ear:
    """Decodes on one model, counting the seconds of step time it took."""

    def __init__(self, asr: Pool, clock: Clock) -> None:
        self.seconds = 0.0
        self._asr, self._clock = asr, clock

    async def decode(self, request: FinalRequest) -> Transcript:
        """Raises ServingError."""
        handle = self._asr.submit(request, lane=Lane.BULK, deadline=self._clock() + _DEADLINE)
        try:
            answer: Transcript = await handle.result()
        finally:
            handle.cancel()
            self.seconds += handle.timing.share_seconds
        return answer


def result_name(chunk: Chunk, options: DecodeOptions, model: str, precision: str) -> str:
    """What a chunk's result is kept under: its sound, where in it voice was heard, and how it is decoded.

    `precision`: with the kind of device.
    """
    heard = [
        _FORMAT,
        model,
        precision,
        asdict(options),
        [[one.blob, one.first, one.last] for run in chunk.runs for one in run.audio],
        [[run.start - chunk.start, run.end - chunk.start] for run in chunk.runs],
        [[start - chunk.start, end - chunk.start] for start, end in chunk.speech],
        chunk.start,
        chunk.channel,
    ]
    return f"results/{hashlib.sha256(json.dumps(heard).encode()).hexdigest()}"


def audio(spool: Spool, slices: Iterable[Slice]) -> Samples:
    """The samples of spooled slices, one after another. Raises BlobMissing. Blocks."""
    parts = [np.frombuffer(spool.read(one.blob, 2 * one.first, 2 * one.last), "<i2") for one in slices]
    return np.concatenate(parts).astype(np.float32) * np.float32(2**-15) if parts else np.zeros(0, np.float32)


async def hear(chunk: Chunk, spool: Spool, options: DecodeOptions, ear: Ear) -> ChunkResult:
    """What is said in a chunk, with the checks of live finals against where voice was heard. Raises ServingError."""
    piece = Piece(0, StreamConfig("", options))
    sounds = await asyncio.to_thread(lambda: [audio(spool, run.audio) for run in chunk.runs])
    for run, samples in zip(chunk.runs, sounds, strict=True):
        piece.append(samples, run.start)
    for start, end in chunk.speech:
        piece.voice(start, end)
    answers: list[Transcript] = []

    async def decode(request: FinalRequest) -> Transcript:
        answers.append(await ear.decode(request))
        return answers[-1]

    spoken = await final(piece, piece.audio.samples, decode, None, ())
    if not answers:
        return ChunkResult(())
    answer = answers[0]
    segments = tuple(
        Segment(
            start=words[0].start,
            end=words[-1].end,
            text="".join(word.text for word in words).strip(),
            words=words,
            channel=chunk.channel,
            language=spoken.language,
            avg_logprob=round(spoken.logprob, 4),
            no_speech=round(spoken.no_speech, 4),
            compression_ratio=round(answer.compression_ratio, 3),
            temperature=answer.temperature,
        )
        for words in sentences(spoken.words)
    )
    return ChunkResult(segments, spoken.language, round(answer.language_probability, 4))


def sentences(words: Sequence[Word]) -> Iterator[tuple[Word, ...]]:
    """The words in groups that end with a sentence or before a long silence."""
    group: list[Word] = []
    for word in words:
        if group and (word.start - group[-1].end > _PAUSE or _ends(group[-1])):
            yield tuple(group)
            group = []
        group.append(word)
    if group:
        yield tuple(group)


def _ends(word: Word) -> bool:
    text = word.text.strip()
    return text.endswith(_STOPS) and text.casefold() not in _TITLES


def heard_before(spool: Spool, name: str) -> ChunkResult | None:
    """The result that is kept under a name, if there is one that can be read. Blocks."""
    data = spool.load(name)
    try:
        return wire.load(ChunkResult, data) if data is not None else None
    except ValueError:  # cut off by a full disk of somebody else's making: do it again
        return None
