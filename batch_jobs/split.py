"""A media file cut into chunks: decoded as a stream, spooled in parts, heard by voice activity once, cut at silences.

Nothing is held but the part being filled and the piece being spoken, so a file of ten hours takes the memory of a short
one. Every size here is counted in samples of the file and never in what a read or a turn of the loop brought: the same
file gives the same parts and chunks every time, on every host, also when the task has to be run again.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from time import perf_counter

import numpy as np

from batch_jobs.job import Channels, JobOptions
from batch_jobs.media.decode import Media, Sound
from batch_jobs.settings import BatchSettings
from batch_jobs.spool import Spool
from batch_jobs.transcript import Chunk, Hole, Run, Slice
from speech.asr import SAMPLE_RATE, Samples
from speech.config import LONGEST_PIECE, StreamConfig, VadConfig
from speech.hearing import Hearing
from speech.pieces import Sealed, Signal
from speech.segmenter import Segmenter
from speech.vad import RUN, WINDOW
from workers.clock import Clock
from workers.pool import Pool
from workers.task import Lane

_VAD = VadConfig(silence=2.0, prefix=0.3)
"""Nobody waits for the end of an utterance here, and the model does better with what was said around a pause."""
_AT_ONCE = 10
"""Seconds of sound that go from the decoder to voice activity at once."""
_STRIDE = RUN * WINDOW
"""Samples; voice activity gets whole runs, so that its numbers are the same to the last bit every time."""
_PARTS = (60, 120, 240, 480)
"""Seconds of the first parts and all later ones: workers that wait for a chunk get the first ones soon."""
_WITHIN = 30.0
"""Seconds in which voice activity should have heard a stride, live streams going first."""
_LAG = 1.0
"""Seconds before the newest sound in which a chunk may still begin."""


@dataclass(frozen=True, slots=True)
class Part:
    """Samples [start, end) of a channel in the spool: mono 16-bit PCM at 16 kHz, little-endian."""

    start: int
    end: int
    blob: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the split is, in seconds of the file. `silent`: decoded, and in no chunk (mean over the channels).

    When all is done, `silent` and the chunks' lengths divided by `channels` make up `decoded`. `work` are the seconds
    that decoding, voice activity and spooling took so far.
    """

    decoded: float
    expected: float | None
    speech: float
    silent: float
    channels: int
    work: float


@dataclass(frozen=True, slots=True)
class SplitReport:
    """What was found. `speech` are spans of voice and `parts` the decoded audio, for each channel, in samples.

    `container` is the length in seconds that the file claims, `decoded` what it holds. A channel without sound of its
    own has no parts.
    """

    container: float | None
    decoded: float
    channels: int
    codec: str
    speech: tuple[tuple[tuple[int, int], ...], ...]
    parts: tuple[tuple[Part, ...], ...]
    holes: tuple[Hole, ...]
    warnings: tuple[str, ...]

    def audio(self, channel: int, start: int, end: int) -> tuple[Slice, ...]:
        """Where samples [start, end) of a channel lie; shorter where there is no sound."""
        return _slices(self.parts[channel], start, end)


async def split(
    source: str, options: JobOptions, spool: Spool, vad: Pool, clock: Clock, settings: BatchSettings
) -> AsyncGenerator[Chunk | Progress | SplitReport, None]:
    """Chunks of the blob `source`, each as soon as its audio is spooled, progress between them, the report at last.

    Chunks of one channel come in order. Raises InputInvalid and InputTooLarge (also after chunks came), SpoolFull,
    BlobMissing, and what voice activity raises. End the iteration with `aclose`.
    """
    with closing(await asyncio.to_thread(spool.open, source)) as file:
        opening = asyncio.ensure_future(asyncio.to_thread(Media, file, options.channels, settings.max_seconds))
        try:
            media = await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])  # FFmpeg reads the file, which must not be closed under it
            raise
        decoder = _Decoder(media)
        try:
            async for found in _split(decoder, options, spool, vad, clock):
                yield found
        finally:
            await decoder.close()


async def _split(
    decoder: _Decoder, options: JobOptions, spool: Spool, vad: Pool, clock: Clock
) -> AsyncGenerator[Chunk | Progress | SplitReport, None]:
    media = decoder.media
    tracks: dict[int, _Track] = {}
    silent = 0.0
    yield Progress(0.0, media.claimed, 0.0, 0.0, 1, decoder.work)
    last = False
    while not last:
        step = await decoder.next()
        last = step.last
        for channel, start, samples in step.sounds:
            if channel not in tracks:
                tracks[channel] = _Track(channel, start, spool, Hearing(vad, clock, Lane.BULK, _WITHIN))
            for chunk in await tracks[channel].take(samples):
                yield chunk
        for track in tracks.values() if last else ():
            for chunk in await track.finish():
                yield chunk
        channels = step.channels if options.channels is Channels.EACH else 1
        told = [tracks[n].silent if n in tracks else step.decoded for n in range(channels)]
        silent = max(silent, sum(told) / channels / SAMPLE_RATE)
        speech = sum(track.voice for track in tracks.values()) / SAMPLE_RATE
        work = decoder.work + sum(track.work for track in tracks.values())
        yield Progress(step.decoded / SAMPLE_RATE, media.claimed, speech, silent, channels, work)
    yield _report(media, tracks, channels)


def _report(media: Media, tracks: dict[int, _Track], channels: int) -> SplitReport:
    assert media.report is not None
    return SplitReport(
        container=media.claimed,
        decoded=media.decoded / SAMPLE_RATE,
        channels=channels,
        codec=media.codec,
        speech=tuple(tuple(tracks[n].speech) if n in tracks else () for n in range(channels)),
        parts=tuple(tuple(tracks[n].parts) if n in tracks else () for n in range(channels)),
        holes=tuple(
            Hole(span.start, span.end, channel, span.reason)
            for channel in sorted(tracks) or [0]
            for span in media.report.missing
        ),
        warnings=media.report.warnings,
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """The next seconds of sound: (channel, first sample, samples). `decoded` samples and `channels` so far."""

    sounds: list[tuple[int, int, Samples]]
    decoded: int
    channels: int
    last: bool
    """The file has ended, and there is nothing in this step."""


class _Decoder:
    """Runs the decoder in a thread, one step ahead of who takes its sound."""

    def __init__(self, media: Media) -> None:
        self.media = media
        self.work = 0.0
        self._sounds = media.sounds()
        self._ahead = asyncio.ensure_future(asyncio.to_thread(self._gather))

    async def next(self) -> _Step:
        """The next seconds; not to be called again after the last."""
        step = await self._ahead
        if not step.last:
            self._ahead = asyncio.ensure_future(asyncio.to_thread(self._gather))
        return step

    async def close(self) -> None:
        await asyncio.wait([self._ahead])  # FFmpeg must not be closed under the thread
        if not self._ahead.cancelled():
            self._ahead.exception()  # seen, when nobody waited for it
        await asyncio.to_thread(self.media.close)

    def _gather(self) -> _Step:
        began = perf_counter()
        seconds = list(islice(self._sounds, _AT_ONCE))
        joined: dict[int, list[Sound]] = {}
        for second in seconds:
            for sound in second:
                joined.setdefault(sound.channel, []).append(sound)
        made = [(n, of[0].start, np.concatenate([s.samples for s in of])) for n, of in joined.items()]
        self.work += perf_counter() - began
        return _Step(made, self.media.decoded, max(self.media.channels, 1), not seconds)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Samples [start, end) of the file that are decoded together, and the voice in them."""

    start: int
    end: int
    speech: tuple[tuple[int, int], ...]


class _Track:
    """One channel on its way: its parts, its voice, its chunks that wait for their last part."""

    def __init__(self, channel: int, start: int, spool: Spool, hearing: Hearing) -> None:
        self.parts: list[Part] = []
        self.speech: list[tuple[int, int]] = []
        self.voice = 0
        """Samples of speech."""
        self.silent = start
        """Samples that are settled without being in a chunk."""
        self.work = 0.0
        self._channel, self._start, self._spool, self._hearing = channel, start, spool, hearing
        self._segmenter = Segmenter(StreamConfig("", vad=_VAD, partials=False))
        self._pieces: list[_Piece] = []
        self._waiting: deque[list[_Piece]] = deque()
        self._unheard: Samples = np.zeros(0, np.float32)
        self._part = bytearray()
        self._heard = self._settled = start
        self._chunked = 0

    async def take(self, samples: Samples) -> list[Chunk]:
        """Hear the next samples; the chunks that are complete."""
        await self._keep(samples)
        self._unheard = np.concatenate([self._unheard, samples])
        whole = len(self._unheard) // _STRIDE * _STRIDE
        await self._hear(self._unheard[:whole])
        self._unheard = self._unheard[whole:].copy()
        return list(self._ready())

    async def finish(self) -> list[Chunk]:
        """End of the file."""
        rest = len(self._unheard)
        padded = np.zeros(-(-rest // _STRIDE) * _STRIDE, np.float32)
        padded[:rest] = self._unheard
        await self._hear(padded, rest)
        self._note(self._segmenter.finish(self._unheard[rest - rest % WINDOW :]))
        self._settled = self._heard + rest % WINDOW
        self.silent = self._settled - self._chunked
        if self._pieces:
            self._waiting.append(self._pieces)
        if self._part:
            await self._spool_part(len(self._part))
        return list(self._ready())

    async def _hear(self, samples: Samples, length: int | None = None) -> None:
        """Whole strides, of which the first `length` samples are the file's."""
        if not len(samples):
            return
        began = perf_counter()
        samples, probabilities = await self._hearing.hear(samples)
        windows = len(probabilities) if length is None else length // WINDOW
        self._note(self._segmenter.push(samples[: windows * WINDOW], probabilities[:windows]))
        self._heard += windows * WINDOW
        if not self._segmenter.speaking:
            self._settled = max(self._settled, self._heard - round(_LAG * SAMPLE_RATE))
        self.silent = max(self.silent, self._settled - self._chunked)
        self.work += perf_counter() - began

    def _note(self, signals: list[Signal]) -> None:
        for signal in signals:
            if isinstance(signal, Sealed):
                start = self._start + signal.piece.start
                end = start + len(signal.samples)
                spans = tuple((self._start + a, min(self._start + b, end)) for a, b in signal.piece.speech)
                self._pack(_Piece(start, end, spans))
                self.speech += spans
                self.voice += sum(b - a for a, b in spans)
                self._chunked += end - start
                self._settled = max(self._settled, end)

    async def _keep(self, samples: Samples) -> None:
        scaled = np.rint(samples * np.float32(32768))
        self._part += np.minimum(scaled, 32767, out=scaled).astype("<i2").tobytes()
        while len(self._part) >= (size := 2 * SAMPLE_RATE * _PARTS[min(len(self.parts), len(_PARTS) - 1)]):
            await self._spool_part(size)

    async def _spool_part(self, size: int) -> None:
        began = perf_counter()
        data = bytes(memoryview(self._part)[:size])
        del self._part[:size]
        blob = await asyncio.to_thread(self._spool.put, [data])
        start = self.parts[-1].end if self.parts else self._start
        self.parts.append(Part(start, start + size // 2, blob))
        self.work += perf_counter() - began

    def _ready(self) -> Iterator[Chunk]:
        while self._waiting and self.parts and self._waiting[0][-1].end <= self.parts[-1].end:
            pieces = self._waiting.popleft()
            runs = tuple(Run(one.start, one.end, _slices(self.parts, one.start, one.end)) for one in pieces)
            spans = tuple(span for one in pieces for span in one.speech)
            yield Chunk(f"c{self._channel}-{pieces[0].start:010d}", self._channel, runs, spans)

    def _pack(self, piece: _Piece) -> None:
        """Pieces share a chunk while they fit: with what was said before and after, the model does better."""
        length = sum(one.end - one.start for one in self._pieces)
        if self._pieces and length + piece.end - piece.start > LONGEST_PIECE * SAMPLE_RATE:
            self._waiting.append(self._pieces)
            self._pieces = []
        if self._pieces and self._pieces[-1].end == piece.start:
            last = self._pieces.pop()
            piece = _Piece(last.start, piece.end, last.speech + piece.speech)
        self._pieces.append(piece)


def _slices(parts: tuple[Part, ...] | list[Part], start: int, end: int) -> tuple[Slice, ...]:
    at = max(bisect_right(parts, start, key=lambda part: part.start) - 1, 0)
    slices = []
    for part in islice(parts, at, None):
        if part.start >= end:
            break
        first, last = max(start, part.start), min(end, part.end)
        if first < last:
            slices.append(Slice(part.blob, first - part.start, last - part.start))
    return tuple(slices)
