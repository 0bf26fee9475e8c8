"""Where `speechlane listen` takes its audio from: a file of any kind, standard input. Both give PCM16 blocks."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from speech.asr import SAMPLE_RATE, Samples
from speechlane.client import SourceError

BLOCK_SECONDS = 0.1
BLOCKS_AHEAD = 20
"""Blocks that are decoded before they are due; the reader waits when so many lie there."""
ENDING_SECONDS = 0.3
"""That a reader which is not wanted any more may take to notice it."""
_WAV_MARK = 12
"""Bytes from which on a WAV can be told: RIFF, its length, WAVE."""

Blocks = AsyncIterator[bytes]


def file_blocks(path: Path) -> Blocks:
    """A recording of any kind, 16 kHz mono, as fast as it is asked for."""
    from speech.containers import decode_file

    def read() -> Iterator[bytes]:
        with path.open("rb") as file:
            for samples in decode_file(file, max_seconds=float("inf")):
                yield pcm16(samples)

    return _cut(threaded(read), SAMPLE_RATE)


def stdin_blocks(rate: int) -> Blocks:
    """Standard input as mono of `rate` Hz: raw little-endian PCM16 of that rate, or a WAV, which says itself what it
    is."""

    def read() -> Iterator[bytes]:
        if sys.stdin is None:
            raise SourceError("standard input is closed; pipe raw PCM16 or a WAV into it")
        # Unbuffered: a buffered read would wait for a whole block of a slow pipe.
        pieces = iter(lambda: os.read(sys.stdin.fileno(), block_bytes(rate)), b"")
        head = b""
        while len(head) < _WAV_MARK and (piece := next(pieces, b"")):
            head += piece
        whole = chain([head], pieces)
        return _of_wav(whole, rate) if head[:4] == b"RIFF" and head[8:_WAV_MARK] == b"WAVE" else whole

    return _cut(threaded(read), rate)


def _of_wav(pieces: Iterator[bytes], rate: int) -> Iterator[bytes]:
    """The sound of a WAV that comes in pieces, of any rate and channels, as PCM16 of `rate` Hz."""
    import soxr

    from speech.containers import ContainerDecoder

    stream = soxr.ResampleStream(SAMPLE_RATE, rate, 1, dtype="float32") if rate != SAMPLE_RATE else None

    def resampled(samples: Samples, last: bool = False) -> bytes:
        return pcm16(samples if stream is None else stream.resample_chunk(samples, last=last))

    with ContainerDecoder() as decoder:
        for piece in pieces:
            yield resampled(decoder.feed(piece))
        yield resampled(decoder.flush(), last=True)


def pcm16(samples: Samples) -> bytes:
    """Float samples in [-1, 1] as little-endian 16-bit integers, clipped."""
    return (np.clip(samples, -1.0, 1.0) * 32767.0).round().astype("<i2").tobytes()


def block_bytes(rate: int) -> int:
    """Bytes of one block of PCM16."""
    return 2 * int(rate * BLOCK_SECONDS)


async def _cut(pieces: Blocks, rate: int) -> Blocks:
    """Pieces of any length as blocks of one; the last one is what is left, without half a sample."""
    size, kept = block_bytes(rate), bytearray()
    async for piece in pieces:
        kept += piece
        while len(kept) >= size:
            yield bytes(kept[:size])
            del kept[:size]
    if len(kept) >= 2:
        yield bytes(kept[: len(kept) // 2 * 2])


async def threaded(read: Callable[[], Iterator[bytes]]) -> Blocks:
    """What `read` gives, from a thread that may block; it dies with the process, so a silent pipe holds up nothing."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(BLOCKS_AHEAD)
    ended = threading.Event()

    def put(item: bytes | BaseException | None) -> None:
        asyncio.run_coroutine_threadsafe(queue.put(item), loop).result()

    def work() -> None:
        try:
            try:
                for piece in read():
                    put(piece)
                    if ended.is_set():
                        return
                put(None)
            except OSError as error:
                put(SourceError(f"the audio cannot be read: {error}"))
            except Exception as error:
                put(error)
        except RuntimeError:
            pass  # the loop has ended: nobody listens any more

    reader = threading.Thread(target=work, daemon=True, name="audio source")
    reader.start()
    try:
        while (item := await queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        # A decoder that is at work when the interpreter ends is a leak to the libraries under it, and they say so.
        ended.set()
        while not queue.empty():  # a reader that waits for room gets it
            queue.get_nowait()
        await asyncio.to_thread(reader.join, ENDING_SECONDS)
